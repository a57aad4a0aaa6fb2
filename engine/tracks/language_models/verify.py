"""Do the numbers of a run follow from what it stored? Every bias and perplexity is computed again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from engine.core.types import Window
from engine.store.runs import Run
from engine.tracks.language_models import stored_benchmarks
from engine.tracks.language_models.bias import bias
from engine.tracks.language_models.perplexity import perplexity

TOLERANCE = 1e-5
"""Verdicts are stored in float32."""


def recomputed(run: Run) -> list[dict[str, Any]]:
    """Every test bias of heads, from the stored verdicts; of what was added also those on validation prompts."""
    prompts = run.table("prompts")[["prompt_id", "subgroup", "template", "descriptor"]]
    verdicts = run.table("generations").merge(prompts, on="prompt_id", validate="many_to_one")
    results = run.table("results")
    stored = results[results["metric"].str.startswith("bias:")]
    checks = []
    for axis, rows in stored.groupby("axis"):
        parts = dict(list(verdicts[verdicts["axis"] == axis].groupby(["variant", "split"])))
        kept = [row.split == "test" or (row.variant, row.split) in parts for row in rows.itertuples()]
        rows = rows[kept]  # texts of the search for γ are not kept
        again = np.array([_bias(parts[row.variant, row.split], row.metric) for row in rows.itertuples()])
        worst = float(np.abs(again - rows["value"].to_numpy()).max())
        what = f"{len(rows)} biases of {axis} follow from the stored verdicts (largest difference {worst:.1e})"
        checks.append({"what": what, "ok": worst <= TOLERANCE})
    return [*checks, *(_perplexities(run, results) if run.has("windows") else []), *stored_benchmarks.checks(run)]


def _perplexities(run: Run, results: pd.DataFrame) -> list[dict[str, Any]]:
    """Every perplexity of the text, from its windows; exp of a mean, so compared by its logarithm."""
    preset = Window(published=bool(run.meta["request"].get("published_perplexity")))
    parts = dict(list(run.table("windows").groupby(["variant", "split"])))
    rows = results[results["metric"] == "perplexity"]
    again = [perplexity(parts[row.variant, row.split], preset) for row in rows.itertuples()]
    worst = float(np.abs(np.log(again) - np.log(rows["value"].to_numpy(dtype=float))).max())
    what = f"{len(rows)} perplexities follow from the stored windows of text (largest difference of logs {worst:.1e})"
    return [{"what": what, "ok": bool(worst <= TOLERANCE)}]


def _bias(table: pd.DataFrame, metric: str) -> float:
    return bias(table.astype({"toxicity": "float64"}), metric.removeprefix("bias:"))
