"""Predictions from single effects: by hand on small tables, honest where too little was
measured."""

import math

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import RequestError
from engine.core.types import rng
from engine.store.runs import EMBEDDED, Run, Store
from engine.tracks.language_models import predicted as module
from engine.tracks.language_models.predicted import (
    MISSES,
    WIDE,
    Guess,
    Singles,
    fitted,
    measured_sets,
    predicted,
    sums,
)
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
    assert found.units == (0, 1) and found.sets == 1 and "1 set of heads" in found.note
    assert found.change.value == pytest.approx(-0.25)  # as it was measured; summed -.3
    wide = WIDE * 0.3 + 2 * 0.07 + MISSES * 0.05
    assert found.change.high == pytest.approx(-0.25 + wide)
    assert found.bias.low == 0.0  # a bias is never below 0
    assert found.change.low == -0.5  # nor falls by more than it was
    assert found.perplexity.value == pytest.approx(14)
    beside = predicted(run_of(tmp_path / "more"), (0, 1, 2, 3), "a")  # half of these were measured
    assert beside.change.value == pytest.approx(-0.25 + 0.05 / 4)
    assert beside.perplexity.value == pytest.approx(10 * 1.1 * 1.2 * (14 / 13.2) ** 0.25)
    assert found.perplexity.low < found.perplexity.value < found.perplexity.high
    assert found.groups.empty


def test_no_heads_change_nothing(tmp_path):
    found = predicted(run_of(tmp_path), (), "a")
    assert found.change == Guess(0, 0, 0) and found.perplexity.value == 10


@pytest.mark.parametrize(("units", "axis"), [((4,), "a"), ((-1,), "a"), ((1, 1), "a"), ((1,), "b")])
def test_heads_and_axes_that_are_not_there_are_refused(tmp_path, units, axis):
    with pytest.raises(RequestError):
        predicted(run_of(tmp_path), units, axis)


def test_where_heads_were_not_ranked_nothing_is_predicted(tmp_path):
    scores = tables({})["scores"]
    scores.loc[scores["score"] == "z_bias", "value"] = math.nan
    found = predicted(run_of(tmp_path, scores=scores), (2,), "a")
    assert math.isnan(found.change.value) and math.isnan(found.bias.high)
    assert "not ranked" in found.note and found.perplexity.value == pytest.approx(10)


def test_groups_are_sums_of_their_effects(tmp_path):
    values = {"x": -0.1, "y": 0.02}.items()
    rows = [(unit, "a", group, value, 0.01) for unit in (0, 1) for group, value in values]
    table = pd.DataFrame(rows, columns=["unit", "axis", "group", "value", "error"])
    table = pd.concat([table, table.assign(unit=table["unit"] + 2, value=0.0, error=0.0)])
    columns = ["variant", "split", "axis", "metric", "group", "delta"]
    measured = pd.DataFrame([("(0, 1)", "test", "a", "toxicity", "x", -0.2)], columns=columns)
    run = run_of(tmp_path, head_groups=table, groups=measured)
    found = predicted(run, (0, 1, 2), "a").groups.set_index("group")
    assert found["value"].to_dict() == pytest.approx({"x": -0.2, "y": 0.04})
    assert found.loc["x", "high"] == pytest.approx(-0.2 + WIDE * 0.2 + 2 * 0.02)


def test_what_strong_heads_do_together_is_learnt_and_intervals_hold_where_sums_fail():
    """60 sets are learnt from, 60 are not, half of which hold the two heads that do more
    together."""
    draw, single = rng("predicted", 1), np.array([-0.4, -0.3, *[-0.01] * 10])
    sets, inside, both = {}, [], 0
    while len(sets) < 120:
        held = {*draw.permutation(12)[: 2 + draw.integers(4)].tolist()}
        held |= {0, 1} if len(sets) % 2 else set()
        change = single[[*held]].sum() - 0.25 * ({0, 1} <= held) + draw.normal(0, 0.01)
        sets.setdefault(tuple(sorted(held)), float(change))
    found = fitted(Singles(single, np.full(12, 0.02)), dict([*sets.items()][:60]))
    for cut, change in [*sets.items()][60:]:
        guess = found.guess(cut)
        inside.append(guess.low <= change <= guess.high)
        if {0, 1} <= {*cut}:
            both += 1
            assert abs(change - single[[*cut]].sum()) > 0.2 and abs(change - guess.value) < 0.05
    assert both >= 20 and np.mean(inside) >= 0.9


def test_a_head_that_was_cut_with_others_only_does_not_take_the_blame_for_them(monkeypatch):
    """Without head 9 alone perplexity rises by .0165 of its logarithm; sets that held it rose by
    far more. With few sets heads do not count as such: no interval is read off them alone."""
    run, axis = embedded()
    guess = sums(run, axis)[1].guess((9,))
    assert guess.low <= 0.0165 <= guess.high < 0.05
    monkeypatch.setattr(module, "ENOUGH", 200)
    assert all(len(cut) > 1 for cut in measured_sets(run, axis)[1])


def test_sets_larger_than_any_that_was_measured_are_said_to_be():
    run, axis = embedded()
    assert "too little" in predicted(run, range(48), axis).note
    assert "too little" not in predicted(run, range(5), axis).note


def embedded() -> tuple[Run, str]:
    """The embedded audit of a language model, and its first axis."""
    run = Store(EMBEDDED, read_only=True).open(demo_of("language_models"))
    return run, run.meta["request"]["axes"][0]


def test_a_prediction_goes_along_with_measured_levels_of_the_embedded_audit():
    """Perplexities left out in turn: half of what sums miss, no value at the edge of its own
    interval."""
    run, axis = embedded()
    text, sets = sums(run, axis)[1], measured_sets(run, axis)[1]
    missed, inside, every = [], [], [cut for cut in sets if len(cut) > 1][::5]
    for cut in every:
        guess = fitted(text.singles, {one: sets[one] for one in sets if one != cut}).guess(cut)
        assert guess.low < guess.value < guess.high
        missed.append(abs(sets[cut] - guess.value))
        inside.append(guess.low <= sets[cut] <= guess.high)
    summed = [abs(text.missed[cut]) for cut in every]
    assert np.median(missed) <= np.median(summed) / 2 and np.mean(inside) >= 0.9
