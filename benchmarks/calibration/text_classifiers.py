"""What conductance of heads loses: percentile of scores among random masks, and their agreement
with the truth.

demo-bert on `remarks`, fine-tuned here; single scoring, nothing trained again; mean of the seeds.
Nothing is claimed of that. Finished parts are kept in the store ($PRUNEAUDIT_STORE), so a second
run takes seconds. Worlds with known truth: slopes of costs on scores, changes of Matthews' r.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from benchmarks.calibration.classifiers import answers_of, measured
from benchmarks.report import Measure
from engine.classifiers.layout import TEXTS
from engine.core.types import POOLED
from engine.report.tracks import Measure as Metric
from engine.report.verdict import loss_of
from engine.store.runs import Run, Store, default_root, where
from engine.tracks.text_classifiers.metrics import Matthews
from engine.tracks.text_classifiers.request import REMARKS
from engine.tracks.text_classifiers.tables import agreement

STEPPED = ("attribution_mass", "conductance", "abs_corr", "fixed_class")
"""Scores that integrate along a path."""
SCORES = (*STEPPED, "gradient_x_activation", "michel")
SHARES = (0.25, 0.5, 0.75)


def measures(quick: bool) -> list[Measure]:
    """Percentile of every score among random masks, and correlation with what silencing each head
    alone costs in loss.

    quick: one seed, one epoch, few texts and masks.
    """
    run, worlds = _run(quick), 20 if quick else 200
    found = [*_percentiles(run.table("random_ranks")), *_agreement(run.table("truth_agreement"))]
    found += [one for each in RARE for one in _matthews(*each, worlds)]
    return [*found, *_slopes(5 * worlds)]


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


RARE = ((300, 0.05, 0.9, 0.85), (600, 0.05, 0.8, 0.75))
"""Texts, the share of positives, and of those how many are found before and after a cut."""


def _matthews(size: int, share: float, before: float, after: float, worlds: int) -> list[Measure]:
    """Coverage of a change of Matthews' correlation, and how often a loss of its size is ruled out,
    where few positives turn."""

    def truth(found: float, false: float = 0.01) -> float:
        said = share * found + (1 - share) * false
        together = share * found - share * said
        return float(together / np.sqrt(share * (1 - share) * said * (1 - said)))

    held, passed, loss = [], [], truth(before) - truth(after)
    for draw in map(np.random.default_rng, range(worlds)):
        label = (draw.random(size) < share).astype(int)
        score, false = draw.random((2, size))
        one, other = (
            answers_of(np.where(label == 1, score < found, false < 0.01).astype(int))
            for found in (before, after)
        )
        measure = measured(label, "all", one, items=TEXTS, further=[Matthews()])
        rows = measure.variant([other]).pooled("cut").results
        row = where(rows, metric="matthews").iloc[0].to_dict()
        held.append(row["delta_low"] <= -loss <= row["delta_high"])
        passed.append(loss_of(Metric("matthews"), row, "", loss, False).is_below)
    name = f"{size} texts, {share:.0%} positive"
    return [
        Measure(f"coverage of a change of Matthews' r, {name}", np.mean(held), "", 1.0, floor=0.92),
        Measure(f"a loss as large as tolerated is ruled out, {name}", np.mean(passed), "", 0.06),
    ]


def _slopes(worlds: int) -> list[Measure]:
    """Coverage of the slope of what 72 heads cost on a score, where costs scatter alike, or more
    the larger the score; and how often a score is said to know them that tells their scatter
    alone."""
    held: list[tuple[bool, bool, bool]] = []
    for draw in map(np.random.default_rng, range(worlds)):
        score, noise = draw.gamma(1.0, size=72), draw.normal(size=72)
        costs = score + noise, score * (1 + noise / 2), noise * score
        alike, more, none = (agreement(score.tolist(), part.tolist()) for part in costs)
        true = score.std(ddof=1)
        covered = (one["slope_low"] <= true <= one["slope_high"] for one in (alike, more))
        held.append((*covered, none["slope_low"] > 0))
    same, apart, said = np.mean(held, axis=0)
    name = "coverage of the slope of costs on a score, costs scatter"
    return [
        Measure(f"{name} alike", same, "", 0.98, floor=0.92),
        Measure(f"{name} with it", apart, "", 0.98, floor=0.9),
        Measure("a score is said to know costs whose scatter alone it tells", said, "", 0.06),
    ]
