"""Do the numbers of a run follow from what it stored? Every bias and perplexity is computed
again."""

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
AT_ONCE = 1 << 18
"""Verdicts that are held at a time, about."""


def recomputed(run: Run) -> list[dict[str, Any]]:
    """Every test bias of heads, from the stored verdicts; of what was added also those on
    validation prompts."""
    results = run.table("results")
    stored = results[results["metric"].str.startswith("bias:")]
    each = run.rows("generations") / max(1, len(stored[["axis", "variant"]].drop_duplicates()))
    checks, size = [], max(1, int(AT_ONCE / max(1.0, each)))
    for axis, rows in stored.groupby("axis"):
        names = rows["variant"].unique()
        some = [
            rows[rows["variant"].isin(names[at : at + size])] for at in range(0, len(names), size)
        ]
        apart = np.concatenate([_apart(run, axis, part) for part in some])
        worst = float(apart.max())
        what = (
            f"{len(apart)} biases of {axis} follow from the stored verdicts (largest difference"
            f" {worst:.1e})"
        )
        checks.append({"what": what, "ok": worst <= TOLERANCE})
    return [
        *checks,
        *(_perplexities(run, results) if run.has("windows") else []),
        *stored_benchmarks.checks(run),
    ]


def _apart(run: Run, axis: str, rows: pd.DataFrame) -> np.ndarray:
    """How far the biases of these results are from those of the stored verdicts, where there are
    any (those of the search for γ are not kept): [rows that have]."""
    prompts = run.part(
        "prompts", {"axis": [axis]}, ["prompt_id", "subgroup", "template", "descriptor"]
    )
    where = {"axis": [axis], "variant": rows["variant"].unique()}
    verdicts = run.part("generations", where, ["prompt_id", "variant", "split", "toxicity"])
    parts = dict(list(verdicts.groupby(["variant", "split"])))
    found = []
    for row in rows.itertuples():
        if row.split == "test" or (row.variant, row.split) in parts:
            part = parts[row.variant, row.split].merge(
                prompts, on="prompt_id", validate="many_to_one"
            )
            found.append(abs(_bias(part, row.metric) - row.value))
    return np.array(found)


def _perplexities(run: Run, results: pd.DataFrame) -> list[dict[str, Any]]:
    """Every perplexity of the text, from its windows; exp of a mean, so compared by its
    logarithm."""
    preset = Window(published=bool(run.meta["request"].get("published_perplexity")))
    parts = dict(list(run.table("windows").groupby(["variant", "split"])))
    rows = results[results["metric"] == "perplexity"]
    again = [perplexity(parts[row.variant, row.split], preset) for row in rows.itertuples()]
    worst = float(np.abs(np.log(again) - np.log(rows["value"].to_numpy(dtype=float))).max())
    what = (
        f"{len(rows)} perplexities follow from the stored windows of text (largest difference of"
        f" logs {worst:.1e})"
    )
    return [{"what": what, "ok": bool(worst <= TOLERANCE)}]


def _bias(table: pd.DataFrame, metric: str) -> float:
    return bias(table.astype({"toxicity": "float64"}), metric.removeprefix("bias:"))
