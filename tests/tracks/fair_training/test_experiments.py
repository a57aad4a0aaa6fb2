"""Figures of BiFP: their requests hold up at the paper's settings and with `quick`; runs are
read."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from engine.audit.experiments import ExperimentAsk
from engine.tracks.fair_training.experiments._base import saved
from engine.tracks.fair_training.presets import REQUEST
from tests.experiment_checks import (
    QUICK,
    check_quick_requests,
    check_reading,
    of_paper,
    without_words,
)
from tests.tracks.fair_training.made_up_run import make_run

FOUND = of_paper("BiFP")
COMPUTED = [name for name, one in FOUND.items() if one.computes]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("store"))


def test_every_figure_is_there():
    assert {one.figure for one in FOUND.values()} == {f"Fig. {number}" for number in range(1, 9)}
    assert set(FOUND) - set(COMPUTED) == {"bifp-fig2"}


def test_quick_requests_hold_up_and_but_for_mobilenet_are_one_audit():
    check_quick_requests(FOUND)
    asked = {name: [without_words(one) for one in FOUND[name].requests(QUICK)] for name in COMPUTED}
    mobile = asked.pop("bifp-fig4")
    assert mobile[0].model == "mobilenet_v2" and mobile[0].train
    assert all(found == [without_words(REQUEST)] for found in asked.values())


@pytest.mark.parametrize("name", COMPUTED)
def test_a_run_is_read_beside_the_paper(name, run):
    assert check_reading(FOUND[name], [run])["what"].is_unique


def test_what_the_paper_says_it_saved_stands_beside_ours(run):
    table = check_reading(FOUND["bifp-fig6"], [run])
    assert set(table["paper"].dropna()) <= {0.9405, 0.9422} and table["paper"].notna().any()


def test_the_papers_settings_can_be_asked_for(monkeypatch):
    base = "engine.tracks.fair_training.experiments._base.kind_of"
    monkeypatch.setattr(base, lambda data: "celeba" if "celeba" in data else "lfw")
    for data, targets in (
        ("celeba", ["Blond_Hair", "Bags_Under_Eyes"]),
        ("lfw", ["Wavy Hair", "Big Nose"]),
    ):
        found = FOUND["bifp-fig3"].requests(ExperimentAsk(data=data))
        assert [one.target for one in found] == targets
        assert all(
            (one.model, one.tune_on, one.axes) == ("resnet10", "validation", ("Male",))
            for one in found
        )
        assert found[0].tradeoff_sparsity == 0.7 and found[0].sparsities[0] == 0.2
        assert [one.model for one in FOUND["bifp-fig4"].requests(ExperimentAsk(data=data))] == [
            "mobilenet_v2"
        ] * 2
        blond = [
            without_words(one) for one in FOUND["bifp-fig5"].requests(ExperimentAsk(data=data))
        ]
        assert blond == [without_words(found[0])], "figures of one target share its audit"


def rows(**by_method):
    return pd.DataFrame(
        [
            {
                "method": method,
                "reached": not math.isnan(steps),
                "iterations": steps,
                "total_iterations": 100.0,
            }
            for method, found in by_method.items()
            for steps in found
        ]
    )


def test_savings_are_bounds_where_no_rival_got_there():
    nan = math.nan
    frame = rows(a=(40, 60), b=(20, nan)).replace({"method": {"a": "pf", "b": "fp"}})
    mine = rows(a=(5, 15)).replace({"method": {"a": "bifp-str"}})
    assert saved(pd.concat([frame, mine])) == (pytest.approx(0.8), "")
    value, how = saved(pd.concat([rows(a=(nan, nan)).replace({"method": {"a": "pf"}}), mine]))
    assert value == pytest.approx(0.9) and "at least" in how
    assert math.isnan(saved(frame)[0])
