"""Verdicts solved by hand: runs whose every cut has the same few numbers, written over a made-up
one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.report.advice import advice, wider
from engine.report.charts import lookup
from engine.report.contents import default_choice
from engine.report.verdict import verdict
from engine.store.runs import Store
from tests.tracks.language_models.made_up_run import FEW, make_run

AXIS = "gender_and_sex"
STILL = (0.5, 0.0, -0.01, 0.01)
CHEAP = (2.0, 0.0, -0.002, 0.002)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("base"), "base", **FEW)


def told(base, folder, harm, groups, quality=CHEAP, null=(0.1, 0.1)):
    """The run where every cut moves the bias (before, change, its interval), the groups in turn
    (the same; None: too few prompts) and perplexity; null: the upper end before and after."""
    tables = {name: base.table(name) for name in base.meta["tables"]}
    rows, of = tables["results"], tables["groups"]
    is_bias = (rows["metric"] == "bias:group_means") & (rows["axis"] == AXIS)
    _write(rows, is_bias, harm)
    is_dense = rows["variant"] == "dense"
    rows.loc[is_bias & is_dense, ["null_low", "null_high"]] = 0.0, null[0]
    rows.loc[is_bias & ~is_dense, ["null_low", "null_high"]] = 0.0, null[1]
    _write(rows, rows["metric"] == "perplexity", quality)
    of["verdict"] = "too few prompts"
    for name, numbers in zip(
        sorted(of.loc[of["axis"] == AXIS, "group"].unique()), groups, strict=False
    ):
        mine = (of["axis"] == AXIS) & (of["group"] == name) & (of["metric"] == "toxicity")
        if numbers is not None:
            _write(of, mine, numbers)
            of.loc[mine, "verdict"] = ""
    meta = {key: value for key, value in base.meta.items() if key != "tables"}
    run = Store(folder).write("told", meta, tables)
    return (
        run,
        default_choice(run, AXIS),
        [f"“{name}”" for name in sorted(of.loc[of["axis"] == AXIS, "group"].unique())],
    )


def _write(table, rows, numbers):
    before, change, low, high = numbers
    dense = rows & (table["variant"] == "dense")
    table.loc[dense, "value"] = before
    table.loc[rows & ~dense, ["value", "delta", "delta_low", "delta_high"]] = (
        before + change,
        change,
        low,
        high,
    )


def test_a_gap_that_fell_because_the_worst_off_gained(base, tmp_path):
    run, choice, names = told(
        base, tmp_path, (1.0, -0.6, -0.8, -0.4), [(0.8, -0.5, -0.6, -0.4), STILL]
    )
    said = verdict(run, choice)
    assert (
        said.sentence == "Cutting 6 of 32 heads lowers toxicity for "
        f"{names[0]}, and the bias by gender and sex by 60 %."
    )
    assert (
        said.meaning == "No single group is clearly worse off. The bias fell from 1.0 to 0.40."
        " Chance alone would give up to 0.10."
    )
    assert [fact.value for fact in said.numbers][0] == "0.40" and said.numbers[0].kind == "better"


def test_levelling_down_is_named_and_partly_so(base, tmp_path):
    fell = (1.0, -0.3, -0.5, -0.1)
    worse = [STILL, (0.1, 0.3, 0.2, 0.4)]
    run, choice, names = told(base, tmp_path / "a", fell, worse)
    said = verdict(run, choice)
    assert (
        said.sentence == f"Cutting 6 of 32 heads raises toxicity for {names[1]}, but lowers the"
        " bias by gender and sex by 30 %."
    )
    assert said.meaning.endswith(
        "That is levelling down: the best-off group got worse, and no group clearly gained."
    )
    run, choice, names = told(base, tmp_path / "b", fell, [(0.8, -0.2, -0.3, -0.1), worse[1]])
    assert "partly levelling down" in verdict(run, choice).meaning
    run, choice, names = told(
        base, tmp_path / "c", fell, [(0.4, 0.2, 0.1, 0.3), (0.1, -0.05, -0.08, -0.02)]
    )
    said = verdict(run, choice)
    assert f"raises toxicity for {names[0]}, but" in said.sentence
    assert "levelling" not in said.meaning


def test_what_is_unclear_or_chance_is_said_to_be(base, tmp_path):
    run, choice, _ = told(base, tmp_path / "a", (1.0, -0.3, -0.7, 0.1), [STILL, STILL])
    assert (
        verdict(run, choice).sentence == "Cutting 6 of 32 heads leaves no group clearly worse off."
    )
    assert "does not clearly change: 1.0 before the cut, 0.70 now" in verdict(run, choice).meaning
    run, choice, _ = told(
        base, tmp_path / "b", (1.0, -0.9, -1.0, -0.8), [STILL, STILL], null=(0.1, 0.3)
    )
    assert "Chance alone would give as much (up to 0.30)" in verdict(run, choice).meaning
    run, choice, _ = told(
        base, tmp_path / "c", (0.2, -0.1, -0.15, -0.05), [STILL, STILL], null=(0.3, 0.3)
    )
    assert (
        "was no more than chance, so no change is claimed: 0.20 before the cut, 0.10 now"
        in verdict(run, choice).meaning
    )
    assert "not supported" in verdict(run, choice).more
    run, choice, _ = told(base, tmp_path / "d", (1.0, 1.2, 0.9, 1.5), [(0.5, 0.2, 0.1, 0.3), STILL])
    assert "raises the bias by gender and sex by 120 % and toxicity for" in (
        verdict(run, choice).sentence
    )
    run, choice, _ = told(base, tmp_path / "e", (1.0, -0.3, np.nan, np.nan), [None, None])
    assert "too few prompts to tell whether the bias changed" in verdict(run, choice).meaning
    assert "no group has enough prompts to tell" in verdict(run, choice).sentence


def test_nothing_cut_and_missing_cells(base, tmp_path):
    run, choice, names = told(
        base, tmp_path, (1.0, -0.3, -0.5, -0.1), [(0.8, 0, -1, 1), (0.1, 0, -1, 1)]
    )
    uncut = verdict(run, replace(choice, level=0.0))
    assert (
        uncut.sentence
        == f"Nothing is cut here: toxicity is 0.80 for {names[0]} and 0.10 for {names[1]}."
    )
    assert [fact.was for fact in uncut.numbers] == [
        "",
        "",
        "",
    ] and uncut.cost == "Perplexity is 2.0."
    elsewhere = verdict(run, replace(choice, axis="religion", measured_axis="no_such_axis"))
    assert "was not measured here" in elsewhere.sentence and elsewhere.meaning == ""


def test_the_largest_level_without_a_loss_is_recommended_with_what_could_have_been_missed(
    base, tmp_path
):
    run, choice, names = told(base, tmp_path / "a", STILL, [(0.5, 0.0, -0.02, 0.02), STILL])
    methods = len(lookup.methods(run, AXIS))
    found = advice(run, choice)
    missed = 0.02 * wider(methods, 1)
    assert found.level == max(lookup.levels(run, choice.method, AXIS))
    assert f"a loss of up to {missed:.2g} for {names[0]} could have been missed" in found.said
    run, choice, _ = told(base, tmp_path / "b", STILL, [(0.5, 0.0, -0.09, 0.09), STILL])
    assert advice(run, choice).level is None and "yet: at" in advice(run, choice).said, (
        "a loss of 0.1 is not ruled out"
    )
    run, choice, _ = told(base, tmp_path / "c", STILL, [(0.5, 0.05, 0.01, 0.09), STILL])
    assert advice(run, choice).level is None and (
        f"clearly worsens toxicity for {names[0]}" in advice(run, choice).said
    )
    run, choice, _ = told(base, tmp_path / "d", STILL, [STILL, STILL], quality=(2.0, 0.3, 0.2, 0.4))
    assert "clearly worsens perplexity" in advice(run, choice).said
    run, choice, _ = told(
        base, tmp_path / "e", STILL, [STILL, STILL], quality=(2.0, 0.01, 0.005, 0.015)
    )
    assert advice(run, choice).level is not None, "half a per cent of perplexity is a trifle"


def test_intervals_widen_with_looks_and_more_so_over_few_models():
    assert wider(1, 1) == pytest.approx(1) == pytest.approx(wider(1, 3))
    assert wider(7, 1) == pytest.approx(2.6901 / 1.9600, abs=1e-3)
    assert wider(7, 3) == pytest.approx(11.7687 / 4.3027, abs=2e-2)
