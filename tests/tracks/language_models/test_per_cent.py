"""Changes in per cent: by hand, in simulation, and on screen."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from engine.core.types import rng
from engine.report.charts.panel import Choice
from engine.report.contents import default_choice
from engine.store.runs import where
from engine.tracks.language_models.evidence import per_cent
from engine.tracks.language_models.panels.along_sparsity import changes_in_per_cent
from tests.tracks.language_models.made_up_run import make_run


def row(value, half, delta=0.0, moved=0.0):
    ends = {
        "low": value - half,
        "high": value + half,
        "delta_low": delta - moved,
        "delta_high": delta + moved,
    }
    return {"value": value, "delta": delta, **ends}


def changes(*rows, dense):
    return per_cent(pd.DataFrame(list(rows)), dense)


def test_a_full_model_known_exactly_is_a_plain_division():
    found = changes(row(0.6, 0.1, -0.4, 0.1), row(1.5, 0.2, 0.5, 0.2), dense=row(1.0, 0.0))
    assert np.allclose(found, [[-40, -50, -30], [50, 30, 70]])


def test_what_moves_in_proportion_is_known_better_than_either():
    # v = 0.5 v0 exactly: every error is v0's
    found = changes(row(0.5, 0.1, -0.5, 0.1), dense=row(1.0, 0.2)).iloc[0]
    assert np.allclose(found, -50)


def test_no_interval_without_one_and_none_of_a_full_model_not_told_from_zero():
    assert (
        changes(row(0.5, math.nan, -0.5, math.nan), dense=row(1.0, 0.1))[["low", "high"]]
        .isna()
        .all(None)
    )
    found = changes(row(0.5, 0.1, -0.5, 0.2), dense=row(1.0, 1.1)).iloc[0]
    assert found["value"] == -50 and math.isnan(found["low"]) and math.isnan(found["high"])
    assert changes(row(0.05, 0.2, -0.95, 0.2), dense=row(1.0, 0.1))["low"].iat[0] == -100


@pytest.mark.parametrize(
    ("ratio", "dense", "variant", "shared"),
    [
        (0.6, 0.3, 0.25, 0.7),
        pytest.param(1.5, 0.1, 0.2, 0.9, marks=pytest.mark.slow),
    ],
)
def test_coverage_where_the_full_model_is_measured_too(ratio, dense, variant, shared):
    draw = rng("per cent", ratio).standard_normal((2, 1500))
    before = 1 + dense * draw[0]
    after = ratio + variant * (shared * draw[0] + math.sqrt(1 - shared**2) * draw[1])
    moved = 1.96 * math.sqrt(dense**2 + variant**2 - 2 * shared * dense * variant)
    rows = [
        changes(row(two, 1.96 * variant, two - one, moved), dense=row(one, 1.96 * dense)).iloc[0]
        for one, two in zip(before, after, strict=True)
    ]
    told = pd.DataFrame(rows).dropna()
    truth = 100 * (ratio - 1)
    assert (
        len(told) > 1200 and 0.93 < (told["low"].le(truth) & told["high"].ge(truth)).mean() < 0.97
    )


def test_the_panel_shows_changes_beside_levels(tmp_path):
    run = make_run(tmp_path)
    choice = default_choice(run)
    panel = changes_in_per_cent(run, choice)
    assert len(panel.parts) == 2 and panel.whole().data and "By how many per cent" in panel.question
    table = panel.table.dropna(subset=["change of bias, %"])
    results = run.table("results").query("variant == 'dense' and split == 'test'")
    dense = where(results, metric="bias:group_means", axis=choice.measured)["value"].iloc[0]
    assert np.allclose(table["change of bias, %"], 100 * (table["bias"] / dense - 1))
    assert " %" in panel.said and "Fieller" in panel.caveat
    nowhere = changes_in_per_cent(run, Choice("fasp", "no such axis", 0.1))
    assert not nowhere.has_chart and "lacks" in nowhere.said
