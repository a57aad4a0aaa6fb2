"""The contract of fair training: a model, images with groups and a sparsity in; a mask and weights
out. No torch."""

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
from engine.training.recipe import Keep, Nowhere, Recipe

if TYPE_CHECKING:  # these load torch; stating what to do must not
    from engine.models.load_image_classifier import Classifier
    from engine.surgery.filters.graph import FilterGraph
    from engine.training.fit import Batches
    from engine.training.losses import Targets

DRAWS = "draws"
"""Setting of methods that draw masks at random: how many per seed."""
FILTERS, WEIGHTS, NONE = "filters", "weights", "none"
"""What a method cuts: whole filters, single weights, nothing."""


class FairMethod(Declared, ABC):
    """One way to a sparse model: a final subclass in a file of this package, or a row of its
    `ROWS`."""

    name: str
    version: int = 1
    units: str = FILTERS
    fair: bool = False
    """Whether the fairness term acts anywhere, so that λ matters."""
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

    def draws(self, given: Values) -> int:
        """How many trainings each seed has, with the settings `given`."""
        return next(
            (int(given.get(DRAWS, item.default)) for item in self.settings if item.name == DRAWS), 1
        )


@cache
def fair_methods() -> Mapping[str, FairMethod]:
    """Every method there is, by name."""
    return named(__package__, FairMethod)


def fair_method(name: str) -> FairMethod:
    """The method, or RequestError with the known names."""
    if name not in fair_methods():
        raise RequestError(unknown("method", name, fair_methods()))
    return fair_methods()[name]


# What one fair training works on and what comes of it. No torch.


ACCURACY, DEGRADATION = "accuracy", "degradation"
NOTIONS = (ACCURACY, DEGRADATION)
"""What must be alike between groups: the accuracy of the cut model (Definition 1), or what it lost
(Definition 3)."""
RECIPE = ("rate", "batch", "weight_decay", "schedule", "mirror", "optimizer")
"""What a fair training takes of a recipe; its length is a number of iterations."""
FLOPS, UNITS = "FLOPs", "filters"
EQUAL = (FLOPS, UNITS)
"""What methods that cut filters have alike at one sparsity: the share of FLOPs, or of filters, that
is cut."""
PHASE_POINT = (
    "phase",
    "step",
    "loss",
    "penalty",
    "surrogate_gap",
    "mask_updates",
    "examples",
    "seconds",
)
SPENT = ("iterations", "mask_updates", "examples", "seconds")
"""What a training costs; iterations are updates of the weights."""
LOOKS = ("accuracy", "gap", "degradation", "val_loss", "cut")
"""Columns of a training curve; LOOKS are NaN where the validation images were not looked at; cut:
share that is cut by then, of FLOPs where these are what is alike, else of units."""


@dataclass(frozen=True)
class FairJob:
    """One training. The classifier is a copy of its own, which may be changed.

    groups: code of each training image's group, [n] int64, -1 for none; original: the starting
    model's probabilities of the training images, [n, classes]. sparsities: ascending, one unless
    the method makes one descent of all. strength: λ; tolerance: τ. equal: one of EQUAL. draw:
    number of a random mask among those of one seed. widths: how many filters of each group stay,
    [groups] int, where another method's training decides that. iterations: weight updates in all,
    two stages included. look: accuracy, gap, degradation and val_loss of a model on validation
    images.
    keep: where an unfinished phase is kept, by its name.
    """

    classifier: Classifier
    graph: FilterGraph
    batches: Batches
    targets: Targets
    groups: np.ndarray
    original: np.ndarray
    sparsities: tuple[float, ...]
    strength: float
    iterations: int
    recipe: Recipe
    seed: int
    tolerance: float = 0.0
    notion: str = ACCURACY
    check_every: int = 40
    equal: str = UNITS
    draw: int = 0
    widths: np.ndarray | None = None
    settings: Values = field(default_factory=dict)
    look: Callable[[Any], Mapping[str, float]] = lambda model: {}
    check: Callable[[], None] = lambda: None
    step: Callable[[int, int], None] = lambda done, total: None
    point: Callable[[Values], None] = lambda row: None
    keep: Callable[[str], Keep] = lambda phase: Nowhere()


@dataclass(frozen=True)
class Trained:
    """The model that a training ended in at one sparsity.

    keep, scores: [filters of the graph] or [prunable weights], empty for none; higher scores stay.
    weights: the state dict in its full shapes, cut weights are 0 and cut filters still in place.

    curve: rows with the columns PHASE_POINT and LOOKS. spent: iterations (weight updates),
    mask_updates, examples, seconds, over all phases that led here.
    """

    sparsity: float
    keep: np.ndarray
    scores: np.ndarray
    weights: dict[str, Any]
    curve: list[dict[str, Any]]
    spent: dict[str, float]
