"""The contract of a selection method: scores in, exactly k heads out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from engine.core.discover import members
from engine.core.errors import RequestError, unknown
from engine.core.levels import exact_count
from engine.tracks.language_models.selection.critical import critical_heads


@dataclass(frozen=True)
class Ballot:
    """What a method may look at. `scores[name]` has one number per head, [units] float64, for one
    target axis."""

    scores: Mapping[str, np.ndarray]
    total: int
    sparsity: float
    gamma: float = 0.0
    seed: int = 0

    @property
    def k(self) -> int:
        """Exactly so many heads are cut: int(α·N_h)."""
        return exact_count(self.sparsity, self.total)

    @property
    def critical(self) -> tuple[int, ...]:
        """The heads that are never cut, by γ and z_ppl."""
        return critical_heads(self.scores["z_ppl"], self.gamma)


class SelectionMethod(ABC):
    """One way to choose heads: a final subclass in a file of this package, or a row of its
    `ROWS`."""

    name: str
    version: int = 1
    """Raise when it comes out differently: runs that used an older version are then computed anew.
    """
    per_axis: bool = False
    uses_gamma: bool = False
    uses_seed: bool = False
    breaks_ties: bool = False
    """Whether it takes heads by z_ppl and z_bias as FASP does, where ties can decide."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Values of the column `score` it reads."""
        return ()

    @abstractmethod
    def select(self, ballot: Ballot) -> tuple[int, ...]:
        """Flat 0-based units to cut: exactly `ballot.k`, ascending."""


@cache
def selection_methods() -> Mapping[str, SelectionMethod]:
    """Every method there is, by name."""
    import engine.tracks.language_models.selection as package

    found = sorted(members(package, SelectionMethod), key=lambda method: method.name)
    return {method.name: method for method in found}


def selection_method(name: str) -> SelectionMethod:
    """One method by name; unknown names raise RequestError and list the known ones."""
    if name not in selection_methods():
        raise RequestError(unknown("method", name, selection_methods()))
    return selection_methods()[name]
