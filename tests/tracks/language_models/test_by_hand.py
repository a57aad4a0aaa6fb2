"""Heads chosen by hand are measured as the audit measures its own cuts."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from engine.audit import measure
from engine.core.errors import RequestError
from engine.store.runs import Run

pytestmark = pytest.mark.usefixtures("words_judged")


@pytest.fixture
def run(audited) -> Run:
    return audited.run


def test_the_heads_of_a_variant_give_the_numbers_of_that_variant(run, tmp_path):
    """From an empty store too, so nothing is read off the run but what was asked."""
    variant = run.table("variants").query("method == 'magnitude' and sparsity == 0.3").iloc[0]
    cut = [divmod(unit, 4) for unit in json.loads(variant["cut"])]
    assert len(cut) == 3
    found, results = measure(run, cut, tmp_path / "another"), run.table("results")
    for name, own in (("by hand", variant["variant"]), ("dense", "dense")):
        expected = results[results["variant"] == own].reset_index(drop=True)
        shown = found[found["variant"] == name].reset_index(drop=True)
        pd.testing.assert_frame_equal(
            shown.drop(columns="variant"), expected.drop(columns="variant")
        )


def test_heads_that_are_not_there_are_refused(run, tmp_path):
    with pytest.raises(RequestError, match="outside 3 layers x 4 heads"):
        measure(run, [(3, 0)], tmp_path / "store")
    with pytest.raises(RequestError, match="named twice"):
        measure(run, [(1, 0), (1, 0)], tmp_path / "store")
