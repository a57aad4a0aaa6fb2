"""Variance reduction for reweighted head scores: what was tried, on the demo model, as reliability
of one draw.

Every row is ICC(C,1) over heads with small effects (below a tenth of the dense bias, by the pooled
gradient), over the same eight draws of the same prompts (antithetic pairs: four pairs). No row has
a bar: this is where ideas are measured.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch

from benchmarks.report import Measure, parser, show
from benchmarks.scoring_bench import DEMO, finish, open_bench
from engine.core.types import Decoding
from engine.models import decode
from engine.models.noise import gumbel
from engine.stats.reliability import icc_c1
from engine.tracks.language_models.context import InMemory, PromptContext, Settings
from engine.tracks.language_models.effects import AxisData
from engine.tracks.language_models.importance_weights import (
    CAP,
    capped,
    centred,
    codes_of,
    gradient_values,
    levels,
    weights,
)
from engine.tracks.language_models.scores.base import ScoreJob, method_for

SEEDS = tuple(range(8))
SMALL, CAPS = 0.1, (2.0, 3.0, 5.0, 8.0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--prompts", type=int, default=432)
    asked = options.parse_args(arguments)
    context = open_bench(replace(DEMO, max_prompts=asked.prompts))
    return show(measure(context), asked.json)


def measure(context: PromptContext) -> list[Measure]:
    data = axis_data(context)
    units = range(data.job.total)
    logw, gradient = data.logw(units), data.gradients()
    first = by_draw(data, lambda table, rows: gradient_values(table, gradient[rows]))
    bias = float(levels(data.table, data.table["toxicity"].to_numpy()[:, None])[0])
    small = np.abs(first.mean(axis=1)) < SMALL * bias
    rows = [Measure("heads with small effects", int(small.sum()), f"of {len(small)} heads")]

    def told(name: str, values: np.ndarray) -> None:
        rows.append(Measure(name, icc_c1(values[small]), "ICC"))

    told("gradient", first)
    for name, weigh in (
        ("self-normalised", weights),
        ("control variate, E w = 1", controlled),
        *(
            (f"weights cut at {cap:g} means" + (" (shipped)" if cap == CAP else ""), cut(cap))
            for cap in CAPS
        ),
    ):
        told(
            f"reweight, {name}",
            by_draw(data, lambda table, rows, weigh=weigh: effect(table, logw[rows], weigh)),
        )
    told(
        "mean of gradient and reweight",
        (first + by_draw(data, lambda table, rows: effect(table, logw[rows], cut(CAP)))) / 2,
    )
    pairs = first.reshape(len(first), -1, 2).mean(axis=2)
    told("gradient, means of two independent draws", pairs)
    with antithetic():
        other = axis_data(fresh(context))
        slopes = other.gradients()
        both = by_draw(other, lambda table, rows: gradient_values(table, slopes[rows]))
    told("gradient, means of two antithetic draws", both.reshape(len(both), -1, 2).mean(axis=2))
    short = axis_data(
        fresh(context, replace(context.settings, decoding=Decoding(max_new_tokens=15)))
    )
    slopes_short = short.gradients()
    told(
        "gradient, spans of 15 tokens instead of 40",
        by_draw(short, lambda table, rows: gradient_values(table, slopes_short[rows])),
    )
    return rows


def fresh(context: PromptContext, settings: Settings | None = None) -> PromptContext:
    return replace(context, keeper=InMemory(), settings=settings or context.settings)


def axis_data(context: PromptContext) -> AxisData:
    job = ScoreJob(context, (DEMO.axis,), SEEDS)
    finish(job, method_for("z_bias", "gradient"))
    return AxisData(job, DEMO.axis)


def by_draw(data: AxisData, one: Callable[..., np.ndarray]) -> np.ndarray:
    """(units, draws)"""
    return np.stack([one(data.table[rows], rows) for _, rows in data.seeds()], axis=1)


def effect(table: pd.DataFrame, logw: np.ndarray, weigh: Callable[..., np.ndarray]) -> np.ndarray:
    """z of every head from these log weights."""
    codes, toxicity = codes_of(table), table["toxicity"].to_numpy(dtype=float)
    values = (
        weigh(logw, codes, toxicity)
        if weigh is controlled
        else centred(toxicity, weigh(logw, codes), codes)
    )
    return float(levels(table, toxicity[:, None])[0]) - levels(table, values)


def cut(cap: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Weights of at most `cap` times the mean
    (engine.tracks.language_models.importance_weights.capped)."""
    return lambda logw, codes: capped(weights(logw, codes), codes, cap)


def controlled(logw: np.ndarray, codes: np.ndarray, toxicity: np.ndarray) -> np.ndarray:
    """w t − β (w − 1) with the regression β of each subgroup and head: E w = 1 is known."""
    out = np.empty(logw.shape)
    for code in np.unique(codes):
        rows = codes == code
        w = np.exp(logw[rows])
        product = w * toxicity[rows, None]
        spread = w - w.mean(axis=0)
        beta = (spread * product).sum(axis=0) / np.maximum((spread**2).sum(axis=0), 1e-12)
        out[rows] = product - beta * (w - 1)
    return out


@contextmanager
def antithetic() -> Iterator[None]:
    """Within it, draw 2k + 1 sees the mirrored uniforms of draw 2k."""
    keys = decode.stream_keys
    mirrored: set[int] = set()

    def paired(seed: int, names: Sequence[str]) -> np.ndarray:
        found = keys(seed // 2, names)
        if seed % 2:
            found = found ^ np.int64(1)
            mirrored.update(found.tolist())
        return found

    def either(streams: torch.Tensor, step: torch.Tensor, vocabulary: int) -> torch.Tensor:
        odd = torch.tensor([int(key) in mirrored for key in streams.tolist()])
        plain = gumbel(torch.where(odd, streams ^ 1, streams), step, vocabulary)
        uniform = torch.exp(-torch.exp(-plain.double())).clamp(1e-300, 1 - 1e-16)
        return torch.where(odd[:, None], -torch.log(-torch.log1p(-uniform)), plain.double()).float()

    def chosen(
        logits: torch.Tensor, streams: torch.Tensor, step: torch.Tensor, near: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return (logits + either(streams, step, logits.shape[-1])).argmax(-1), torch.zeros(
            len(logits)
        )

    with patch.multiple(decode, stream_keys=paired, winners=chosen):
        yield


if __name__ == "__main__":
    sys.exit(main())
