"""Ways to choose the heads to cut from their scores, found by being here.

The contract: scores in, exactly k heads out.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pandas as pd

from engine.core.discover import named
from engine.core.errors import Fault, RequestError, unknown
from engine.core.types import exact_count, key_of
from engine.surgery.heads.replay import Shape
from engine.surgery.ranking import best
from engine.tracks.language_models.bias import combine


@dataclass(frozen=True, eq=False)
class GroupEffects:
    """Subgroups of one axis on the prompts that heads are scored on. level, n [groups]: the dense
    model's mean toxicity, and prompts; change [units, groups]: of that mean with each head off."""

    level: np.ndarray
    n: np.ndarray
    change: np.ndarray
    reading: str = "group_means"

    @classmethod
    def of(cls, table: pd.DataFrame, axis: str, reading: str) -> GroupEffects | None:
        """From `head_groups` of a run; None where it does not hold them for the axis."""
        rows = table[table["axis"] == axis]
        if rows.empty or "level" not in rows:
            return None
        first = rows.drop_duplicates("group").set_index("group").sort_index()
        change = rows.pivot(index="unit", columns="group", values="value").sort_index()
        level, n = (first[name].to_numpy(dtype=float) for name in ("level", "n"))
        return cls(level, n, change.to_numpy(), reading)

    def bias(self, change: np.ndarray) -> np.ndarray:
        """Predicted bias of sets by their summed changes, [sets, groups] -> [sets]."""
        means = np.clip(self.level + change, 0.0, 1.0)
        return combine(means * self.n, np.broadcast_to(self.n, means.shape), self.reading)


@dataclass(frozen=True)
class Ballot:
    """What a method may look at. `scores[name]` has one number per head, [units] float64, for one
    target axis."""

    scores: Mapping[str, np.ndarray]
    total: int
    sparsity: float
    gamma: float = 0.0
    seed: int = 0
    effects: GroupEffects | None = None

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
    needs_support: bool = False
    """Whether it builds nothing on an axis whose dense bias does not stand out from chance."""
    breaks_ties: bool = False
    """Whether it takes heads by z_ppl and z_bias as FASP does, where ties can decide."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Values of the column `score` it reads."""
        return ()

    def faults(self, reading: str) -> list[Fault]:
        """What it cannot do under this reading of bias."""
        return []

    @abstractmethod
    def select(self, ballot: Ballot) -> tuple[int, ...]:
        """Flat 0-based units to cut: exactly `ballot.k`, ascending."""


@cache
def selection_methods() -> Mapping[str, SelectionMethod]:
    """Every method there is, by name."""
    return dict(sorted(named(__name__, SelectionMethod).items()))


def selection_method(name: str) -> SelectionMethod:
    """One method by name; unknown names raise RequestError and list the known ones."""
    if name not in selection_methods():
        raise RequestError(unknown("method", name, selection_methods()))
    return selection_methods()[name]


# Which heads FASP protects: those that perplexity needs most.


def critical_heads(z_ppl: np.ndarray, gamma: float) -> tuple[int, ...]:
    """FASP Algorithm 1, step 2: the int(γ·N_h) heads with the lowest z_ppl, never cut. Flat units,
    ascending.

    z_ppl [units] float: ppl with the head on minus ppl with it off; ties go to the lower unit.
    ValueError where one is NaN: whether such a head is critical is not known.
    """
    return best(z_ppl, exact_count(gamma, len(z_ppl)), highest=False)


# Choosing γ, the share of heads protected for perplexity, on validation measurements only.


GAMMAS: tuple[float, ...] = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
"""The paper's search range."""
MARGIN = 0.10
"""Perplexity may exceed the best baseline's by this share. The paper says "as close as possible";
we state a number."""


def candidates(sparsities: Sequence[float]) -> tuple[float, ...]:
    """The γ that leave enough heads to cut at every sparsity asked for (γ + α <= 1)."""
    return tuple(gamma for gamma in GAMMAS if gamma + max(sparsities, default=0.0) <= 1.0 + 1e-9)


def choose_gamma(
    bias: np.ndarray, log_ppl: np.ndarray, baseline: np.ndarray, margin: float = MARGIN
) -> np.ndarray:
    """Place of γ* among the candidates, [...] int: lowest bias among those whose perplexity stays
    within the margin of the best baseline.

    bias, log_ppl [..., gammas, sparsities] on validation; baseline [..., sparsities]: the lowest
    log perplexity among the baselines. Both are averaged over the sparsities. Where no γ stays
    within the margin, the one with the lowest perplexity is taken. Ties go to the earlier γ.
    Leading axes, such as bootstrap draws, are chosen for one by one.
    """
    level = bias.mean(axis=-1)
    excess = (log_ppl - baseline[..., None, :]).mean(axis=-1)
    within = excess <= np.log1p(margin)
    lowest = np.where(within, level, np.inf).argmin(axis=-1)
    return np.where(within.any(axis=-1), lowest, excess.argmin(axis=-1))


# Heads that a tie decides: equal scores on both sides of a boundary, and the two rules for them.


RULES = ("index", "published")
"""How tied heads at the boundary of γ are settled: the lower index is protected, or, as in the
published code, none."""


def tied_at_boundary(values: np.ndarray, taken: Iterable[int], allowed: Iterable[int]) -> int:
    """How many of the units `taken` have a value that one of the others among `allowed` has too.
    values [units]."""
    taken = set(taken)
    left = {float(values[unit]) for unit in allowed if unit not in taken}
    return sum(float(values[unit]) in left for unit in taken)


def fasp_ties(
    scores: Mapping[str, np.ndarray], critical: Iterable[int], cut: Iterable[int]
) -> tuple[int, int]:
    """Heads protected, and heads cut, only because the lower index wins a tie; scores: z_ppl and
    z_bias, [units] each."""
    every, critical = range(len(scores["z_ppl"])), set(critical)
    free = [unit for unit in every if unit not in critical]
    tied = tied_at_boundary(scores["z_ppl"], critical, every)
    return tied, tied_at_boundary(scores["z_bias"], cut, free)


def protected(z_ppl: np.ndarray, gamma: float, rule: str = "index") -> tuple[int, ...]:
    """Critical heads by one of RULES, ascending; z_ppl [units].

    Published: those strictly below the (int(γ·N) + 1)-th lowest value, so that heads tied there are
    left unprotected.
    """
    chosen = critical_heads(z_ppl, gamma)
    k = exact_count(gamma, len(z_ppl))
    if rule == "index" or k >= len(z_ppl):
        return chosen
    return tuple(np.flatnonzero(z_ppl < np.sort(z_ppl)[k]).tolist())


# The same methods held to as many heads per layer and whole key/value groups, so that any loader
# reads the rest.


def groups_per_layer(sparsity: float, shape: Shape) -> int:
    """Groups that a sparsity takes from every layer: as many whole ones as fit into int(α·N)
    heads."""
    return exact_count(sparsity, shape.n_layers * shape.n_heads) // (shape.n_layers * shape.group)


def level_faults(sparsities: Iterable[float], shape: Shape) -> list[Fault]:
    """Why no level takes a whole group of heads from every layer, and which does."""
    if any(shape.may_take(groups_per_layer(level, shape)) for level in sparsities):
        return []
    least = next(filter(shape.may_take, range(1, shape.groups)), 0)
    keys = f" ({shape.group} share keys)" * (shape.group > 1)
    what = f"no level leaves each layer of {shape.n_heads} heads{keys} a number that loaders read."
    fix = f"Add a level of {math.ceil(1000 * least / shape.groups) / 1000:g}, or leave it out."
    return [Fault("deployable", what, fix if least else "Leave it out.")]


def even_cut(method: SelectionMethod, ballot: Ballot, shape: Shape) -> tuple[int, ...]:
    """What a method cuts when it has to choose in every layer by itself, among its groups: flat
    units, ascending; none where not even one group per layer fits. A group's score is the sum of
    its heads', and γ protects a share of the groups of every layer. Methods that draw do so anew in
    every layer.
    """
    taken = shape.may_take(groups_per_layer(ballot.sparsity, shape))
    if not taken:
        return ()
    cut: list[int] = []
    for layer in range(shape.n_layers):
        own = {name: _grouped(scores, layer, shape) for name, scores in ballot.scores.items()}
        seed = key_of("even", ballot.seed, layer) if method.uses_seed else ballot.seed
        effects = ballot.effects and replace(
            ballot.effects, change=_grouped(ballot.effects.change, layer, shape)
        )
        share = taken / shape.groups
        chosen = method.select(Ballot(own, shape.groups, share, ballot.gamma, seed, effects))
        first = layer * shape.n_heads
        cut += [
            first + group * shape.group + head for group in chosen for head in range(shape.group)
        ]
    return tuple(sorted(cut))


def _grouped(scores: np.ndarray, layer: int, shape: Shape) -> np.ndarray:
    """Scores [units, ...] -> of the groups of one layer, [groups, ...]."""
    whole = shape.n_layers, shape.groups, shape.group, *scores.shape[1:]
    return scores.reshape(whole).sum(axis=2)[layer]
