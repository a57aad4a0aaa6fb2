"""z_ppl for choosing protected heads: the gradient for all, exact perplexity for those that γ could
hang on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from engine.core.levels import exact_count
from engine.stats.fdr import benjamini_hochberg
from engine.tracks.language_models.context import BEGINNING, Shard
from engine.tracks.language_models.near_places import (
    EXPLAINED,
    Hints,
    Placed,
    first_near,
    next_near,
    placed,
)
from engine.tracks.language_models.perplexity import log_perplexities
from engine.tracks.language_models.scores.base import (
    COLUMNS,
    VALIDATION,
    ScoreJob,
    ScoreMethod,
    score_rows,
)
from engine.tracks.language_models.scores.exact import effects_of
from engine.tracks.language_models.scores.gradient_ppl import GradientPerplexity

START = BEGINNING + VALIDATION


@dataclass(frozen=True)
class Known:
    """How far scoring is: shards it needs so far, units that are measured, where all lie, and what
    first order explains of the effects on the beginning of the text."""

    wanted: list[Shard]
    units: tuple[int, ...] = ()
    found: Placed | None = None
    explained: float = float("nan")


class AutoPerplexity(ScoreMethod):
    """FASP Eq. 3 where it decides.

    Which heads are critical hangs on the order of z_ppl around the int(γ·N_h)-th. The gradient
    orders all heads; the beginning of the text, measured with every head off, tells how far it may
    be off. Heads that may lie on either side of such a place are measured on the whole text until
    none is left, and all heads where first order explains too little. A cut by perplexity alone
    decides at its other end as well.
    """

    name = "auto"
    version = 2
    score = "z_ppl"
    uses = ("gradient", "exact")

    def shards(self, job: ScoreJob) -> list[Shard]:
        return self._known(job).wanted

    def table(self, job: ScoreJob) -> pd.DataFrame:
        known = self._known(job)
        first = GradientPerplexity().table(job).assign(estimator="gradient")
        if known.found is None:
            return first[COLUMNS]
        dense = _dense(job, VALIDATION)
        rows = {
            name: _z(dense, known.found.value + sign * known.found.reach)
            for name, sign in (("value", 0.0), ("low", 1.0), ("high", -1.0))
        }
        rows |= {
            "low": rows["low"] + (first["low"] - first["value"]).to_numpy(),
            "high": rows["high"] + (first["high"] - first["value"]).to_numpy(),
            "p": np.full(job.total, np.nan),
        }
        at = list(known.units)
        for name, values in effects_of(job, known.units).items():
            rows[name][at] = values
        is_exact = np.isin(np.arange(job.total), at)
        said = "published window: no interval" if job.context.settings.window.published else ""
        return score_rows(
            job,
            self,
            rows.pop("value"),
            **rows,
            q=benjamini_hochberg(rows["p"]),
            n=int(first["n"].iloc[0]),
            note=np.where(is_exact, said, "first order").tolist(),
        ).assign(estimator=np.where(is_exact, "exact", "gradient").tolist())

    def report(self, job: ScoreJob) -> dict[str, Any]:
        known = self._known(job)
        heads = {"exact": len(known.units), "gradient": job.total - len(known.units)}
        return {"heads": heads, "first_order": {"explained": known.explained}}

    def _known(self, job: ScoreJob) -> Known:
        """Asked again after every shard that was wanted; equal results, equal answers."""
        places, gradient = _places(job), GradientPerplexity().shards(job)
        start = [Shard("window_gradients", split=START), *_off(range(job.total), START)]
        wanted = gradient if not places else [*gradient, *start, Shard("windows", split=VALIDATION)]
        if not places or not job.finished(wanted):
            return Known(wanted)
        hints = Hints(
            _first(job, VALIDATION),
            _first(job, START),
            _effects(job, range(job.total), START),
            job.context.lm.n_heads,
            _share(job),
        )
        explained = hints.explained
        new = first_near(hints, places) if explained >= EXPLAINED else list(range(job.total))
        units: tuple[int, ...] = ()
        while True:
            units = (*units, *new)
            wanted = [*wanted, *_off(new, VALIDATION)]
            if not job.finished(wanted):
                return Known(wanted, explained=explained)
            found = placed(hints, units, _effects(job, units, VALIDATION))
            new = next_near(found, places)
            if not new:
                return Known(wanted, units, found, explained)


def _off(units: Sequence[int], split: str) -> list[Shard]:
    return [Shard("windows", (unit,), split=split) for unit in units]


def _dense(job: ScoreJob, split: str) -> float:
    """Log perplexity of the dense model."""
    return _log(job, job.fetch([Shard("window_gradients", split=split)])[0])


def _share(job: ScoreJob) -> float:
    """Tokens of the beginning over all."""
    return len(job.context.corpus_tokens(START)) / max(
        1, len(job.context.corpus_tokens(VALIDATION))
    )


def _log(job: ScoreJob, windows: pd.DataFrame) -> float:
    return float(
        log_perplexities(windows, np.ones((1, len(windows))), job.context.settings.window)[0]
    )


def _first(job: ScoreJob, split: str) -> np.ndarray:
    """Change of log perplexity by each head off, to first order, [units]."""
    windows = job.fetch([Shard("window_gradients", split=split)])[0]
    slopes, tokens = (
        windows[[str(unit) for unit in range(job.total)]].to_numpy(),
        windows["tokens"].to_numpy(),
    )
    published = job.context.settings.window.published
    return (
        -(slopes / tokens[:, None]).mean(axis=0)
        if published
        else -slopes.sum(axis=0) / tokens.sum()
    )


def _effects(job: ScoreJob, units: Sequence[int], split: str) -> np.ndarray:
    """Change of log perplexity by each of `units` off, measured, [units]."""
    return np.array([_log(job, table) for table in job.fetch(_off(units, split))]) - _dense(
        job, split
    )


def _z(dense: float, changes: np.ndarray) -> np.ndarray:
    """z_ppl of changes of log perplexity [units]: perplexity with the head on less that with the
    head off."""
    return np.exp(dense) - np.exp(dense + changes)


def _places(job: ScoreJob) -> list[int]:
    """How many heads lie below each place in the order of z_ppl that something is decided at."""
    found = [exact_count(gamma, job.total) for gamma in job.gammas]
    if job.cuts_by_perplexity:
        found += [job.total - exact_count(share, job.total) for share in job.sparsities]
    return sorted({place for place in found if 0 < place < job.total})
