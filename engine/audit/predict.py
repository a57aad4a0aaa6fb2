"""Before the time is spent: is there a bias to rank heads by, how long will it take, how wide will intervals be?

Dense validation texts and the pilot's are finished parts of the audit itself, so a prediction wastes next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from engine.audit.executors import Executor, Local
from engine.audit.measured import wanted_shards
from engine.audit.request import AuditRequest, validate
from engine.audit.search import search_shards
from engine.audit.variants import all_variants
from engine.metrics.bench import Bench, Shard
from engine.metrics.bias import null_band
from engine.scores import pilot
from engine.scores.base import VALIDATION
from engine.scores.effects import AxisData, dense_shards
from engine.selection.base import selection_method
from engine.store.runs import Store
from engine.types import POOLED, Event, Hooks

if TYPE_CHECKING:
    from engine.audit.run import Audit

NULL_DRAWS = 200


def predict(request: AuditRequest, store: Store, hooks: Hooks = Hooks(), executor: Executor | None = None) -> dict:  # noqa: B008  (frozen)
    """The prediction of a request, JSON-able. Raises as `run_audit` does."""
    from engine.audit.run import open_audit

    plan = validate(request)
    store.prove_writable()
    return prediction(open_audit(plan, store, hooks, executor or Local()))


def prediction(audit: Audit) -> dict[str, Any]:
    """Per axis the dense bias against its null band, predicted seconds and interval widths; in all, and in words."""
    axes = {axis: _axis(audit, axis) for axis in audit.request.axes}
    scoring = sum(said["seconds"].get(audit.request.estimator, said["seconds"]["gradient"]) for said in axes.values())
    per_text = float(np.median([said["draw_seconds"] for said in axes.values()]))
    measuring = per_text * _texts_to_measure(audit)
    found = {"axes": axes, "scoring_seconds": scoring, "measuring_seconds": measuring}
    found["words"] = _words(audit, found)
    audit.progress.report(Event("predict", 0, 0, "", None, found["words"]))
    return found


def _axis(audit: Audit, axis: str) -> dict[str, Any]:
    job, bench = audit.job, audit.bench
    trial = Shard("pilot", (), axis, VALIDATION, job.seeds[0])
    audit.executor.run(bench, "predict", [*dense_shards(job, axis), trial], audit.progress)
    data = AxisData(job, axis)
    band, measured = null_band(data.table, job.reading, NULL_DRAWS), job.fetch([trial])[0]
    texts = len(data.table)
    draw = measured[(measured["estimator"] == "dense")].iloc[0]
    return {
        "prompts": data.n,
        "bias": band.value,
        "null_high": band.high,
        "signal": bool(band.value > band.high),
        "seconds": pilot.seconds_for(measured, job.total, texts),
        "width": dict(pilot.widths_for(measured, texts)),
        "draw_seconds": float(draw["seconds"] / draw["n"]),
    }


def _texts_to_measure(audit: Audit) -> int:
    """Continuations that variants will need: those of made-up scores, which cut as many heads as real ones will."""
    request, total = audit.request, audit.job.total
    wanted = {score for name in request.methods for score in selection_method(name).needs}
    rows = [
        pd.DataFrame({"unit": range(total), "score": score, "axis": axis, "seed": POOLED, "value": values})
        for score in sorted(wanted)
        for axis in (request.axes if score == "z_bias" else ("",))
        for values in [np.random.default_rng(len(axis) + len(score)).normal(size=total)]
    ]
    scores = pd.concat(rows) if rows else pd.DataFrame(columns=["unit", "score", "axis", "seed", "value"])
    variants = all_variants(request, scores, total)
    shards = set(wanted_shards(request, variants)) | set(search_shards(request, variants))
    return sum(_texts(audit.bench, shard) for shard in shards)


def _texts(bench: Bench, shard: Shard) -> int:
    return len(bench.rows(shard.axis, shard.split)) if shard.kind == "verdicts" else 0


def _words(audit: Audit, found: dict[str, Any]) -> str:
    from engine.words import axis_name, prediction_words

    name = audit.request.estimator
    widths = [said["width"].get(name, said["width"]["gradient"]) for said in found["axes"].values()]
    silent = [axis_name(axis) for axis, said in found["axes"].items() if not said["signal"]]
    return prediction_words(found["scoring_seconds"], found["measuring_seconds"], float(np.median(widths)), silent)
