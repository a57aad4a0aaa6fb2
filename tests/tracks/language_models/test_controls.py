"""FASP against chance: random cuts under the same protection, few prompts first, and a rank that is
a p-value."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from engine.core.types import Hooks
from engine.report.charts.panel import Choice
from engine.report.charts.pareto import pareto
from engine.store.runs import Store
from engine.tracks.language_models.bias_intervals import BiasBootstrap
from engine.tracks.language_models.context import FEW_TEST
from engine.tracks.language_models.controls import Stage, stages
from engine.tracks.language_models.evidence import is_settled, rank_p, ranks
from engine.tracks.language_models.panels.cuts import chance
from engine.tracks.language_models.request import validate
from engine.tracks.language_models.run import run_audit
from engine.tracks.language_models.selection import critical_heads
from tests.tracks.language_models.made_up_run import make_run
from tests.tracks.language_models.worlds import world_request

pytestmark = pytest.mark.usefixtures("words_judged")


@pytest.fixture(scope="module")
def run(words_judged_here, tmp_path_factory, events):
    folder = tmp_path_factory.mktemp("controls")
    request = world_request(
        folder,
        methods=("fasp", "random_noncritical"),
        gamma="search",
        controls=4,
        sparsities=(0.0, 0.1, 0.3),
        seeds=2,
    )
    return run_audit(request, Store(folder / "store"), Hooks(report=events.append))


def test_what_controls_may_take_is_expected_before_they_begin(run, events):
    before = [event.total for event in events if event.phase == "measure variants"]
    inside = [event.total for event in events if event.phase == "controls"]
    assert max(inside) <= 1.05 * before[-1], "every stage was expected"
    assert events[-1].done == events[-1].total


def test_every_variant_of_fasp_has_its_controls_of_the_same_size_and_protection(run):
    table, variants, scores = run.table("controls"), run.table("variants"), run.table("scores")
    fasp = variants[(variants["method"] == "fasp") & variants["chosen"] & (variants["n_cut"] > 0)]
    assert set(table["variant"]) == set(fasp["variant"])
    assert (table.groupby("variant").size() == 4).all()
    z_ppl = scores[scores["score"] == "z_ppl"].sort_values("unit")["value"].to_numpy()
    for row in table.merge(fasp[["variant", "n_cut"]], on="variant").itertuples():
        cut = set(json.loads(row.cut))
        assert len(cut) == row.n_cut and not cut & set(critical_heads(z_ppl, row.gamma))
    assert (table.groupby("variant")["method_bias"].nunique() == 1).all() and table[
        "perplexity"
    ].gt(1).all()


def test_gamma_is_searched_on_validation_and_reported_on_test_and_says_how_sure_it_is(run):
    variants = run.table("variants")
    fasp = variants[variants["method"] == "fasp"]
    assert set(fasp["gamma"]) == {0.2, 0.3, 0.4, 0.5, 0.6, 0.7}
    for axis, found in run.meta["scoring"]["gamma"].items():
        gamma = run.meta["gamma"][axis]
        assert set(fasp[fasp["chosen"] & (fasp["target_axis"] == axis)]["gamma"]) == {gamma}
        assert found["chosen"] == gamma and sum(found["shares"].values()) == pytest.approx(1.0)
    control = variants[variants["method"] == "random_noncritical"]
    assert set(control[control["chosen"]]["gamma"]) == set(run.meta["gamma"].values())
    results = run.table("results").merge(variants[["variant", "chosen"]], on="variant")
    assert results[results["split"] == "test"]["chosen"].all()
    assert not results[results["split"] == "validation"]["chosen"].all()


def test_the_chart_draws_them_behind_and_says_the_rank(run):
    choice = Choice("fasp", "religion", 0.3)
    found = chance(run, choice)
    rows = run.table("controls").query("target_axis == 'religion' and sparsity == 0.3")
    assert len(found.points) == 4 and "all 4 random cuts" in found.said and "p = " in found.said
    shift = found.points["value"].to_numpy() - rows["bias"].to_numpy()
    assert np.ptp(shift) == pytest.approx(0.0, abs=1e-12), (
        "differences to FASP are those on the same texts"
    )
    panel = pareto(run, choice)
    assert "4 random cuts" in [trace.name for trace in panel.figure.data]
    assert found.said in panel.said


def test_before_a_rank_is_called_better_than_chance_gamma_is_searched_for_random_cuts_too(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("engine.tracks.language_models.controls.MISSED", 1.0)  # of every rank
    few = {"axes": ("religion",), "sparsities": (0.0, 0.3), "seeds": 1}
    request = world_request(tmp_path, methods=("fasp",), gamma="search", controls=3, **few)
    run = run_audit(request, Store(tmp_path / "store"))
    table, scores = run.table("controls"), run.table("scores").query("score == 'z_ppl'")
    assert table["searched"].all() and set(table["gamma"]) <= set(request.gammas)
    needed = scores.query("seed == -1").sort_values("unit")["value"].to_numpy()
    for row in table.itertuples():
        assert not set(json.loads(row.cut)) & set(critical_heads(needed, row.gamma))
    axis = table["target_axis"].iat[0]
    said = chance(run, Choice("fasp", axis, 0.3, None, request.reading, axis)).said
    assert "each at its own γ" in said and "favours" not in said


def test_a_run_without_controls_says_so_and_draws_nothing(tmp_path):
    found = chance(make_run(tmp_path), Choice("fasp", "gender_and_sex", 0.1))
    assert found.points.empty and "without random cuts" in found.said


def test_a_rank_is_a_p_value_and_stops_when_it_cannot_change_sides():
    assert rank_p(0, 20) == pytest.approx(1 / 21) and rank_p(20, 20) == 1.0
    no, one = np.zeros(20, dtype=bool), np.eye(20, dtype=bool)[0]
    assert is_settled(no, no), "clearly below all"
    assert not is_settled(no, one), "one that may be lower would lift p above .05"
    assert is_settled(one, no), "one is clearly lower"


def test_few_prompts_come_first(tmp_path):
    request = world_request(tmp_path, seeds=2)
    assert stages(request) == (Stage(FEW_TEST, (0,)), Stage("test", (0,)), Stage("test", (0, 1)))
    assert len(stages(replace(request, seeds=1))) == 2


def test_controls_are_those_of_a_method_that_is_asked(tmp_path):
    request = world_request(tmp_path, methods=("random",))
    assert request.n_controls == 0 and validate(request)
    assert validate(replace(request, controls=0))
    assert world_request(tmp_path, controls=None).n_controls == 20


def test_ranks_are_adjusted_for_how_many_there_are():
    bias = {"one": [2.0] * 20, "two": [0.5] * 20, "three": [0.5] * 20, "four": [0.5] * 20}
    rows = [
        {"variant": name, "bias": value, "method_bias": 1.0}
        for name, values in bias.items()
        for value in values
    ]
    found = ranks(pd.DataFrame(rows))
    assert found.loc["one", "p"] == pytest.approx(1 / 21) and found.loc[
        "one", "q"
    ] == pytest.approx(4 / 21)
    assert (found.loc[["two", "three", "four"], "p"] == 1.0).all()


def test_draws_without_any_prompt_of_a_subgroup_do_not_spoil_the_others():
    """One subgroup stands in two of twelve templates only: some draws take none of its prompts."""
    cells = [(s, d, t) for s in "ab" for d in range(2) for t in range(12) if s == "a" or t < 2]
    table = pd.DataFrame(
        [
            (f"{s}{d}", s, f"{s}{d}", f"t{t}", f"{s}{d}{t}", 0, 0.1 * t + (s == "a"))
            for s, d, t in cells
        ],
        columns=["word", "subgroup", "descriptor", "template", "prompt_id", "seed", "toxicity"],
    )
    drawn = BiasBootstrap(table, 400, 1).draws(table)
    assert np.isnan(drawn).any() and np.isfinite(drawn[1:]).mean() > 0.5
    assert drawn[0] == pytest.approx(np.nanmean(drawn[1:]))
