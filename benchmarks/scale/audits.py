"""What an audit of a language model takes over what no method can avoid: drawing and judging the
texts that it reports, plainly, and reading its reported text once, for every set of heads that it
reports. And the seconds of `predict`.

Two audits: the one that the project ships, without cuts of random heads, which came after its bar
(they report texts of their own), and one of GPT-2 small's shape with random weights. Both are made
smaller unless `--full` is given: then they take more than half an hour. Seconds of processor time.
Sets of heads of the shipped audit beyond the first few stand for others.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.report import Measure, said, timed
from benchmarks.scale._gpt2 import gpt2
from engine.audit.session import Local
from engine.core.types import AXES, Hooks
from engine.models.decode import sample, text_of
from engine.models.judge import Judge
from engine.store.runs import Run, Store
from engine.surgery.heads.mask import masked
from engine.tracks.language_models.context import PromptContext
from engine.tracks.language_models.controls import with_measuring
from engine.tracks.language_models.likelihoods import window_nll
from engine.tracks.language_models.opening import context_of, open_audit
from engine.tracks.language_models.predict import extrapolated
from engine.tracks.language_models.request import REQUEST, AuditRequest, validate
from engine.tracks.language_models.run import run_audit

EMBEDDED_BAR, GPT2_BAR, PREDICT_BAR = 1.25, 1.5, 60.0


def measures(full: bool = False) -> list[Measure]:
    with tempfile.TemporaryDirectory() as folder:
        return [*_embedded(full), *_gpt2_audit(full, folder), *_predict(folder)]


def _embedded(full: bool) -> list[Measure]:
    """Usually two axes of 30 prompts and one decoding seed."""
    request = replace(REQUEST, controls=0)
    if not full:
        request = replace(request, axes=REQUEST.axes[:2], max_prompts=30, seeds=1)
    size = f"{len(request.axes)} axes of {request.max_prompts} prompts, {request.seeds} seed(s)"
    return _over_unavoidable(f"embedded audit, {size}", request, EMBEDDED_BAR, 6 if full else 4)


def _gpt2_audit(full: bool, folder: str) -> list[Measure]:
    """FASP and magnitude at 10 and 20 %, perplexity scores by `gradient`."""
    prompts, tokens, new = (60, 4000, 40) if full else (12, 640, 10)
    lm = gpt2()
    lm.model.save_pretrained(folder)
    lm.tokenizer.save_pretrained(folder)
    request = AuditRequest(
        model=folder,
        axes=("nationality",),
        methods=("fasp", "magnitude"),
        sparsities=(0.0, 0.1, 0.2),
        gamma=0.3,
        seeds=1,
        max_prompts=prompts,
        max_corpus_tokens=tokens,
        max_new_tokens=new,
        perplexity_estimator="gradient",
        controls=0,
    )
    name = f"GPT-2 small's shape, {prompts} prompts, {tokens} tokens"
    return _over_unavoidable(name, request, GPT2_BAR)


def _over_unavoidable(
    name: str, request: AuditRequest, bar: float, every: int = 1
) -> list[Measure]:
    """The ratio, what the audit's phases took, and how much there was to do. every: of the sets of
    heads after the first, one in so many is measured."""
    with tempfile.TemporaryDirectory() as folder:
        tell = Hooks(report=lambda event: said(f"  {event.phase} …") if not event.done else None)
        ask = partial(run_audit, request, Store(Path(folder)), tell)
        run, whole = timed(ask, time.process_time)
        needed, texts, sets = _needed(request, run, every)
        phases = run.meta["spent"]
    what = f"{name}, {texts} reported texts, {sets} sets of heads:"
    return [
        Measure(f"{what} audit over what cannot be avoided", whole / needed, "", bar),
        Measure(f"{what} the audit", whole, "s"),
        *(
            Measure(f"{what} {phase} (by the clock)", seconds, "s")
            for phase, seconds in phases.items()
            if seconds >= 1
        ),
    ]


def _needed(request: AuditRequest, run: Run, every: int) -> tuple[float, int, int]:
    """Seconds, texts and sets of heads."""
    context = context_of(validate(request))
    variants = run.table("variants")
    cuts = [tuple(json.loads(cut)) for cut in variants.loc[variants["chosen"], "cut"].unique()]
    first, *others = (
        timed(partial(_once, context, request, cut), time.process_time)[1]
        for cut in cuts[:1] + cuts[1::every]
    )
    texts = len(request.seed_list) * int((context.table["split"] == "test").sum()) * len(cuts)
    return first + sum(others) * (len(cuts) - 1) / max(1, len(others)), texts, len(cuts)


def _once(context: PromptContext, request: AuditRequest, cut: tuple[int, ...]) -> None:
    said(f"  what cannot be avoided: {len(cut)} heads off …")
    rows = context.table[context.table["split"] == "test"]
    prompts, names = rows["text"].tolist(), rows["prompt_id"].tolist()
    judge = Judge(context.judge.info, context.judge.predict)
    with masked(context.lm, context.mask(cut)):
        for seed in request.seed_list:
            seeds = [seed] * len(rows)
            drawn = sample(context.lm, prompts, names, seeds, context.settings.decoding)
            texts = [text_of(context.lm, one) for one in drawn]
            judge.score(context.settings.judged_text(prompts, texts))
        window_nll(context.lm, context.tokens["test"], context.settings.window)


def _predict(folder: str) -> list[Measure]:
    """`predict` for five axes of 300 prompts each, on GPT-2 small's shape: until the first
    number."""
    request = AuditRequest(model="demo-gpt2", axes=AXES, max_prompts=300, seeds=2)
    start = time.process_time()
    audit = open_audit(validate(request), Store(Path(folder)), Hooks(), Local())
    # Not a model on disk: what is left out is reading its weights.
    audit.context = replace(audit.context, lm=gpt2())
    audit.job = replace(audit.job, context=audit.context)
    audit.job = with_measuring(audit)
    found = extrapolated(audit)
    seconds = time.process_time() - start
    name = "predict, five axes × 300 prompts, GPT-2 small's shape"
    return [
        Measure(name, seconds, "s of processor time", PREDICT_BAR),
        Measure(f"{name}: two timings of the same work differ by", found["sure"], "times"),
    ]
