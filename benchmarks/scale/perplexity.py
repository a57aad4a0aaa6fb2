"""z_ppl of GPT-2 small's shape for one γ: `auto` over `exact` in time and in arithmetic, and
protected heads that differ."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.report import Measure
from benchmarks.scale._gpt2_small import gpt2_small
from benchmarks.scoring_bench import DEMO, finish, open_bench
from engine.tracks.language_models.context import InMemory, PromptContext
from engine.tracks.language_models.scores.base import ScoreJob, method_for
from engine.tracks.language_models.selection.base import critical_heads

BAR, GAMMA, TOKENS = 0.2, 0.3, 512


def measures() -> list[Measure]:
    context = replace(open_bench(replace(DEMO, max_corpus_tokens=TOKENS), 30), lm=gpt2_small())
    auto, exact = _scored(context, "auto"), _scored(context, "exact")
    differ = set(critical_heads(auto.values, GAMMA)) ^ set(critical_heads(exact.values, GAMMA))
    name = f"z_ppl, GPT-2 small's shape, {TOKENS} tokens, one γ:"
    return [
        Measure(f"{name} auto over exact", auto.seconds / exact.seconds, "", BAR),
        Measure(f"{name} arithmetic of auto over that of exact", auto.work / exact.work, ""),
        Measure(
            f"{name} heads measured on the whole text, of {len(exact.values)}",
            float(auto.heads),
            "heads",
        ),
        Measure(f"{name} protected heads that differ", float(len(differ)), "heads", 0.0),
        Measure(f"{name} exact", exact.seconds, "s"),
    ]


@dataclass(frozen=True)
class Scored:
    """Seconds of processor time from nothing, multiplications and additions, z_ppl [units], and how
    many of these were measured."""

    seconds: float
    work: float
    values: np.ndarray
    heads: int


def _scored(context: PromptContext, estimator: str) -> Scored:
    job = ScoreJob(
        replace(context, keeper=InMemory()), (DEMO.axis,), (0,), n_boot=200, gammas=(GAMMA,)
    )
    method, counter, start = (
        method_for("z_ppl", estimator),
        FlopCounterMode(display=False),
        time.process_time(),
    )
    with counter:
        finish(job, method)
    table = method.table(job)
    heads = int((table["estimator"] == "exact").sum())
    return Scored(
        time.process_time() - start,
        float(counter.get_total_flops()),
        table["value"].to_numpy(),
        heads,
    )
