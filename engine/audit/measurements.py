"""The measurement context: finished measurements are found, missing ones computed.

They are kept under the digest of their inputs. A measurement is asked for as plain data (a shard,
so it can travel to another machine) and answered as a table. Shards that belong together are
computed in one go; each is stored on its own.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from engine.core.types import Hooks, Values

if TYPE_CHECKING:
    import torch


class Keeper(Protocol):
    """Where finished tables, of any columns, are kept: `engine.store.sealed.Shards` or a class with
    its methods."""

    def get(self, key: str) -> pd.DataFrame | None: ...
    def put(self, key: str, table: pd.DataFrame) -> None: ...
    def has(self, key: str) -> bool: ...


class InMemory(dict[str, pd.DataFrame]):
    """Keeps finished tables for the life of the object."""

    put = dict.__setitem__
    has = dict.__contains__


class Measurement(ABC):
    """One kind of measurement. Final subclasses live one per file and are found, not registered."""

    name: str
    version: int = 1
    """Raise when the numbers change: shards of older versions are then not found any more."""
    whole: bool = False
    """Whether last digits depend on what is computed with a shard. Then a bundle that is kept in
    part, as a killed or damaged store leaves it, is computed as a whole again, and what is lacking
    is what it would have been."""
    any_threads: bool = False
    """Whether the numbers are the same to the bit with any number of threads. True: it computes
    with all there are, as passes that train nothing do. Otherwise, on a CPU, with
    `runtime.FIXED_THREADS` whatever the machine has: gradients of weights are added up in another
    order with another number."""

    later: bool = False
    """Whether it came when there were finished audits that know nothing of it: it counts for the
    ids of those alone that ask for it."""

    pace: float = 1.0
    """How long a unit of `size` takes beside those of the track's other kinds, and ..."""
    start: float = 0.0
    """... what every bundle takes before it, in that unit. Seen on the models that the project
    ships; what is measured says how long a unit takes on this machine. For forecasts only."""

    @abstractmethod
    def parts(self, context: Any, shard: Any) -> Values:
        """What the numbers depend on besides the model, the device and what the shard itself says;
        JSON-able."""

    def together(self, context: Any, shard: Any) -> Hashable:
        """Shards of this kind for which this is equal are computed in one go. By default those of
        one mask."""
        return shard.cut

    def needs(self, context: Any, shard: Any) -> list[Any]:
        """Measurements it fetches on its way, so that an executor can have them finished first."""
        return []

    @abstractmethod
    def compute(self, context: Any, shards: Sequence[Any]) -> list[pd.DataFrame]:
        """The tables of `shards`, which belong `together`, in their order. Subclasses say which
        columns they have."""

    def size(self, context: Any, shard: Any) -> float:
        """How much work a shard is, in the unit of its context; for progress only."""
        return 1.0


class MeasurementContext(ABC):
    """Fetches measurements. Subclasses say what there is to measure, and what a shard's key depends
    on."""

    keeper: Keeper
    hooks: Hooks
    inside: Callable[[float], None] = staticmethod(lambda share: None)
    """Told how far the measurement under way is, 0 to 1. An executor sets it."""

    beside: frozenset[Any] = frozenset()
    """All that an executor measures in the same run, if it says so. What one of them finds of
    another on its way need not be computed again."""

    dtype: str = "float32"
    """Number format of the model."""

    @property
    def telling(self) -> Hooks:
        """Hooks for a measurement under way, which tell how far it is."""
        return replace(self.hooks, inside=self.inside)

    @property
    @abstractmethod
    def device(self) -> Any:
        """The torch device measurements run on."""

    @abstractmethod
    def recipe(self) -> tuple[str, Any]:
        """How another process makes the same context: "module:function", and what the function is
        given.

        Both travel to the workers of a cluster, so the second must be picklable and hold no model.
        """

    @abstractmethod
    def kind(self, name: str) -> Measurement:
        """The kind of measurement of this name."""

    @abstractmethod
    def key(self, shard: Any) -> str:
        """Digest of all the shard's numbers depend on. Device type is part of it: devices round
        differently."""

    @abstractmethod
    def describe(self, shard: Any) -> str:
        """A shard in words, for progress."""

    def describe_all(self, bundle: Sequence[Any]) -> str:
        """Shards that are computed in one go, in words."""
        said = list(dict.fromkeys(map(self.describe, bundle)))
        return said[0] if len(said) == 1 else f"{said[0]}, and {len(said) - 1} more like it"

    @abstractmethod
    def prove(self) -> None:
        """MaskError unless masks act on the very model that is loaded here. Asked before anything
        is measured, by every audit, every addition to a run and every worker of a cluster."""

    def base(self) -> list[Any]:
        """Measurements that all others may need without naming them, such as the weights of a model
        fitted here."""
        return []

    def all_needs(self, shards: Sequence[Any]) -> list[Any]:
        """What `shards` rest on, directly or not, the first needed first."""
        found: dict[Any, None] = {}
        queue = [
            *self.base(),
            *(need for shard in shards for need in self.kind(shard.kind).needs(self, shard)),
        ]
        while queue:
            need = queue.pop()
            if need not in found:
                found[need] = None
                queue += self.kind(need.kind).needs(self, need)
        return [need for need in reversed(found) if need not in set(shards)]

    def effort(self, shards: Sequence[Any]) -> float:
        """How long these take beside others, in the unit of sizes; a shard that is named twice
        counts once."""
        return sum(map(self._effort, self.bundles(shards)))

    def _effort(self, bundle: Sequence[Any]) -> float:
        kind = self.kind(bundle[0].kind)
        return kind.start + kind.pace * sum(kind.size(self, shard) for shard in bundle)

    def kept(self, shard: Any) -> bool:
        """Whether a shard is finished."""
        return self.keeper.has(self.key(shard))

    def fetch(self, shards: Sequence[Any]) -> list[pd.DataFrame]:
        """The tables of `shards`, in order: kept ones as they are, missing ones computed bundle by
        bundle and kept.

        Their columns are those that the shard's `Measurement` gives them.
        """
        keys = {shard: self.key(shard) for shard in shards}
        found = {shard: self.keeper.get(key) for shard, key in keys.items()}
        for group in self._lacking(
            [shard for shard, table in found.items() if table is None], found
        ):
            for shard, table in zip(group, self._computed(group), strict=True):
                if found[shard] is None:
                    self.keeper.put(keys[shard], table)
                    found[shard] = table
        return [found[shard] for shard in shards]

    def _computed(self, group: Sequence[Any]) -> list[pd.DataFrame]:
        """The tables of shards of one kind, computed with as many threads as give the same numbers
        everywhere."""
        from engine.models.runtime import (
            fixed_threads,
        )  # here: pages know contexts, and never load torch

        kind = self.kind(group[0].kind)
        with nullcontext() if kind.any_threads else fixed_threads(self.device):
            return kind.compute(self, group)

    def lacking(self, shards: Sequence[Any]) -> list[list[Any]]:
        """What has to be computed for all of `shards` to be kept, bundle by bundle; one whose kind
        is `whole` comes whole, what is kept of it too."""
        return self._lacking([shard for shard in shards if not self.kept(shard)], shards)

    def _lacking(self, missing: Sequence[Any], shards: Iterable[Any]) -> list[list[Any]]:
        """See `lacking`; missing: those of `shards` that are not kept."""
        lacks = set(missing)
        parts = self.bundles(
            [shard for shard in shards if shard in lacks or self.kind(shard.kind).whole]
        )
        return [part for part in parts if not lacks.isdisjoint(part)]

    def bundles(self, shards: Sequence[Any]) -> list[list[Any]]:
        """Shards that are computed in one go. One bundle is one unit of work and of resuming."""
        found: dict[tuple[str, Hashable], list[Any]] = {}
        for shard in dict.fromkeys(shards):
            found.setdefault((shard.kind, self.kind(shard.kind).together(self, shard)), []).append(
                shard
            )
        return list(found.values())


# Measured time of two models in turn, so that a busy machine disturbs both alike.


WARM_UP = 2
LEAST = 5
"""Rounds that are counted however long they take: quartiles need some."""
PATIENCE = 2.0
"""Seconds after which LEAST rounds are enough: a large model's times scatter less, and sixteen
rounds of it would take longer than its texts."""


def paired_latency(
    own: Callable[[], object],
    dense: Callable[[], object],
    repeats: int,
    device: torch.device | str,
    check: Callable[[], None] = lambda: None,
) -> tuple[np.ndarray, np.ndarray]:
    """Milliseconds of each call, [rounds] float64 for `own` and for `dense`: `repeats` of them,
    fewer where they take long (PATIENCE). WARM_UP rounds before, one where it takes long, are not
    counted. Each goes first in every other round, for what goes second finds other caches."""
    times: list[tuple[float, float]] = []
    spent, warm = 0.0, 0
    while len(times) < repeats and (len(times) < LEAST or spent < PATIENCE):
        check()
        order = (own, dense) if len(times) % 2 else (dense, own)
        first, second = (_milliseconds(one, device) for one in order)
        pair = (first, second) if order[0] is own else (second, first)
        spent += sum(pair) / 1e3
        if warm < WARM_UP and (warm == 0 or spent < PATIENCE):
            warm += 1
        else:
            times.append(pair)
    mine, theirs = np.array(times).T
    return mine, theirs


def _milliseconds(run: Callable[[], object], device: torch.device | str) -> float:
    import torch

    start = time.perf_counter()
    with torch.no_grad():
        run()
    if str(device).startswith("cuda"):
        torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3


def latency_row(own: np.ndarray, dense: np.ndarray) -> dict[str, float]:
    """Medians and quartiles of two latencies [repeats] in ms; speedup: median and quartiles of
    paired ratios."""
    return {
        "latency_ms": float(np.median(own)),
        "latency_low": float(np.quantile(own, 0.25)),
        "latency_high": float(np.quantile(own, 0.75)),
        "dense_latency_ms": float(np.median(dense)),
        "speedup": float(np.median(dense / own)),
        "speedup_low": float(np.quantile(dense / own, 0.25)),
        "speedup_high": float(np.quantile(dense / own, 0.75)),
        "n": len(own),
    }
