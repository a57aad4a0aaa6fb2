"""The contract of fair training: a model, images with groups and a sparsity in; a mask and weights
out. No torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from engine.core.discover import members
from engine.core.errors import RequestError, unknown
from engine.core.types import Setting
from engine.tracks.fair_training.training.job import (
    ACCURACY,
    DEGRADATION,
    EQUAL,
    FLOPS,
    LOOKS,
    NOTIONS,
    PHASE_POINT,
    RECIPE,
    FairJob,
    Trained,
)

__all__ = [
    "ACCURACY",
    "DEGRADATION",
    "EQUAL",
    "FLOPS",
    "LOOKS",
    "NOTIONS",
    "PHASE_POINT",
    "RECIPE",
    "FairJob",
    "Trained",
]

DRAWS = "draws"
"""Setting of methods that draw masks at random: how many per seed."""
FILTERS, WEIGHTS, NONE = "filters", "weights", "none"
"""What a method cuts: whole filters, single weights, nothing."""


class FairMethod(ABC):
    """One way to a sparse model: a final subclass in a file of this package, or a row of its
    `ROWS`."""

    name: str
    version: int = 1
    units: str = FILTERS
    fair: bool = False
    """Whether the fairness term acts anywhere, so that λ matters."""
    settings: tuple[Setting, ...] = ()
    one_descent: bool = False
    """Whether larger sparsities continue from smaller ones, so that one call serves them all."""
    widths_of: str = ""
    """The method whose trained model says how many filters of each layer stay, "" for none: a
    control of it."""
    rounds_of_all: float = 1.0
    """How many times the iterations it takes, for progress and forecasts; a descent's per sparsity.
    """

    @abstractmethod
    def train(self, job: FairJob) -> Iterator[Trained]:
        """One result per sparsity, ascending; each is yielded as soon as it is there."""

    def draws(self, given: Mapping[str, Any]) -> int:
        """How many trainings each seed has, with the settings `given`."""
        return next(
            (int(given.get(DRAWS, item.default)) for item in self.settings if item.name == DRAWS), 1
        )

    def setting(self, job: FairJob, name: str) -> Any:
        """The value asked for, or the declared default."""
        declared = {item.name: item.default for item in self.settings}
        return job.settings.get(name, declared[name])


@cache
def fair_methods() -> Mapping[str, FairMethod]:
    """Every method there is, by name."""
    import engine.tracks.fair_training.methods as package

    return {one.name: one for one in members(package, FairMethod)}


def fair_method(name: str) -> FairMethod:
    """The method, or RequestError with the known names."""
    if name not in fair_methods():
        raise RequestError(unknown("method", name, fair_methods()))
    return fair_methods()[name]
