"""Before the time is spent: is there a bias to rank heads by, how long will it take, how wide will
intervals be?

Dense validation texts and the pilot's are finished parts of the audit itself, so a prediction
wastes next to nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.session import Executor, Local
from engine.core.types import Event, Hooks
from engine.models import runtime
from engine.models.decode import batch_of, prompt_tokens
from engine.models.judge import Judge
from engine.store.runs import Store
from engine.tracks.language_models import pilot
from engine.tracks.language_models.bias import null_band
from engine.tracks.language_models.context import InMemory, PromptContext, Shard
from engine.tracks.language_models.controls import (
    left,
    measuring_shards,
    other_scores,
    with_measuring,
)
from engine.tracks.language_models.effects import FEW, AxisData, dense_shards
from engine.tracks.language_models.measurements.pilot import TEXTS, piloted
from engine.tracks.language_models.opening import Audit, open_audit
from engine.tracks.language_models.request import AuditRequest, validate
from engine.tracks.language_models.scores.base import VALIDATION, method_for

NULL_DRAWS = 200
PATIENCE = 60.0
"""Seconds that a prediction may take; a request for which it would take longer gets one that is
extrapolated."""


def predict(
    request: AuditRequest,
    store: Store,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    executor: Executor | None = None,
) -> dict[str, Any]:
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
    every prompt and the width of intervals. In all the least and most seconds of scoring, those of
    measuring, and it all in words.
    """
    axes = {axis: _axis(audit, axis) for axis in audit.request.axes}
    method = method_for("z_bias", audit.request.estimator)
    each = [method.seconds(audit.job, said.pop("pilot"), said["seconds"]) for said in axes.values()]
    per_text = float(np.median([said["draw_seconds"] for said in axes.values()]))
    other = per_text * left(audit.context, other_scores(audit.request, audit.job))
    found: dict[str, Any] = {
        "axes": axes,
        "scoring_seconds": _scoring(audit.request, each, other),
        "measuring_seconds": (
            per_text * left(audit.context, measuring_shards(audit.plan, audit.job.total))
        ),
    }
    found["words"] = _words(audit, found)
    audit.progress.report(Event("predict", 0, 0, "", None, found["words"]))
    return found


def _scoring(
    request: AuditRequest, each: Sequence[tuple[float, float]], other: float
) -> list[float]:
    """Least and most seconds of scoring: `each` axis, where effects on bias are asked for, and
    `other` scores."""
    asked = any(method.score == "z_bias" for method in request.scores)
    return [other + asked * sum(ends) for ends in zip(*each, strict=True)]


def _memory(audit: Audit) -> dict[str, Any]:
    """Bytes that the audit needs, about, and may take."""
    lm, decoding = audit.context.lm, audit.context.settings.decoding
    needed = runtime.needed(lm, batch_of(lm), decoding.max_prompt_tokens + decoding.max_new_tokens)
    return {"memory": {"needed": needed, "budget": runtime.on_device(lm.device) + runtime.OVERHEAD}}


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


# The first number for any request: what it will take, from a few prompts of one axis and two
# draws of them.
#
# Nothing of it is a part of the audit, and nothing is kept: it takes seconds where drawing all
# prompts takes an hour.


FEW_PROMPTS = 8
"""Prompts that are drawn, of at most half as many subgroups, the same number of each as far as
there are enough."""
SHORTLY, TRIES = 20.0, 6
"""Seconds that trying whole texts may take, which are drawn about so often; else texts are cut at
BRIEF tokens."""
BRIEF = 6


def extrapolated(audit: Audit) -> dict[str, Any]:
    """As `predict.prediction`, JSON-able, where nothing is known of any axis' bias: seconds of
    scoring (least, most) and measuring, width of intervals, and `predicting_seconds`, what the
    whole prediction would take. `sure`: how many times as long as the quicker of two draws of the
    same prompts the slower one took."""
    job, context = audit.job, audit.context
    counts = {axis: len(context.rows(axis, VALIDATION)) for axis in audit.request.axes}
    axis = max(counts, key=counts.__getitem__)
    start = time.perf_counter()
    measured, again = _tried(audit, axis)
    took = time.perf_counter() - start
    draw = measured[measured["estimator"] == "dense"].iloc[0]
    per_text = float(np.mean([draw["seconds"], again]) / draw["n"])
    measured = measured.assign(seconds=measured["seconds"] * per_text * draw["n"] / draw["seconds"])
    axes = {
        name: _extrapolated_axis(measured, job.total, n, per_text) for name, n in counts.items()
    }
    method = method_for("z_bias", audit.request.estimator)
    each = [method.seconds(job, measured, said["seconds"]) for said in axes.values()]
    other = per_text * left(context, other_scores(audit.request, job))
    found = {
        "axes": axes,
        "scoring_seconds": _scoring(audit.request, each, other),
        "measuring_seconds": per_text * left(context, measuring_shards(audit.plan, job.total)),
        "predicting_seconds": _whole(counts, len(job.seeds), per_text, took / int(draw["n"])),
        "sure": float(max(draw["seconds"], again) / min(draw["seconds"], again)),
        "tried": {"axis": axis, "prompts": int(draw["n"]), "seconds": took},
    }
    found["words"] = _extrapolated_words(found, audit.request.estimator)
    return found


def told(audit: Audit, found: dict[str, Any]) -> dict[str, Any]:
    """Say it where the audit reports."""
    audit.progress.report(Event("predict", 0, 0, "", None, found["words"]))
    return found


def _tried(audit: Audit, axis: str) -> tuple[pd.DataFrame, float]:
    """The pilot of a few prompts, and the seconds of drawing and judging them once more by another
    seed.

    Where whole texts would take longer than SHORTLY, their first tokens are drawn. The seconds are
    those of texts as long as was asked for: reading the prompts once, and as much for every token
    as each of these took.
    """
    small, seed = _few(audit.context, axis), audit.job.seeds[0]
    length = small.settings.decoding.max_new_tokens
    first = _drawing(_shorter(small, 1), axis, seed + 2)
    if first * length * TRIES <= SHORTLY:
        return piloted(small, Shard("pilot", (), axis, VALIDATION, seed)), _drawing(
            small, axis, seed + 1
        )
    brief = _shorter(small, min(BRIEF, length))
    shard = Shard("pilot", (), axis, VALIDATION, seed)
    measured, again = (
        piloted(brief, shard, reweighted=2, regenerated=1),
        _drawing(brief, axis, seed + 1),
    )
    each = max(again - first, 0.0) / max(1, BRIEF - 1)
    longer = (first + each * (length - 1)) / again
    drawn = measured["estimator"].isin(
        ["dense", "generate"]
    )  # the others read texts, the longer the more
    rows = prompt_tokens(
        small.lm, small.table["text"].tolist(), small.settings.decoding.max_prompt_tokens
    )
    prompt = float(np.mean([len(row) for row in rows]))
    scale = np.where(drawn, longer, (prompt + length) / (prompt + BRIEF))
    return measured.assign(seconds=measured["seconds"] * scale), again * longer


def _few(context: PromptContext, axis: str) -> PromptContext:
    """A context of the same model on a few prompts of one axis, with nothing measured yet."""
    rows = context.rows(axis, VALIDATION)
    groups = sorted(rows["subgroup"].unique())[: FEW_PROMPTS // 2]
    few = rows[rows["subgroup"].isin(groups)].sort_values("prompt_id")
    few = few.groupby("subgroup", group_keys=False).head(FEW_PROMPTS // max(1, len(groups)))
    judge = Judge(context.judge.info, context.judge.predict)
    return replace(
        context, prompts=replace(context.prompts, table=few), judge=judge, keeper=InMemory()
    )


def _shorter(context: PromptContext, tokens: int) -> PromptContext:
    """The same with texts of so many tokens at most."""
    decoding = replace(context.settings.decoding, max_new_tokens=tokens)
    return replace(context, settings=replace(context.settings, decoding=decoding))


def _drawing(context: PromptContext, axis: str, seed: int) -> float:
    """Seconds of drawing and judging the texts of its prompts once."""
    start = time.perf_counter()
    context.fetch([Shard("verdicts", (), axis, VALIDATION, seed)])
    return time.perf_counter() - start


def _extrapolated_axis(
    measured: pd.DataFrame, n_heads: int, n: int, per_text: float
) -> dict[str, Any]:
    """What is said of an axis of `n` prompts."""
    found = {
        "prompts": n,
        "seconds": pilot.seconds_for(measured, n_heads, n),
        "draw_seconds": per_text,
    }
    return {**found, "width": dict(pilot.widths_for(measured, n))}


def _whole(counts: dict[str, int], seeds: int, per_text: float, pilot_per_text: float) -> float:
    """Seconds of the whole prediction: every axis' texts, and a pilot of each."""
    return sum(n * seeds * per_text + min(n, TEXTS) * pilot_per_text for n in counts.values())


def _extrapolated_words(found: dict[str, Any], estimator: str) -> str:
    from engine.tracks.language_models.words import extrapolated_words, prediction_words

    widths = [
        said["width"].get(estimator, said["width"]["gradient"]) for said in found["axes"].values()
    ]
    text = prediction_words(
        found["scoring_seconds"], found["measuring_seconds"], float(np.median(widths)), []
    )
    return f"{text} {extrapolated_words(found['tried'], found['sure'])}"
