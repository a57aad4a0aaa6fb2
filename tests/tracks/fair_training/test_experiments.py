"""Figures of BiFP: their requests hold up at the paper's settings and with `quick`; runs are
read."""

import math

import pandas as pd
import pytest

from engine.audit.experiments import ExperimentAsk
from engine.core.errors import RequestError
from engine.tracks.fair_training.context import looked_rows
from engine.tracks.fair_training.experiments.paper import DEMO, TARGETS, saved
from engine.tracks.fair_training.request import validate_fair
from tests.builders import changed
from tests.experiment_checks import (
    QUICK,
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


def test_quick_asks_the_papers_setting_and_ours_at_equal_flops():
    asked = {name: [without_words(one) for one in FOUND[name].requests(QUICK)] for name in COMPUTED}
    for there, ours in asked.values():
        assert (there.equal, there.tune_on, ours.equal) == ("filters", "validation", "FLOPs")
        assert 1 - there.check_every / there.iterations > 0.9422
    mobile = asked.pop("bifp-fig4")
    assert mobile[0].model == "mobilenet_v2" and mobile[0].train
    assert all(found[1] == without_words(DEMO) for found in asked.values())
    notions = {name: found[0].notion for name, found in asked.items()}
    assert notions.pop("bifp-fig6") == "degradation" and set(notions.values()) == {"accuracy"}


def test_all_that_is_not_the_papers_is_told(run, tmp_path):
    (told,) = set(check_reading(FOUND["bifp-fig6"], [run])["differs"])
    for words in ("target", "sparsities", "first training"):
        assert f"; {words} " in told
    assert "not stated there" in told and "gap trained against accuracy, not degradation" in told
    assert told.endswith("two stages begin with FPGM or SNIP, not with Lottery too")
    wide = changed(run, tmp_path, "hypervolume", {"difference_high": 0.0})
    areas = FOUND["bifp-fig5"].table([wide], QUICK).query("says == 'falls'")
    assert areas["agrees"].tolist() == ["cannot be told"] * 2, "their intervals reach 0"


def test_quick_looks_at_enough_of_every_group_to_see_a_gap():
    images = validate_fair(FOUND["bifp-fig6"].requests(QUICK)[0]).images.table
    looked = images.iloc[looked_rows(images, "validation")]
    assert looked.value_counts(["male", "label"]).min() >= 5


def test_the_papers_settings_can_be_asked_for(monkeypatch):
    base = "engine.tracks.fair_training.experiments.paper.kind_of"
    monkeypatch.setattr(base, lambda data: "celeba" if "celeba" in data else "lfw")
    for data, targets in TARGETS.items():
        found, mobile, last = (
            FOUND[f"bifp-fig{place}"].requests(ExperimentAsk(data=f"/no/{data}"))
            for place in (3, 4, 5)
        )
        for one in (*found, *mobile):
            with pytest.raises(RequestError, match="/no/") as caught:
                validate_fair(one)
            assert len(caught.value.faults) == 1
        assert [one.target for one in found] == [name for name in targets for _ in range(2)]
        assert [one.equal for one in found] == ["filters", "FLOPs"] * 2
        assert {(one.model, one.tune_on) for one in found} == {("resnet10", "validation")}
        assert found[0].tradeoff_sparsity == 0.7 and found[0].sparsities[0] == 0.2
        assert [one.model for one in mobile] == ["mobilenet_v2"] * 4
        both = [[*map(without_words, some)] for some in (last, found[:2])]
        assert both[0] == both[1], "figures of one target share its audits"


def rows(**by_method):
    found = [(method, steps) for method, every in by_method.items() for steps in every]
    table = pd.DataFrame(found, columns=["method", "iterations"])
    return table.assign(reached=table["iterations"].notna(), total_iterations=100.0)


def test_savings_are_bounds_where_no_rival_got_there():
    nan = math.nan
    frame, mine = rows(pf=(40, 60), fp=(20, nan)), rows(**{"bifp-str": (5, 15)})
    value, how = saved(pd.concat([frame, mine]), 5)
    assert value == pytest.approx(0.8) and how == ", against P&F (looks let 90 % show at most)"
    value, how = saved(pd.concat([rows(pf=(nan, nan)), mine]), 5)
    assert value == pytest.approx(0.9) and "at least" in how and "95 % show" in how
    assert math.isnan(saved(frame, 5)[0])
