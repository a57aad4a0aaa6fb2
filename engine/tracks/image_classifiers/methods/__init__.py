"""The contract of a way to choose filters: model, images and target speedups in, one mask per
target out. No torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.classifiers.images.context import Declared
from engine.core.discover import named
from engine.core.errors import RequestError, unknown
from engine.core.types import Values

if TYPE_CHECKING:  # these load torch; stating what to do must not
    from engine.models.load_image_classifier import Classifier
    from engine.surgery.filters.graph import FilterGraph
    from engine.training.fit import Batches
    from engine.training.losses import Targets


@dataclass(frozen=True)
class FilterJob:
    """What a method works on. The classifier is a copy of its own, which it may change. Speedups
    are FLOPs ratios."""

    classifier: Classifier
    graph: FilterGraph
    batches: Batches
    held: Targets | None
    speedups: tuple[float, ...]
    seed: int
    settings: Values = field(default_factory=dict)
    check: Callable[[], None] = lambda: None
    step: Callable[[int, int], None] = lambda done, total: None

    @property
    def targets(self) -> Targets:
        """What the images are held to, for methods that look at any."""
        assert self.held is not None, "this method looks at no images"
        return self.held


@dataclass(frozen=True)
class Chosen:
    """What a method chose for one speedup. scores [units], higher stays; keep [units]; met: within
    0.1 % of the target.

    weights: the model's state where the method trained it, else None. curve: one row per iteration,
    step and loss.
    """

    speedup: float
    scores: np.ndarray
    keep: np.ndarray
    met: bool
    weights: dict[str, Any] | None = None
    curve: list[dict[str, float]] = field(default_factory=list)


class FilterMethod(Declared, ABC):
    """One way to choose filters. Final subclasses live one per file of this folder and are
    found."""

    name: str
    version: int = 1
    """Raise when it comes out differently: runs that used an older version are then computed anew.
    """
    batch: int = 64
    """Images per iteration, published default."""
    plain_labels: str = "truth"
    """Labels while pruning where the PW loss is off: "truth", or the "original" model's own
    answers."""
    looks_at_images: bool = False
    """Whether choosing reads training images, so that the PW loss can act there."""
    one_descent: bool = False
    """Whether larger speedups continue from smaller ones, so that the masks depend on which others
    are asked for."""
    draws: bool = False
    """Whether it draws at random beyond the order of images."""

    @abstractmethod
    def choose(self, job: FilterJob) -> Iterator[Chosen]:
        """One result per speedup, ascending. Each is yielded as soon as it is there."""


@cache
def filter_methods() -> Mapping[str, FilterMethod]:
    """Every method there is, by name."""
    return named(__package__, FilterMethod)


def filter_method(name: str) -> FilterMethod:
    """The method, or RequestError with the known names."""
    if name not in filter_methods():
        raise RequestError(unknown("method", name, filter_methods()))
    return filter_methods()[name]


def from_scores(job: FilterJob, scores: np.ndarray) -> Iterator[Chosen]:
    """Masks from the same scores [units] for every speedup: what methods yield that need no
    target."""
    from engine.surgery.ranking import meet_target

    for speedup in sorted(job.speedups):
        met = meet_target(job.graph, scores, job.graph.flops() / speedup)
        yield Chosen(speedup, scores, met.keep, met.holds)
