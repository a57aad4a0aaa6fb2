"""`generate` for all heads of the demo, drawing and judging: with verified drafts over without, the
same texts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import patch

import pandas as pd

from benchmarks.report import Measure
from benchmarks.scoring_bench import DEMO, open_bench
from engine.models.judge import Judge
from engine.tracks.language_models.context import InMemory, PromptContext, Shard
from engine.tracks.language_models.measurements import texts

BAR = 0.4


def measures() -> list[Measure]:
    context = open_bench(DEMO, 432)
    cuts = [(unit,) for unit in range(context.lm.n_layers * context.lm.n_heads)]
    quick, drafted = drawn(context, cuts, True)
    slow, plain = drawn(context, cuts, False)
    return [
        Measure(
            "generate, all heads of the demo: with verified drafts over without",
            quick / slow,
            "",
            BAR,
        ),
        Measure(
            "generate, all heads of the demo: texts that differ",
            differ(drafted, plain),
            "texts",
            0.0,
        ),
    ]


def drawn(
    context: PromptContext, cuts: Sequence[tuple[int, ...]], drafts: bool
) -> tuple[float, list[pd.DataFrame]]:
    """Seconds of drawing and judging once with each cut, the dense model's texts at hand; and the
    texts."""
    judge = Judge(context.judge.info, context.judge.predict)
    fresh, axis = replace(context, keeper=InMemory(), judge=judge), DEMO.axis
    fresh.fetch([Shard("verdicts", (), axis, "validation")])
    with patch.object(texts, "can_draft", texts.can_draft if drafts else lambda *given: False):
        start = time.process_time()
        fresh.fetch([Shard("verdicts", cut, axis, "validation") for cut in cuts])
        seconds = time.process_time() - start
    return seconds, fresh.fetch([Shard("texts", cut, axis, "validation") for cut in cuts])


def differ(some: Sequence[pd.DataFrame], others: Sequence[pd.DataFrame]) -> int:
    """How many texts are not the same token by token."""
    pairs = zip(some, others, strict=True)
    return sum(
        int((one["ids"].map(tuple) != other["ids"].map(tuple)).sum()) for one, other in pairs
    )
