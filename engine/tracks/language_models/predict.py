"""Before the time is spent: is there a bias to rank heads by, how long will it take, how wide will
intervals be?

Dense validation texts and the pilot's are finished parts of the audit itself, so a prediction
wastes next to nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.audit.executors import Executor, Local
from engine.core.types import Event, Hooks
from engine.models import room
from engine.models.decode import batch_of
from engine.store.runs import Store
from engine.tracks.language_models import pilot
from engine.tracks.language_models.bias import null_band
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.effects import AxisData, dense_shards
from engine.tracks.language_models.extrapolated import extrapolated, told
from engine.tracks.language_models.importance_weights import FEW
from engine.tracks.language_models.opening import Audit, open_audit
from engine.tracks.language_models.request import AuditRequest, validate
from engine.tracks.language_models.scores.base import VALIDATION, method_for
from engine.tracks.language_models.work import left, measuring_shards, other_scores, with_measuring

NULL_DRAWS = 200
PATIENCE = 60.0
"""Seconds that a prediction may take; a request for which it would take longer gets one that is
extrapolated."""


def predict(
    request: AuditRequest, store: Store, hooks: Hooks = Hooks(), executor: Executor | None = None
) -> dict:
    """The prediction of a request, JSON-able: extrapolated where the texts of all axes would take
    longer than PATIENCE. Raises as `run_audit` does."""
    plan = validate(request)
    store.prove_writable(create=False)  # nothing is left of a model that turns out not to load
    audit = open_audit(plan, store, hooks, executor or Local())
    audit.job = with_measuring(audit)
    first = extrapolated(audit)
    found = prediction(audit) if first["predicting_seconds"] <= PATIENCE else told(audit, first)
    return {**found, **_memory(audit)}


def prediction(audit: Audit) -> dict[str, Any]:
    """Per axis the dense bias against its null band, and per estimator the seconds of one draw of
    every prompt and the width of intervals; in all the least and most seconds of scoring, those of
    measuring, and it all in words.
    """
    axes = {axis: _axis(audit, axis) for axis in audit.request.axes}
    method = method_for("z_bias", audit.request.estimator)
    each = [method.seconds(audit.job, said.pop("pilot"), said["seconds"]) for said in axes.values()]
    per_text = float(np.median([said["draw_seconds"] for said in axes.values()]))
    other = per_text * left(audit.context, other_scores(audit.request, audit.job))
    found: dict[str, Any] = {
        "axes": axes,
        "scoring_seconds": [other + sum(ends) for ends in zip(*each, strict=True)],
        "measuring_seconds": (
            per_text * left(audit.context, measuring_shards(audit.plan, audit.job.total))
        ),
    }
    found["words"] = _words(audit, found)
    audit.progress.report(Event("predict", 0, 0, "", None, found["words"]))
    return found


def _memory(audit: Audit) -> dict[str, Any]:
    """Bytes that the audit needs, about, and may take."""
    lm, decoding = audit.context.lm, audit.context.settings.decoding
    needed = room.needed(lm, batch_of(lm), decoding.max_prompt_tokens + decoding.max_new_tokens)
    return {"memory": {"needed": needed, "budget": room.on_device(lm.device) + room.OVERHEAD}}


def _axis(audit: Audit, axis: str) -> dict[str, Any]:
    job, context = audit.job, audit.context
    trial = Shard("pilot", (), axis, VALIDATION, job.seeds[0])
    audit.executor.run(context, "predict", [*dense_shards(job, axis), trial], audit.progress)
    data = AxisData(job, axis)
    band, measured = null_band(data.table, job.reading, NULL_DRAWS), job.fetch([trial])[0]
    draw = measured[(measured["estimator"] == "dense")].iloc[0]
    return {
        "prompts": data.n,
        "bias": band.value,
        "null_high": band.high,
        "signal": bool(band.value > band.high),
        "seconds": pilot.seconds_for(measured, job.total, data.n),
        "width": dict(
            pilot.widths_for(measured, data.n)
        ),  # more draws of the same prompts hardly narrow it
        "pilot": measured,
        "least_texts": int(data.table.groupby("subgroup").size().min()),
        "draw_seconds": float(draw["seconds"] / draw["n"]),
    }


def _words(audit: Audit, found: dict[str, Any]) -> str:
    from engine.core.words import axis_name
    from engine.tracks.language_models.words import few_texts_words, prediction_words

    name = audit.request.estimator
    widths = [said["width"].get(name, said["width"]["gradient"]) for said in found["axes"].values()]
    silent = [axis_name(axis) for axis, said in found["axes"].items() if not said["signal"]]
    text = prediction_words(
        found["scoring_seconds"], found["measuring_seconds"], float(np.median(widths)), silent
    )
    small = [axis_name(axis) for axis, said in found["axes"].items() if said["least_texts"] < FEW]
    return text + (few_texts_words(small) if small and name in ("auto", "reweight") else "")
