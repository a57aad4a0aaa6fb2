"""Where missing shards are computed: in this process. Every executor gives the same tables for the same shards."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from engine.audit.measurements import MeasurementContext
from engine.audit.progress import Progress


class Executor(ABC):
    """Computes shards and leaves the tables in the context's keeper."""

    @abstractmethod
    def run(self, context: MeasurementContext, phase: str, shards: Sequence[Any], progress: Progress) -> None:
        """Finish all shards. Raises Cancelled between batches when the user asked to stop."""

    def close(self) -> None:  # noqa: B027  (most have no workers)
        """End its worker processes, where it has any; `run` may be called again."""


class Local(Executor):
    """One bundle after the other, in this process."""

    def run(self, context: MeasurementContext, phase: str, shards: Sequence[Any], progress: Progress) -> None:
        bundles = context.bundles(shards)
        sizes = [sum(context.kind(shard.kind).size(context, shard) for shard in bundle) for bundle in bundles]
        progress.expect(sum(sizes))
        for bundle, size in zip(bundles, sizes, strict=True):
            context.hooks.check()
            fresh = not all(context.kept(shard) for shard in bundle)
            progress.say(phase, context.describe(bundle[0]))
            start = time.monotonic()
            context.inside = _partly(progress, phase, size, context.describe(bundle[0]), start)
            if fresh:
                context.fetch(bundle)
            progress.advance(phase, size, time.monotonic() - start, context.describe(bundle[0]), fresh)


def _partly(progress: Progress, phase: str, size: float, what: str, start: float) -> Callable[[float], None]:
    """A function that reports the share done of one bundle while it is computed."""
    return lambda share: progress.partly(phase, size * share, time.monotonic() - start, what)
