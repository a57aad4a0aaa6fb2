"""Can a stored run be believed? Its files are as written, and its numbers follow from what was stored with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from engine.audit.tracks import track_of_run
from engine.metrics.bias import bias
from engine.store.runs import Run, damaged_tables

TOLERANCE = 1e-5
"""Verdicts are stored in float32."""


def verify_run(run: Run) -> dict[str, Any]:
    """{"ok": bool, "checks": [{"what", "ok"}]}: hashes of all tables, then what can be computed again."""
    damaged = damaged_tables(run)
    checks = [
        {"what": f"table {name} has the bytes that were written", "ok": name not in damaged}
        for name in run.meta["tables"]
    ]
    if not damaged:
        checks += track_of_run(run).part("verify")(run)
    return {"ok": all(check["ok"] for check in checks), "run": run.id, "checks": checks}


def recomputed(run: Run) -> list[dict[str, Any]]:
    """Every test bias of heads, from the stored verdicts."""
    prompts = run.table("prompts")[["prompt_id", "subgroup", "template", "descriptor"]]
    verdicts = run.table("generations").merge(prompts, on="prompt_id", validate="many_to_one")
    results = run.table("results")
    stored = results[(results["split"] == "test") & results["metric"].str.startswith("bias:")]
    checks = []
    for axis, rows in stored.groupby("axis"):
        parts = dict(list(verdicts[verdicts["axis"] == axis].groupby("variant")))
        again = np.array([_bias(parts[row.variant], row.metric) for row in rows.itertuples()])
        worst = float(np.abs(again - rows["value"].to_numpy()).max())
        what = f"{len(rows)} biases of {axis} follow from the stored verdicts (largest difference {worst:.1e})"
        checks.append({"what": what, "ok": worst <= TOLERANCE})
    return checks


def _bias(table: pd.DataFrame, metric: str) -> float:
    return bias(table.astype({"toxicity": "float64"}), metric.removeprefix("bias:"))
