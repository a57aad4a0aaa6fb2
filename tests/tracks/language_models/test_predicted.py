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
from engine.tracks.language_models.predicted import WIDE, Scale, Singles, fitted, predicted
from tests.places import demo_of

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
    assert found.units == (0, 1) and found.sets == 1 and "1 set of several heads" in found.note
    assert found.change.value == pytest.approx(-0.3)
    wide = WIDE * 0.3 + 2 * 0.07
    assert (found.change.low, found.change.high) == pytest.approx((-0.3 - wide, -0.3 + wide))
    assert (found.bias.value, found.bias.low) == (
        pytest.approx(0.2),
        0.0,
    )  # a bias is never below 0
    assert found.perplexity.value == pytest.approx(10 * 1.1 * 1.2)  # shares multiply
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


def test_ends_are_ranks_of_what_sums_missed():
    """39 sets of two heads without error of their own: residuals 1 to 39 hundredths, so f sqrt(2)
    is their median."""
    singles = Singles(np.zeros(80), np.zeros(80))
    sets = {(2 * at, 2 * at + 1): (at + 1) / 100 for at in range(ENOUGH)}
    found = fitted(singles, sets, together=False)
    assert found.per_head * math.sqrt(2) == pytest.approx(0.2)
    guess = found.guess((0, 3))
    assert (guess.low, guess.high) == (
        0,
        pytest.approx(0.39),
    )  # never measured below the sum, at most 0.39 above
    assert found.guess((0, 3, 5, 7, 9, 11, 13, 15)).high == pytest.approx(
        0.39 * 2
    )  # four times the heads


def test_sets_larger_than_any_that_was_measured_are_said_to_be(tmp_path):
    sets = {(unit, other): 0.0 for unit in range(10) for other in range(unit)}
    singles = Singles(np.zeros(10), np.ones(10))
    scale = fitted(singles, sets, together=False)
    assert scale.most == 2 and len(sets) >= ENOUGH
    embedded = Store(EMBEDDED).open(demo_of("language_models"))
    axis = embedded.meta["request"]["axes"][0]
    assert "too little" in predicted(embedded, range(48), axis).note
    assert "too little" not in predicted(embedded, range(5), axis).note


def test_errors_add_by_squares_or_all_the_same_way():
    singles = Singles(np.array([0.0, 0.0]), np.array([3.0, 4.0]))
    for together, size in ((False, 5.0), (True, 7.0)):
        assert Scale(singles, together, 0.0, -1.0, 1.0, 99).guess((0, 1)).high == pytest.approx(
            size
        )


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

    found = fitted(singles, dict(measured() for _ in range(150)), together=False)
    new = [(found.guess(cut), change) for cut, change in (measured() for _ in range(300))]
    assert np.mean([guess.low <= change <= guess.high for guess, change in new]) >= 0.9


def test_the_embedded_audit_predicts_from_its_own_sets():
    run = Store(EMBEDDED).open(demo_of("language_models"))
    found = predicted(open_run(run.path), (1, 9, 17), run.meta["request"]["axes"][0])
    assert found.sets > 100 and found.change.low < found.change.value < found.change.high
    assert found.perplexity.low <= found.perplexity.value <= found.perplexity.high < 100
