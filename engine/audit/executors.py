"""Where missing shards are computed: in this process. Every executor gives the same tables for the
same shards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from engine.audit.measurements import MeasurementContext
from engine.audit.progress import Progress

OFTEN = 0.1
"""Seconds between two reports from the inside of a part, at least."""


class Executor(ABC):
    """Computes shards and leaves the tables in the context's keeper."""

    @abstractmethod
    def run(
        self, context: MeasurementContext, phase: str, shards: Sequence[Any], progress: Progress
    ) -> None:
        """Finish all shards. Raises Cancelled between batches when the user asked to stop."""

    def close(self) -> None:  # noqa: B027  (most have no workers)
        """End its worker processes, where it has any; `run` may be called again."""


class Local(Executor):
    """One bundle after the other, in this process."""

    def run(
        self, context: MeasurementContext, phase: str, shards: Sequence[Any], progress: Progress
    ) -> None:
        bundles = context.bundles(shards)
        sizes = [context.effort(progress.count(bundle)) for bundle in bundles]
        progress.expect(sum(sizes))
        for bundle, size in zip(bundles, sizes, strict=True):
            context.hooks.check()
            fresh = not all(context.kept(shard) for shard in bundle)
            start, what = progress.clock(), context.describe_all(bundle)
            progress.say(phase, what)
            context.inside = _partly(progress, phase, size, what, start)
            if fresh:
                context.fetch(bundle)
            progress.advance(phase, size, progress.clock() - start, what, fresh)


def _partly(
    progress: Progress, phase: str, size: float, what: str, start: float
) -> Callable[[float], None]:
    """A function that reports the share done of one bundle while it is computed; what begins again
    within it, as answering does after fitting, stands still until it has come as far. It is called
    at every step, and says something every OFTEN seconds."""
    most, told = 0.0, start

    def report(share: float) -> None:
        nonlocal most, told
        most, now = max(most, share), progress.clock()
        if now - told >= OFTEN:
            told = now
            progress.partly(phase, size * most, now - start, what)

    return report
