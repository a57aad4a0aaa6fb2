"""Heads chosen by hand join a finished audit: measured as its own arms are, tried before test,
verified, exported."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from engine.audit.request import Growth
from engine.audit.verification import verify_run
from engine.report.bundle import write_masks
from engine.store.runs import Store, where
from engine.surgery.record import read_mask
from engine.tracks.text_classifiers.growing import grow, known
from engine.tracks.text_classifiers.run import run_text_audit
from tests.pages.checks import assert_calm, html_of, measured_by, opened, use_store, words_of
from tests.tracks.text_classifiers.worlds import text_request

METHODS = ("once:magnitude", "one-shot-isp:random")


@pytest.fixture(scope="module")
def run(world):
    request = text_request(world, methods=METHODS, trials=2, random_masks=30, leave_one_out=False)
    return run_text_audit(request, Store(world / "store"))


@pytest.fixture
def store(copy, tmp_path):
    """A store with the run and none of its measurements: the second seed's full model is fine-tuned
    again."""
    return Store(tmp_path)


def growth(run, **asked):
    return Growth(
        **{"track": "text_classifiers", "run": run.id, "axis": "side", "units": (1, 5), **asked}
    )


def test_a_set_is_measured_as_an_arm_that_cuts_the_same_heads(run, store):
    """Single scoring by magnitude cuts other heads in each seed: every seed's rows are those of its
    own set."""
    variants = run.table("variants").set_index("variant")
    name = "once:magnitude-25%#0"
    cut = tuple(json.loads(variants.loc[name, "cut"]))
    found = grow(growth(run, units=cut, split="test", name="mine"), store)
    rows = found.table("predictions").set_index("variant")
    columns = [column for column in rows if column.startswith("p_")]
    np.testing.assert_array_equal(rows.loc["by-hand-mine#0", columns], rows.loc[name, columns])
    own = found.table("results")
    mine, same = (
        own[own["variant"] == one].drop(columns="variant").reset_index(drop=True)
        for one in ("by-hand-mine#0", name)
    )
    pd.testing.assert_frame_equal(mine, same)
    row = found.table("variants").set_index("variant").loc["by-hand-mine"]
    assert (row["n_cut"], row["parameters"]) == (len(cut), variants.loc[name, "parameters"])
    assert not row["retrained"] and row["chosen"] and verify_run(found)["ok"]
    assert any("1 of 2 seeds was fine-tuned again" in note for note in found.added[0].meta["notes"])
    assert len(
        read_mask(write_masks(found, store.root / "masks", "by-hand-mine#1")[0]).mask.cut
    ) == len(cut)


def test_the_prediction_holds_what_was_measured_and_learns_from_it(run, store):
    before = known(run)
    guess = before.guess((1, 5)).set_index(["axis", "group", "metric"])
    assert ((guess["low"] <= guess["value"]) & (guess["value"] <= guess["high"])).all()
    rows = guess.reset_index()
    for gap in where(rows, metric="accuracy_gap").itertuples():
        groups = where(rows, metric="accuracy", axis=gap.axis)
        assert len(groups) > 1 and gap.value == pytest.approx(np.ptp(groups["value"]))
    few = before.guess((1,))  # fewer heads than any random mask cut: no change lies within
    assert before.least > 1 and ((few["delta_low"] <= 0) & (few["delta_high"] >= 0)).all()
    after = grow(growth(run, split="test"), store)
    assert known(after).model.sets == before.model.sets + 1
    assert before.guess(())["delta"].tolist() == [0.0] * len(guess)


def test_a_whole_layer_and_everything_can_be_silenced(run, store):
    for units in (tuple(range(4)), tuple(range(12))):
        found = grow(growth(run, units=units, split="test"), store)
    assert found.table("variants")["realised"].max() == 1.0 and verify_run(found)["ok"]


def test_heads_are_switched_on_the_page_predicted_and_measured_in_two_steps(visit):
    at = visit("bench", off="0.1,1.1")
    assert at.multiselect(key="off").value == [1, 5]
    assert "Predicted, not measured" in html_of(at) and "nothing is trained again" in words_of(at)
    at = measured_by(at, "Measure on training texts")
    assert "What came out where it was tried?" in words_of(
        at
    ) and "Predicted, not measured" in html_of(at)
    at = measured_by(at, "Measure on test texts")
    assert "Predicted, not measured" not in html_of(at) and "a variant like any other" in words_of(
        at
    )


@pytest.mark.slow
def test_without_random_masks_nothing_is_predicted_and_that_is_said(world, tmp_path, monkeypatch):
    request = text_request(
        world, methods=("one-shot-isp:random",), sparsities=(0.25,), trials=1, leave_one_out=False
    )
    store = Store(tmp_path)
    bare = run_text_audit(replace(request, random_masks=None), store)
    assert known(bare) is None
    use_store(tmp_path, monkeypatch)
    at = opened("bench", bare.id, off="0.1")
    assert_calm(at)
    assert "learnt from random masks" in html_of(at)
    assert any(one.label.startswith("Measure on training texts") for one in at.button)
