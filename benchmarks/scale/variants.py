"""Texts of the embedded audit's variants: drawn the chosen way over drawn plainly, each variant; the same texts.

Usually one in EVERY variants; `--full` takes all of them. The prompts of one decoding seed, on all axes.
"""

from __future__ import annotations

import json
import time
from unittest.mock import patch

import numpy as np

from benchmarks.report import Measure
from benchmarks.scale import said
from benchmarks.scale._embedded import embedded_context, embedded_run
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.measurements import texts

EVERY = 7
BAR, BAR_TOGETHER = 1.0, 0.8


def measures(full: bool = False) -> list[Measure]:
    run, context = embedded_run(), embedded_context()
    table = run.table("variants")
    cuts = [tuple(json.loads(cut)) for cut in dict.fromkeys(table.loc[table["chosen"], "cut"])]
    cuts = [cut for cut in cuts if cut][:: 1 if full else EVERY]
    axes = sorted(context.table["axis"].unique())
    context.fetch([Shard("texts", (), axis, "test", 0) for axis in axes])
    plain, chosen, differ = np.zeros(len(cuts)), np.zeros(len(cuts)), 0
    for at, cut in enumerate(cuts):
        shards = [Shard("texts", cut, axis, "test", 0) for axis in axes]
        start = time.process_time()
        found = context.fetch(shards)
        chosen[at] = time.process_time() - start
        start = time.process_time()
        with patch.object(texts, "nearest", lambda *given: None), patch.object(texts, "remember", lambda *given: None):
            drawn = context.kind("texts").compute(context, shards)
        plain[at] = time.process_time() - start
        differ += sum(
            int((a["ids"].map(tuple) != b["ids"].map(tuple)).sum()) for a, b in zip(found, drawn, strict=True)
        )
        said(f"variant {at + 1} of {len(cuts)}, {len(cut)} heads off: {chosen[at] / plain[at]:.2f} of plain")
    each = int((context.table["split"] == "test").sum())
    name = f"{each} texts of {len(cuts)} variants of the embedded audit:"
    return [
        Measure(f"{name} chosen way over plain, the slowest", float((chosen / plain).max()), "", BAR),
        Measure(f"{name} chosen way over plain, together", float(chosen.sum() / plain.sum()), "", BAR_TOGETHER),
        Measure(f"{name} texts that differ", float(differ), "texts", 0.0),
        Measure(f"{name} plain", float(plain.sum()), "s"),
    ]
