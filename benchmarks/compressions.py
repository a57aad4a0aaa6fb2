"""Compressions beside cuts of heads in one audit: bias, perplexity, divergence and bytes of every
variant.

Without options a small audit of the demo; `--model`, `--prompts`, `--corpus` and `--axis` name
others. What is finished in the store is found, so that a second call only prints.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.report import Measure, parser, show
from engine.core.types import Hooks
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.phrasing import percent
from engine.store.runs import Store, default_root
from engine.tracks.language_models.panels.cuts import pairs_of, sizes
from engine.tracks.language_models.request import AuditRequest
from engine.tracks.language_models.run import run_audit

METHODS = (
    "fasp",
    "random_noncritical",
    "wanda",
    "sparsegpt",
    "magnitude_weights",
    "random_weights",
    "layer_drop",
    "int8",
    "int4",
)


def main() -> int:
    """Audit and print. There is no bar: these are findings, not promises."""
    options = parser(__doc__)
    options.add_argument("--model", default="demo-gpt2")
    options.add_argument("--axis", default="nationality")
    options.add_argument("--prompts", help="as of the command audit")
    options.add_argument("--corpus", help="as of the command audit")
    options.add_argument(
        "--against", action="append", default=[], help="another checkpoint; may be repeated"
    )
    options.add_argument("--max-prompts", type=int, default=120)
    options.add_argument("--tokens", type=int, default=4000, help="of the text for perplexity")
    options.add_argument("--seeds", type=int, default=1)
    options.add_argument("--deployable", action="store_true", help="also cuts that load anywhere")
    options.add_argument("--store", type=Path, default=default_root())
    asked = options.parse_args()
    request = AuditRequest(
        model=asked.model,
        axes=(asked.axis,),
        prompts=asked.prompts,
        corpus=asked.corpus,
        methods=METHODS,
        against=tuple(asked.against),
        sparsities=(0.0, 0.2, 0.5),
        seeds=asked.seeds,
        max_prompts=asked.max_prompts,
        max_corpus_tokens=asked.tokens,
        max_new_tokens=20,
        controls=0,
        deployable=asked.deployable,
    )
    told = (
        (lambda event: None)
        if asked.json
        else (lambda event: print(f"\r{event.what[:60]:60}", end="", file=sys.stderr))
    )
    run = run_audit(request, Store(asked.store), Hooks(report=told))
    choice = Choice(method="fasp", axis=asked.axis, level=0.2, reading=request.reading)
    return show(rows(run, choice), asked.json)


def rows(run: Any, choice: Choice) -> list[Measure]:
    """Per variant: changes with their intervals, nats per token, flipped tokens, bytes."""
    table = sizes(run, choice)
    results = lookup.frame(run, "results").set_index(["variant", "metric"])["value"]
    dense = lookup.bias(run, "dense", choice)
    assert dense is not None, "the audit measures bias"
    found = [
        Measure(
            f"dense: bias {dense['value']:.3f} (null up to {dense['null_high']:.3f}), perplexity",
            results["dense", "perplexity"],
            "",
        )
    ]
    return (
        found
        + [_row(run, row, results) for row in table.to_dict("records")]
        + _paired(run, choice, table)
    )


def _paired(run: Any, choice: Choice, table: pd.DataFrame) -> list[Measure]:
    """Every other way that is closest in bytes, prompt by prompt beside the chosen cut of heads."""
    mine = table[table["variant"] == lookup.variant_of(run, choice)["variant"]].to_dict("records")
    found = pairs_of(run, choice, table, mine[0], "bytes") if mine else None
    if found is None:
        return []
    label = lookup.variant_label(run, found.reference)
    return [
        Measure(
            f"{lookup.variant_label(run, row)} beside {label} ({percent(row['bytes'])} and"
            f" {percent(found.reference['bytes'])} of the bytes): bias minus the cut's"
            f" [{row['pair_delta_low']:+.3f}, {row['pair_delta_high']:+.3f}], exchanged"
            f" [{row['pair_null_low']:+.3f}, {row['pair_null_high']:+.3f}], q"
            f" {row['pair_null_q']:.3f}",
            row["pair_delta"],
            "",
        )
        for row in found.others.to_dict("records")
    ]


def _row(run: Any, row: dict[str, Any], results: pd.Series) -> Measure:
    kl, flipped = (
        float(results.get((row["variant"], name), math.nan)) for name in ("divergence", "flipped")
    )
    what = (
        f"{lookup.variant_label(run, row)}: {percent(row['bytes'])} of the bytes, time x"
        f" {row['time']:.2f}, bias {row['delta']:+.3f} [{row['delta_low']:+.3f},"
        f" {row['delta_high']:+.3f}], perplexity {row['delta_q']:+.3f} [{row['delta_low_q']:+.3f},"
        f" {row['delta_high_q']:+.3f}], {percent(flipped)} flipped, nats per token"
    )
    return Measure(what, kl, "nats")


if __name__ == "__main__":
    sys.exit(main())
