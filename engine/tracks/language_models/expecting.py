"""How much of an audit is left, said anew whenever more is known. For forecasts only: nothing of it
moves a number.

An axis whose bias lies inside its null band as far as was looked takes every draw that it may, and
then neither its heads are scored nor anything is cut by them. The audit of such a model lasts a
fraction of what was asked for, so a forecast follows what the draws so far say, and grows again
should a later look find a bias.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.audit.progress import SETTLED
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.opening import Audit
from engine.tracks.language_models.scores.base import ScoreMethod
from engine.tracks.language_models.tables import seconds_of
from engine.tracks.language_models.work import benchmark_work, measuring_shards

UNDECIDED = 30.0
"""Seconds of computing after which a time is said even so."""


def expect(audit: Audit, measuring: Sequence[Shard], more: float = 0.0) -> None:
    """Say how much is left: what measuring needs that is not counted yet, benchmarks, and more."""
    left = audit.context.effort(audit.progress.uncounted(measuring)) + benchmark_work(audit)
    audit.progress.expect_in_all(audit.progress.done + left + more)


def until_drawn(audit: Audit) -> None:
    """Say no time until axes were looked at, unless that takes long: it decides how much there is
    to do."""
    audit.progress.settled = UNDECIDED


def expect_scoring(audit: Audit, unfinished: Sequence[ScoreMethod]) -> None:
    """Say how much is left while heads are scored: of these methods, and of measuring what they
    will choose."""
    audit.progress.settled = SETTLED
    silent = {axis for method in audit.request.scores for axis in method.unranked(audit.job)}
    measuring = measuring_shards(audit.plan, audit.job.total, silent)
    audit.progress.afterwards = seconds_of(audit.context, measuring)
    uncounted = audit.progress.uncounted
    expect(audit, measuring, sum(method.effort(audit.job, uncounted) for method in unfinished))
