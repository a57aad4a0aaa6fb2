"""Before the time is spent: is there a bias to rank heads by, how long will it take, how wide will
intervals be?

Dense validation texts and the pilot's are finished parts of the audit itself, so a prediction
wastes next to nothing.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.session import Executor, Local
from engine.core.types import Event, Hooks, Values
from engine.core.words import axis_name
from engine.models import runtime
from engine.models.decode import batch_of, prompt_tokens
from engine.stats.clustered import MISSED, smallest_effect
from engine.store.runs import Store, where
from engine.tracks.language_models import pilot
from engine.tracks.language_models.bias import null_band
from engine.tracks.language_models.context import PromptContext, Shard
from engine.tracks.language_models.controls import (
    left,
    measuring_shards,
    other_scores,
    with_measuring,
)
from engine.tracks.language_models.effects import FEW, AxisData, dense_shards
from engine.tracks.language_models.measurements.cost import TEXTS, of_each, on_prompts, piloted
from engine.tracks.language_models.opening import Audit, open_audit
from engine.tracks.language_models.perplexity import LONGEST
from engine.tracks.language_models.request import AuditRequest, validate
from engine.tracks.language_models.scores import VALIDATION, method_for
from engine.tracks.language_models.tables import TEST
from engine.tracks.language_models.words import (
    extrapolated_words,
    few_texts_words,
    prediction_words,
    shown_words,
)

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
    found = _in_all(audit, {axis: _axis(audit, axis) for axis in audit.request.axes})
    small = [axis_name(axis) for axis, said in found["axes"].items() if said["least_texts"] < FEW]
    if small and audit.request.estimator in ("auto", "reweight"):
        found["words"] += few_texts_words(small)
    found["words"] += shown(audit)
    return told(audit, found)


def _in_all(audit: Audit, axes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What is said of every axis, each with its pilot, and of all of them."""
    request, job, each = audit.request, audit.job, []
    method = method_for("z_bias", request.estimator)
    for said in axes.values():
        measured, n = said.pop("pilot"), said["prompts"]
        said["seconds"] = pilot.seconds_for(measured, job.total, n)
        # more draws of the same prompts hardly narrow it
        said["width"] = dict(pilot.widths_for(measured, n))
        each.append(method.seconds(job, measured, said["seconds"]))
    per_text = float(np.median([said["draw_seconds"] for said in axes.values()]))
    other = per_text * left(audit.context, other_scores(request, job))
    asked = any(method.score == "z_bias" for method in request.scores)
    scoring = [other + asked * sum(ends) for ends in zip(*each, strict=True)]
    measuring = per_text * left(audit.context, measuring_shards(audit.plan, job.total))
    widths = [said["width"].get(method.name, said["width"]["gradient"]) for said in axes.values()]
    silent = [axis_name(axis) for axis, said in axes.items() if not said.get("signal", True)]
    return {
        "axes": axes,
        "scoring_seconds": scoring,
        "measuring_seconds": measuring,
        "words": prediction_words(scoring, measuring, float(np.median(widths)), silent),
    }


def _memory(audit: Audit) -> Values:
    """Bytes that the audit needs, about, and may take."""
    context = audit.context
    lm, decoding = context.lm, context.settings.decoding
    window = min(len(context.tokens[VALIDATION]), context.settings.window.length or LONGEST)
    tokens = decoding.max_prompt_tokens + decoding.max_new_tokens
    needed = runtime.needed(lm, batch_of(lm), tokens, audit.request.is_first_order * window)
    return {"memory": {"needed": needed, "budget": runtime.on_device(lm.device) + runtime.OVERHEAD}}


def _axis(audit: Audit, axis: str) -> dict[str, Any]:
    job, context = audit.job, audit.context
    trial = Shard("pilot", (), axis, VALIDATION, job.seeds[0])
    audit.executor.run(context, "predict", [*dense_shards(job, axis), trial], audit.progress)
    data = AxisData(job, axis)
    band, measured = null_band(data.table, job.reading, NULL_DRAWS), job.fetch([trial])[0]
    draw = where(measured, estimator="dense").iloc[0]
    return {
        "prompts": data.n,
        "bias": band.value,
        "null_high": band.high,
        "signal": bool(band.value > band.high),
        "pilot": measured,
        "least_texts": int(data.table.groupby("subgroup").size().min()),
        "draw_seconds": float(draw["seconds"] / draw["n"]),
    }


def shown(audit: Audit) -> str:
    """What change of bias the audit would show, in the middle of its axes, in words; "" before
    their dense texts are drawn, and where no interval holds.

    A cut's bias is taken to be as noisy as the dense model's, and not to share its noise. That is
    rough: the error of few validation prompts stands for that of the test's.
    """
    job, found = audit.job, []
    for axis in audit.request.axes:
        if not all(map(audit.context.kept, dense_shards(job, axis))):
            continue
        data, tested = AxisData(job, axis), len(audit.context.rows(axis, TEST))
        if data.errors.holds:
            level = data.errors.levels(data.errors.dense[:, None], job.reading)
            error = level.error * math.sqrt(2 * data.n / tested)
            found += smallest_effect(error, np.full(1, np.inf), MISSED).tolist()
    return shown_words(float(np.median(found))) if found else ""


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
    counts = {axis: len(audit.context.rows(axis, VALIDATION)) for axis in audit.request.axes}
    axis = max(counts, key=counts.__getitem__)
    start = time.perf_counter()
    measured, again = _tried(audit, axis)
    took = time.perf_counter() - start
    seconds, n = where(measured, estimator="dense").iloc[0][["seconds", "n"]]
    per_text = float((seconds + again) / 2 / n)
    measured = measured.assign(seconds=measured["seconds"] * per_text * n / seconds)
    known = {"draw_seconds": per_text, "pilot": measured}
    found = _in_all(audit, {name: {"prompts": count, **known} for name, count in counts.items()})
    tried = {"axis": axis, "prompts": int(n), "seconds": took}
    sure = float(max(seconds, again) / min(seconds, again))
    whole = sum(  # every axis' texts, and a pilot of each
        count * len(audit.job.seeds) * per_text + min(count, TEXTS) * took / n
        for count in counts.values()
    )
    words = f"{found['words']} {extrapolated_words(tried, sure)}"
    return found | {"predicting_seconds": whole, "sure": sure, "tried": tried, "words": words}


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
    trial = Shard("pilot", (), axis, VALIDATION, seed)
    first = _drawing(_shorter(small, 1), axis, seed + 2)
    if first * length * TRIES <= SHORTLY:
        return piloted(small, trial), _drawing(small, axis, seed + 1)
    brief = _shorter(small, min(BRIEF, length))
    measured = piloted(brief, trial, reweighted=2, regenerated=1)
    again = _drawing(brief, axis, seed + 1)
    each = max(again - first, 0.0) / max(1, BRIEF - 1)
    longer = (first + each * (length - 1)) / again
    # the others read texts, the longer the more
    drawn = measured["estimator"].isin(["dense", "generate"])
    texts, most = small.table["text"].tolist(), small.settings.decoding.max_prompt_tokens
    prompt = float(np.mean([len(row) for row in prompt_tokens(small.lm, texts, most)]))
    scale = np.where(drawn, longer, (prompt + length) / (prompt + BRIEF))
    return measured.assign(seconds=measured["seconds"] * scale), again * longer


def _few(context: PromptContext, axis: str) -> PromptContext:
    """The same model on a few prompts of one axis."""
    rows = context.rows(axis, VALIDATION)
    groups = sorted(rows["subgroup"].unique())[: FEW_PROMPTS // 2]
    few = rows[rows["subgroup"].isin(groups)]
    return on_prompts(context, of_each(few, FEW_PROMPTS // max(1, len(groups))))


def _shorter(context: PromptContext, tokens: int) -> PromptContext:
    """The same with texts of so many tokens at most."""
    decoding = replace(context.settings.decoding, max_new_tokens=tokens)
    return replace(context, settings=replace(context.settings, decoding=decoding))


def _drawing(context: PromptContext, axis: str, seed: int) -> float:
    """Seconds of drawing and judging the texts of its prompts once."""
    start = time.perf_counter()
    context.fetch([Shard("verdicts", (), axis, VALIDATION, seed)])
    return time.perf_counter() - start
