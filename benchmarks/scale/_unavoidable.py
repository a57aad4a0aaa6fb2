"""What an audit of a language model takes over what no method can avoid: drawing and judging the
texts that it reports, plainly, and reading its reported text once, for every set of heads that it
reports.

Seconds of processor time. Sets of heads beyond the first few are taken one in `every`, and stand
for the others.
"""

from __future__ import annotations

import json
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.report import Measure, said, timed
from engine.core.types import Event, Hooks
from engine.models.decode import sample, text_of
from engine.models.judge import Judge
from engine.store.runs import Run, Store
from engine.surgery.heads.mask import masked
from engine.tracks.language_models.context import PromptContext
from engine.tracks.language_models.likelihoods import window_nll
from engine.tracks.language_models.opening import context_of
from engine.tracks.language_models.request import AuditRequest, validate
from engine.tracks.language_models.run import run_audit


def over_unavoidable(name: str, request: AuditRequest, bar: float, every: int = 1) -> list[Measure]:
    """The ratio, what the audit's phases took, and how much there was to do."""
    with tempfile.TemporaryDirectory() as folder:
        ask = partial(run_audit, request, Store(Path(folder)), Hooks(report=_Told()))
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


class _Told:
    """Says every phase when it begins."""

    def __init__(self) -> None:
        self.phase = ""

    def __call__(self, event: Event) -> None:
        if event.phase != self.phase:
            self.phase = event.phase
            said(f"  {event.phase} …")


def _needed(request: AuditRequest, run: Run, every: int) -> tuple[float, int, int]:
    """Seconds, texts and sets of heads."""
    context = context_of(validate(request))
    variants = run.table("variants")
    cuts = list(
        dict.fromkeys(tuple(json.loads(cut)) for cut in variants.loc[variants["chosen"], "cut"])
    )
    chosen = cuts[:1] + cuts[1::every]
    spent = [_once(context, request, cut) for cut in chosen]
    texts = len(request.seed_list) * int((context.table["split"] == "test").sum()) * len(cuts)
    return spent[0] + sum(spent[1:]) * (len(cuts) - 1) / max(1, len(chosen) - 1), texts, len(cuts)


def _once(context: PromptContext, request: AuditRequest, cut: tuple[int, ...]) -> float:
    said(f"  what cannot be avoided: {len(cut)} heads off …")
    rows = context.table[context.table["split"] == "test"]
    decoding, judge = context.settings.decoding, Judge(context.judge.info, context.judge.predict)
    start = time.process_time()
    with masked(context.lm, context.mask(cut)):
        for seed in request.seed_list:
            prompts = rows["text"].tolist()
            drawn = sample(
                context.lm, prompts, rows["prompt_id"].tolist(), [seed] * len(rows), decoding
            )
            judge.score(
                context.settings.judged_text(prompts, [text_of(context.lm, one) for one in drawn])
            )
        window_nll(context.lm, context.tokens["test"], context.settings.window)
    return time.process_time() - start
