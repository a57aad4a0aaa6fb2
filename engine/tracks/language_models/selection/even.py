"""The same methods held to as many heads per layer and whole key/value groups, so that any loader
reads the rest."""

from __future__ import annotations

import numpy as np

from engine.core.levels import exact_count
from engine.core.seeds import key_of
from engine.surgery.heads.even import Shape
from engine.tracks.language_models.selection.base import Ballot, SelectionMethod
from engine.tracks.language_models.words import EVEN


def is_even_method(method: str) -> bool:
    return method.endswith(EVEN)


def groups_per_layer(sparsity: float, shape: Shape) -> int:
    """Groups that a sparsity takes from every layer: as many whole ones as fit into int(α·N)
    heads."""
    return exact_count(sparsity, shape.n_layers * shape.n_heads) // (shape.n_layers * shape.group)


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
        chosen = method.select(Ballot(own, shape.groups, taken / shape.groups, ballot.gamma, seed))
        first = layer * shape.n_heads
        cut += [
            first + group * shape.group + head for group in chosen for head in range(shape.group)
        ]
    return tuple(sorted(cut))


def _grouped(scores: np.ndarray, layer: int, shape: Shape) -> np.ndarray:
    """Scores [units] -> of the groups of one layer, [groups]."""
    return scores.reshape(shape.n_layers, shape.groups, shape.group).sum(axis=-1)[layer]
