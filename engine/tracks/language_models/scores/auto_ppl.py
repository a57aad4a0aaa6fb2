"""z_ppl for choosing protected heads: the gradient for all, exact perplexity for those that γ could hang on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from engine.core.levels import exact_count
from engine.stats.fdr import benjamini_hochberg
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.first_order_error import REACH, FirstOrderError, learned
from engine.tracks.language_models.scores.base import COLUMNS, VALIDATION, ScoreJob, ScoreMethod, score_rows
from engine.tracks.language_models.scores.exact import effects_of
from engine.tracks.language_models.scores.gradient_ppl import GradientPerplexity

FIRST = 8
"""Heads that are measured first, from the strongest first order to the weakest: what first order is worth here."""
FARTHEST = 2.0
"""A head counts as near a decision at this many times the largest error of first order that was seen, too."""


@dataclass(frozen=True)
class Known:
    """How far scoring is: shards it needs so far, units that are measured, and the values of all, float64 [units];
    `error` is what first order was off by."""

    wanted: list[Shard]
    units: tuple[int, ...] = ()
    values: np.ndarray | None = None
    error: FirstOrderError | None = None


class AutoPerplexity(ScoreMethod):
    """FASP Eq. 3 where it decides.

    Which heads are critical hangs on the order of z_ppl around the int(γ·N_h)-th. A head whose first-order effect, give
    or take what first order was off by so far, lies on both sides of such a place is measured, until none does. A cut
    by perplexity alone decides at its other end as well.
    """

    name = "auto"
    score = "z_ppl"
    uses = ("gradient", "exact")

    def shards(self, job: ScoreJob) -> list[Shard]:
        return self._known(job).wanted

    def table(self, job: ScoreJob) -> pd.DataFrame:
        known = self._known(job)
        first = GradientPerplexity().table(job).assign(estimator="gradient")
        if known.error is None:
            return first[COLUMNS]
        slope, off = known.error.slope, REACH * known.error.of(first["value"].to_numpy())
        ends = np.sort(np.stack([slope * first["low"], slope * first["high"]]), axis=0)
        first = first.assign(value=known.values, low=ends[0] - off, high=ends[1] + off, p=np.nan)
        at, measured = list(known.units), effects_of(job, known.units)
        rows = {name: first[name].to_numpy(dtype=float).copy() for name in measured}
        for name, values in measured.items():
            rows[name][at] = values
        is_exact = np.isin(np.arange(job.total), at)
        said = "published window: no interval" if job.context.settings.window.published else ""
        return score_rows(
            job, self, rows.pop("value"), **rows, q=benjamini_hochberg(rows["p"]), n=int(first["n"].iloc[0]),
            note=np.where(is_exact, said, "first order").tolist(),
        ).assign(estimator=np.where(is_exact, "exact", "gradient").tolist())  # fmt: skip

    def report(self, job: ScoreJob) -> dict[str, Any]:
        known = self._known(job)
        error = {} if known.error is None else {"first_order": known.error.to_dict()}
        return {"heads": {"exact": len(known.units), "gradient": job.total - len(known.units)}, **error}

    def _known(self, job: ScoreJob) -> Known:
        """Asked again after every shard that was wanted; equal results, equal answers."""
        gradient = GradientPerplexity().shards(job)
        if not job.finished(gradient):
            return Known(gradient)
        first, units = GradientPerplexity().table(job)["value"].to_numpy(), ()
        order = np.argsort(-np.abs(first), kind="stable")
        new = np.unique(order[np.linspace(0, job.total - 1, min(FIRST, job.total)).round().astype(int)]).tolist()
        while new and _places(job):
            units = (*units, *new)
            wanted = [*gradient, *(Shard("windows", cut, split=VALIDATION) for cut in [(), *((one,) for one in units)])]
            if not job.finished(wanted):
                return Known(wanted)
            exact, at = effects_of(job, units, intervals=False)["value"], list(units)
            error = learned(first[at], exact)
            values = error.slope * first
            reach = np.maximum(REACH * error.of(first), FARTHEST * np.abs(exact - values[at]).max())
            values[at], reach[at] = exact, 0.0
            new = np.flatnonzero(_near(values, reach, _places(job)) & (reach > 0)).tolist()
        return Known(wanted, units, values, error) if units else Known(gradient)


def _places(job: ScoreJob) -> list[int]:
    """How many heads lie below each place in the order of z_ppl that something is decided at."""
    found = [exact_count(gamma, job.total) for gamma in job.gammas]
    if job.cuts_by_perplexity:
        found += [job.total - exact_count(share, job.total) for share in job.sparsities]
    return sorted({place for place in found if 0 < place < job.total})


def _near(values: np.ndarray, reach: np.ndarray, places: Sequence[int]) -> np.ndarray:
    """Whether a head's value [units], give or take reach [units], lies on both sides of some place: [units] bool."""
    ordered, near = np.sort(values), np.zeros(len(values), dtype=bool)
    for place in places:
        near |= (values - reach <= ordered[place]) & (values + reach >= ordered[place - 1])
    return near
