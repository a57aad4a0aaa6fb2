"""Compressions beside cuts of heads in one audit: bias, perplexity, divergence and bytes of every
variant.

Without options a small audit of the demo; `--model`, `--prompts`, `--corpus` and `--axis` name
others. What is finished in the store is found, so that a second call only prints.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.report import parser
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.store.runs import Store, default_root, where
from engine.tracks.language_models.panels.cuts import by_bytes, divergence
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
    """Audit and print what the panels' tables say. There is no bar: these are findings."""
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
    run = run_audit(request, Store(asked.store))
    choice = Choice(method="fasp", axis=asked.axis, level=0.2, reading=request.reading)
    dense = where(lookup.frame(run, "results"), variant="dense", split=lookup.REPORTED)
    tables = {"dense": dense[["metric", "axis", "value", "null_high"]]}
    tables |= {panel.key: panel.table for panel in (by_bytes(run, choice), divergence(run, choice))}
    if asked.json:
        print(json.dumps({name: json.loads(table.to_json()) for name, table in tables.items()}))
    else:
        print(*(table.to_string(index=False) for table in tables.values()), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
