"""A finished run as JSON and as a few lines of text, for the command line."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from engine.audit.variants import of_axis
from engine.store.runs import Run
from engine.words import AXES

SHOWN = ("value", "low", "high", "n", "null_mean", "null_high", "null_p", "delta", "delta_low", "delta_high")


def summary_of(run: Run) -> dict[str, Any]:
    """JSON-able: request, model, warnings, γ, and the test results of every reported variant."""
    meta, variants = run.meta, run.table("variants")
    results = run.table("results")
    reported = results[results["split"] == "test"].merge(
        variants[variants["chosen"]][["variant", "method", "target_axis", "gamma", "sparsity", "realised"]],
        on="variant",
    )
    keep = ["variant", "method", "target_axis", "gamma", "sparsity", "realised", "axis", "metric", *SHOWN]
    return {
        "run": run.id,
        "title": meta["title"],
        "request": meta["request"],
        "model": meta["model"],
        "judge": meta["judge"],
        "gamma": meta["gamma"],
        "warnings": meta["warnings"],
        "spent": meta["spent"],
        "results": [_plain(row) for row in reported[keep].to_dict("records")],
    }


def summary_text(run: Run) -> str:
    """One block per axis: bias and perplexity of the dense model and of each variant aimed at that axis."""
    meta, results, variants = run.meta, run.table("results"), run.table("variants")
    test = results[results["split"] == "test"]
    ppl = test[test["metric"] == "perplexity"].set_index("variant")
    lines = [f"run {run.id}: {meta['title']}", *(f"! {warning}" for warning in meta["warnings"])]
    for axis in meta["request"]["axes"]:
        rows = test[(test["metric"] == f"bias:{meta['request']['reading']}") & (test["axis"] == axis)].set_index(
            "variant"
        )
        lines.append(f"\n{AXES.get(axis, axis)}  (bias with 95 % interval; null band up to; perplexity)")
        for item in of_axis(variants[variants["chosen"]], axis, meta["gamma"]).itertuples():
            lines.append(_line(item.variant, rows.loc[item.variant], ppl.loc[item.variant]))
    return "\n".join(lines)


def _line(name: str, bias: pd.Series, ppl: pd.Series) -> str:
    change = "" if math.isnan(bias.delta) else f"  {bias.delta:+.3f} {_ends(bias.delta_low, bias.delta_high, '+.3f')}"
    return (
        f"  {name:<44} {bias.value:.3f} {_ends(bias.low, bias.high, '.3f')}{change:<28} "
        f"null {bias.null_high:.3f}  ppl {ppl.value:.2f}"
    )


def _ends(low: float, high: float, form: str) -> str:
    return "(no interval)" if math.isnan(low) or math.isnan(high) else f"[{low:{form}}, {high:{form}}]"


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN."""
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}
