"""Predictions from single effects: by hand on small tables, honest where too little was
measured."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import RequestError
from engine.core.ids import rng
from engine.stats.measured_sets import ENOUGH
from engine.store.runs import EMBEDDED, Run, Store, open_run
from engine.tracks.language_models.predicted import (
    MISSES,
    WIDE,
    Singles,
    fitted,
    measured_sets,
    predicted,
    scales,
)

HEADS = 4
Z = {0: 0.2, 1: 0.1, 2: -0.05, 3: 0.0}
ERRORS = {0: 0.03, 1: 0.04, 2: 0.0, 3: 0.0}
Z_PPL = {0: -1.0, 1: -2.0, 2: 0.0, 3: 0.0}
"""Perplexity is 10: without head 0 it is 11, without head 1 it is 12."""


def tables(measured: dict[tuple[int, ...], tuple[float, float]]) -> dict[str, pd.DataFrame]:
    """A run of four heads whose variants changed bias by so much and had such a perplexity, by
    heads cut."""
    scores = [(unit, "z_bias", "a", -1, Z[unit], ERRORS[unit]) for unit in range(HEADS)]
    scores += [(unit, "z_ppl", "", -1, Z_PPL[unit], math.nan) for unit in range(HEADS)]
    results = [
        ("dense", "test", "a", "bias:group_means", 0.5, math.nan),
        ("dense", "test", "", "perplexity", 10, 0),
    ]
    for name, (change, text) in measured.items():
        results += [(str(name), "test", "a", "bias:group_means", 0.5 + change, change)]
        results += [
            (str(name), "test", "", "perplexity", text, text - 10),
            (str(name), "validation", "a", "bias:group_means", 9.0, 9.0),
        ]
    variants = [("dense", "[]")] + [(str(name), str(list(name))) for name in measured]
    return {
        "scores": pd.DataFrame(scores, columns=["unit", "score", "axis", "seed", "value", "error"]),
        "results": pd.DataFrame(
            results, columns=["variant", "split", "axis", "metric", "value", "delta"]
        ),
        "variants": pd.DataFrame(variants, columns=["variant", "cut"]),
    }


def run_of(folder, **more: pd.DataFrame) -> Run:
    request = {"axes": ["a"], "methods": ["fasp"], "reading": "group_means", "seeds": 1}
    meta = {
        "title": "t",
        "created": "2026",
        "model": {"name": "m", "n_layers": 2, "n_heads": 2},
        "request": request,
    }
    return Store(folder).write("run1", meta, {**tables({(0, 1): (-0.25, 14.0)}), **more})


def test_effects_add_up_and_an_audit_with_too_few_sets_says_how_wide_it_guesses(tmp_path):
    found = predicted(run_of(tmp_path), (1, 0), "a")
    assert found.units == (0, 1) and found.sets == 1 and "1 set of heads" in found.note
    assert found.change.value == pytest.approx(-0.25)  # as it was measured; summed -.3
    wide = WIDE * 0.3 + 2 * 0.07 + MISSES * 0.05
    assert (found.change.low, found.change.high) == pytest.approx((-0.25 - wide, -0.25 + wide))
    assert found.bias.low == 0.0  # a bias is never below 0
    assert found.perplexity.value == pytest.approx(14)
    beside = predicted(run_of(tmp_path / "more"), (0, 1, 2, 3), "a")  # half of these were measured
    assert beside.change.value == pytest.approx(-0.25 + 0.05 / 4)
    assert beside.perplexity.value == pytest.approx(10 * 1.1 * 1.2 * (14 / 13.2) ** 0.25)
    assert (
        found.perplexity.low < found.perplexity.value < found.perplexity.high and found.groups.empty
    )


def test_no_heads_change_nothing(tmp_path):
    found = predicted(run_of(tmp_path), (), "a")
    assert (found.change.value, found.change.low, found.change.high) == (
        0,
        0,
        0,
    ) and found.perplexity.value == 10


@pytest.mark.parametrize(("units", "axis"), [((4,), "a"), ((-1,), "a"), ((1, 1), "a"), ((1,), "b")])
def test_heads_and_axes_that_are_not_there_are_refused(tmp_path, units, axis):
    with pytest.raises(RequestError):
        predicted(run_of(tmp_path), units, axis)


def test_where_heads_were_not_ranked_nothing_is_predicted(tmp_path):
    scores = tables({})["scores"]
    scores.loc[scores["score"] == "z_bias", "value"] = math.nan
    found = predicted(run_of(tmp_path, scores=scores), (0,), "a")
    assert (
        math.isnan(found.change.value)
        and math.isnan(found.bias.high)
        and "not ranked" in found.note
    )
    assert found.perplexity.value == pytest.approx(11)


def test_groups_are_sums_of_their_effects(tmp_path):
    rows = [
        (unit, "a", group, value, 0.01)
        for unit in (0, 1)
        for group, value in (("x", -0.1), ("y", 0.02))
    ]
    table = pd.DataFrame(rows, columns=["unit", "axis", "group", "value", "error"])
    table = pd.concat([table, table.assign(unit=table["unit"] + 2, value=0.0, error=0.0)])
    measured = pd.DataFrame(
        [("(0, 1)", "test", "a", "toxicity", "x", -0.1)],
        columns=["variant", "split", "axis", "metric", "group", "delta"],
    )
    found = predicted(
        run_of(tmp_path, head_groups=table, groups=measured), (0, 1, 2), "a"
    ).groups.set_index("group")
    assert found["value"].to_dict() == pytest.approx({"x": -0.2, "y": 0.04})
    assert found.loc["x", "high"] == pytest.approx(-0.2 + WIDE * 0.2 + 2 * 0.02)


def world(interact: float, heads: int = 12) -> tuple[Singles, dict, dict]:
    """Effects of which the first two carry most and, together, `interact` more; 60 sets that were
    measured, and 60 that were not, half of which hold both."""
    draw = rng("predicted", 1)
    single = np.array([-0.4, -0.3, *[-0.01] * (heads - 2)])
    sets: dict[tuple[int, ...], float] = {}
    while len(sets) < 120:
        cut = tuple(sorted(draw.permutation(heads)[: 2 + draw.integers(4)].tolist()))
        cut = tuple(sorted({*cut, 0, 1})) if len(sets) % 2 else cut
        both = interact if {0, 1} <= {*cut} else 0.0
        sets.setdefault(cut, float(single[list(cut)].sum() + both + draw.normal(0, 0.01)))
    measured, others = dict(list(sets.items())[:60]), dict(list(sets.items())[60:])
    return Singles(single, np.full(heads, 0.02)), measured, others


def test_what_strong_heads_do_together_is_learnt_and_intervals_hold_where_sums_fail():
    singles, measured, others = world(-0.25)
    found = fitted(singles, measured)
    both = {cut: change for cut, change in others.items() if {0, 1} <= {*cut}}
    off = [abs(change - singles.value[list(cut)].sum()) for cut, change in both.items()]
    assert len(both) >= 20 and min(off) > 0.2
    assert all(abs(found.guess(cut).value - change) < 0.05 for cut, change in both.items())
    held = [found.guess(cut) for cut in others]
    inside = [
        one.low <= change <= one.high for one, change in zip(held, others.values(), strict=True)
    ]
    assert np.mean(inside) >= 0.9


def test_an_interval_is_wide_where_no_measured_set_holds_such_a_head():
    singles, measured, _ = world(0.0)
    never = {cut: change for cut, change in measured.items() if 0 not in cut}
    often = {cut: change for cut, change in measured.items() if 0 in cut}
    alone = fitted(singles, dict(list((never | often).items())[: max(len(never), 39)]))
    known, new = alone.guess((1, 5)), alone.guess((0, 5))
    assert new.high - new.low > 1.5 * (known.high - known.low)


def test_sets_larger_than_any_that_was_measured_are_said_to_be(tmp_path):
    sets = {(unit, other): 0.0 for unit in range(10) for other in range(unit)}
    singles = Singles(np.zeros(10), np.ones(10))
    scale = fitted(singles, sets)
    assert scale.learnt.most == 2 and len(sets) >= ENOUGH
    embedded = next(
        run for run in map(Store(EMBEDDED).open, Store(EMBEDDED).ids()) if run.has("head_groups")
    )
    axis = embedded.meta["request"]["axes"][0]
    assert "too little" in predicted(embedded, range(48), axis).note
    assert "too little" not in predicted(embedded, range(5), axis).note


def test_intervals_hold_what_is_measured_where_effects_interact():
    """Sets whose changes miss the sum by a share of its size and by noise: 95 % intervals of new
    sets hold most."""
    draw = rng("predicted", 0)
    singles = Singles(-draw.gamma(1.0, 0.02, 48), np.full(48, 0.01))

    def measured() -> tuple[tuple[int, ...], float]:
        cut = tuple(sorted(draw.permutation(48)[: 2 + draw.integers(12)].tolist()))
        return cut, float(
            1.2 * singles.value[list(cut)].sum() + draw.normal(0, 0.01 * math.sqrt(len(cut)))
        )

    found = fitted(singles, dict(measured() for _ in range(150)))
    new = [(found.guess(cut), change) for cut, change in (measured() for _ in range(300))]
    assert np.mean([guess.low <= change <= guess.high for guess, change in new]) >= 0.9


def test_the_embedded_audit_predicts_from_its_own_sets():
    store = Store(EMBEDDED, read_only=True)
    run = next(
        one for one in map(store.open, store.ids()) if one.meta["track"] == "language_models"
    )
    found = predicted(open_run(run.path), (1, 9, 17), run.meta["request"]["axes"][0])
    assert found.sets > 100 and found.change.low < found.change.value < found.change.high
    assert found.perplexity.low <= found.perplexity.value <= found.perplexity.high < 100


def test_a_prediction_goes_along_with_measured_levels_of_the_embedded_audit():
    """Levels of perplexity left out in turn: half of what sums miss, and no value at the edge of
    its own interval."""
    store = Store(EMBEDDED, read_only=True)
    run = next(
        one for one in map(store.open, store.ids()) if one.meta["track"] == "language_models"
    )
    axis = run.meta["request"]["axes"][0]
    text, sets = scales(run, axis)[1], measured_sets(run, axis)[1]
    summed, missed, inside = [], [], []
    for cut in list(sets)[::5]:
        others = {one: log for one, log in sets.items() if one != cut}
        guess = fitted(text.singles, others).guess(cut)
        assert guess.low < guess.value < guess.high
        summed.append(abs(text.missed[cut]))
        missed.append(abs(sets[cut] - guess.value))
        inside.append(guess.low <= sets[cut] <= guess.high)
    assert np.median(missed) <= np.median(summed) / 2 and np.mean(inside) >= 0.9
