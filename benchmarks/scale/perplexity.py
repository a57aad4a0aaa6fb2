"""z_ppl of GPT-2 small's shape for one γ: `auto` over `exact`, and protected heads that differ."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from benchmarks.report import Measure
from benchmarks.scale._gpt2_small import gpt2_small
from benchmarks.scoring_bench import DEMO, finish, open_bench
from engine.tracks.language_models.context import InMemory, PromptContext
from engine.tracks.language_models.scores.base import ScoreJob, method_for
from engine.tracks.language_models.selection.critical import critical_heads

BAR, GAMMA, TOKENS = 0.2, 0.3, 256


def measures() -> list[Measure]:
    context = replace(open_bench(replace(DEMO, max_corpus_tokens=TOKENS), 30), lm=gpt2_small())
    quick, auto = _scored(context, "auto")
    slow, exact = _scored(context, "exact")
    differ = set(critical_heads(auto, GAMMA)) ^ set(critical_heads(exact, GAMMA))
    name = "z_ppl, GPT-2 small's shape, one γ:"
    return [
        Measure(f"{name} auto over exact", quick / slow, "", BAR),
        Measure(f"{name} protected heads that differ", float(len(differ)), "heads", 0.0),
    ]


def _scored(context: PromptContext, estimator: str) -> tuple[float, np.ndarray]:
    """Seconds of processor time from nothing, and z_ppl of every head."""
    job = ScoreJob(replace(context, keeper=InMemory()), (DEMO.axis,), (0,), n_boot=200, gammas=(GAMMA,))
    method, start = method_for("z_ppl", estimator), time.process_time()
    finish(job, method)
    values = method.table(job)["value"].to_numpy()
    return time.process_time() - start, values
