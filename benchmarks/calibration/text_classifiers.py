"""What conductance of heads loses: percentile of scores among random masks, and their agreement
with the truth.

demo-bert on `remarks`, fine-tuned here; single scoring, nothing trained again; mean of the seeds.
Nothing is claimed. Finished parts are kept in the store ($PRUNEAUDIT_STORE), so a second run takes
seconds.
"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from benchmarks.report import Measure
from engine.core.types import POOLED
from engine.store.runs import Run, Store, default_root
from engine.tracks.text_classifiers.request import REMARKS

STEPPED = ("attribution_mass", "conductance", "abs_corr", "fixed_class")
"""Scores that integrate along a path."""
SCORES = (*STEPPED, "gradient_x_activation", "michel")
SHARES = (0.25, 0.5, 0.75)


def measures(quick: bool) -> list[Measure]:
    """Percentile of every score among random masks, and correlation with what silencing each head
    alone costs in loss.

    quick: one seed, one epoch, few texts and masks.
    """
    run = _run(quick)
    return [*_percentiles(run.table("random_ranks")), *_agreement(run.table("truth_agreement"))]


def _run(quick: bool) -> Run:
    from engine.tracks.text_classifiers.run import run_text_audit

    methods = tuple(f"once:{score}" for score in SCORES)
    asked = replace(
        REMARKS,
        methods=methods,
        sparsities=SHARES,
        axes=("class",),
        leave_one_out=True,
        random_masks=200,
        keep_weights="none",
    )
    if quick:
        asked = replace(
            asked,
            trials=1,
            tune={"epochs": 1},
            score_texts=8,
            max_texts=60,
            random_masks=10,
            score_settings={score: {"steps": 2} for score in STEPPED},
        )
    return run_text_audit(asked, Store(default_root()))


def _percentiles(ranks: pd.DataFrame) -> list[Measure]:
    rows = ranks[ranks["axis"] == ""]
    return [
        Measure(
            f"demo-bert, {row.sparsity:.0%} cut: percentile of {row.method.partition(':')[2]} among"
            f" {row.n_masks} random masks, mean of {row.n_seeds} seeds",
            100 * row.percentile,
            "",
        )
        for row in rows.itertuples()
    ]


def _agreement(table: pd.DataFrame) -> list[Measure]:
    rows = table[(table["metric"] == "loss") & (table["seed"] == POOLED)]
    return [
        Measure(
            f"demo-bert: {name} of {row.score} with the loss that silencing each head alone costs,"
            f" {row.n_heads} heads",
            value,
            "",
        )
        for row in rows.itertuples()
        for name, value in (("Pearson", row.pearson), ("Spearman", row.spearman))
    ]
