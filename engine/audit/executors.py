"""Where shards are computed: on this process. Every executor gives the same tables for the same shards."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

from engine.audit.progress import Progress
from engine.metrics.bench import Bench, Shard


class Executor(ABC):
    """Computes shards and leaves the tables in the bench's keeper."""

    @abstractmethod
    def run(self, bench: Bench, phase: str, shards: Sequence[Shard], progress: Progress) -> None:
        """Finish all shards. Raises Cancelled between batches when somebody asked to stop."""

    def close(self) -> None:  # noqa: B027  (most have nobody to let go)
        """Let go of workers; `run` may be called again."""


class Local(Executor):
    """One bundle after the other, in this process."""

    def run(self, bench: Bench, phase: str, shards: Sequence[Shard], progress: Progress) -> None:
        bundles = bench.bundles(shards)
        sizes = [sum(bench.kind(shard.kind).size(bench, shard) for shard in bundle) for bundle in bundles]
        progress.expect(sum(sizes))
        for bundle, size in zip(bundles, sizes, strict=True):
            bench.hooks.check()
            fresh = any(bench.keeper.get(bench.key(shard)) is None for shard in bundle)
            progress.say(phase, describe(bench, bundle[0]))
            start = time.monotonic()
            if fresh:
                bench.fetch(bundle)
            progress.advance(phase, size, time.monotonic() - start, describe(bench, bundle[0]), fresh)


def describe(bench: Bench, shard: Shard) -> str:
    """A bundle in words, 0-based as in mask.json."""
    if not shard.cut:
        return "dense model"
    if len(shard.cut) == 1:
        layer, head = divmod(shard.cut[0], bench.lm.n_heads)
        return f"layer {layer}, head {head} off"
    return f"{len(shard.cut)} heads off"
