"""An audit of a language model under way, and how it is opened: model and judge loaded, the mask
proved to act."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from engine.audit.session import Executor, Progress, Session, timed
from engine.core.types import Hooks, digest_of
from engine.models.judge import Judge, load_judge
from engine.models.load_language_model import LanguageModel, files_beside, load_language_model
from engine.resident.warm import Warm
from engine.store.runs import Store
from engine.surgery.heads.mask import centred, means_of
from engine.tracks.language_models.arms import arms_of
from engine.tracks.language_models.context import PromptContext, Shard
from engine.tracks.language_models.request import AuditRequest, PromptPlan
from engine.tracks.language_models.scores import VALIDATION, ScoreJob

HUB_JUDGE = 500_000_000
"""Bytes of a judge without a folder."""


@dataclass
class Audit(Session[PromptPlan, PromptContext]):
    """One audit under way, with what its heads are scored by."""

    job: ScoreJob
    scoring: dict[str, Any] = field(default_factory=dict)
    """What each score method decided and spent."""
    drawn: AuditRequest | None = None
    """The request with as many seeds as variants were drawn with, once that is known."""


def context_of(plan: PromptPlan, warm: Warm | None = None) -> PromptContext:
    """Model, judge, prompts and text of a plan, loaded or kept in `warm`; measurements are kept in
    memory."""
    request, warm = plan.request, warm or Warm(0)
    lm = kept_model(request, plan.model.name, plan.model.weight_hash, warm)
    judge = kept_judge(request, plan.judge.name, plan.judge.digest, str(lm.device), warm)
    return PromptContext(
        lm,
        judge,
        plan.prompts,
        plan.corpus,
        request.settings(),
        plan=plan,
        benchmarks=plan.benchmarks,
        arms=arms_of(plan),
    )


def open_audit(
    plan: PromptPlan,
    store: Store,
    hooks: Hooks,
    executor: Executor,
    warm: Warm | None = None,
) -> Audit:
    """Model and judge, loaded or kept in `warm`; it is proved on this very model that masking a
    head acts."""
    request, progress = plan.request, Progress(hooks.report)
    with timed(progress, "load", plan.model.name):
        context = replace(context_of(plan, warm), keeper=store.shards, hooks=hooks)
        if request.ablation == "mean":  # of the validation text, which heads that are off hand over
            table = context.fetch([Shard("head_means", split=VALIDATION)])[0]
            lm = centred(context.lm, means_of(table, context.lm.n_layers))
            context = replace(context, lm=lm)
        context.prove()
    job = ScoreJob(
        context,
        request.axes,
        request.seed_list,
        request.reading,
        options=request.estimator_settings,
        gammas=request.gammas,
        sparsities=request.sparsities,
    )
    return Audit(plan, context, progress, executor, job)


def _bytes_of(judge: Judge) -> int:
    """About what a judge takes: its files, else BERT base and its like."""
    folder = judge.info.folder
    return (
        sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
        if folder
        else HUB_JUDGE
    )


def kept_model(request: AuditRequest, name: str, weight_hash: str, warm: Warm) -> LanguageModel:
    """The model of a request, loaded, or as `warm` keeps it while no file beside its weights
    changes.

    name, weight_hash: of the weights that are expected.
    """
    beside = files_beside(request.model, request.revision)
    where = [weight_hash, beside, request.model, request.revision, request.device, request.dtype]
    where += ["chat"] if request.chat else []
    return warm.get(
        f"language model {name} {digest_of(where)[:16]}",
        lambda: load_language_model(
            request.model,
            device=request.device,
            dtype=request.dtype,
            revision=request.revision,
            chat=request.chat,
        ),
        lambda lm: lm.n_parameters * lm.dtype.itemsize,
    )


def kept_judge(request: AuditRequest, name: str, digest: str, device: str, warm: Warm) -> Judge:
    """The judge of a request on the device of its model, loaded, or as `warm` keeps it."""
    key = (
        f"judge {name}"
        f" {digest_of([digest, files_beside(request.judge), request.judge, device])[:16]}"
    )
    pin, label = request.judge_sha256, request.judge_label
    return warm.get(
        key, lambda: load_judge(request.judge, pin, device=device, label=label), _bytes_of
    )


def remote_context(given: tuple[PromptPlan, np.ndarray | None]) -> PromptContext:
    """`context_of` in a cluster's process, with what silenced heads hand over: means [layers, heads
    * head_dim] or None.
    """
    plan, means = given
    context = context_of(plan)
    return context if means is None else replace(context, lm=centred(context.lm, means))
