"""Scores of filters as ranks within their layer, so that scores whose scale differs between layers
can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial.distance import pdist, squareform

if TYPE_CHECKING:
    from engine.surgery.filters.graph import FilterGraph
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # these load torch; stating what to do must not
    from engine.surgery.filters.graph import FilterGraph


def shares_within(graph: FilterGraph, scores: np.ndarray) -> np.ndarray:
    """Scores [units] as ranks within their group, [units] in (0, 1]: every group loses a similar
    share of filters."""
    found = np.empty(graph.total)
    for group in graph.groups:
        span = slice(group.start, group.start + group.width)
        order = np.lexsort((-np.arange(group.width), scores[span]))
        ranks = np.empty(group.width)
        ranks[order] = np.arange(1, group.width + 1) / group.width
        found[span] = ranks
    return found


def median_ranks(model: Any, graph: FilterGraph) -> np.ndarray:
    """How far each filter is from the others of its layer, as ranks within the layer: [units] in
    (0, 1]."""
    from engine.surgery.filters.weights import rows_of  # loads torch

    scores = np.zeros(graph.total)
    for group in graph.groups:
        for flat in rows_of(model, group):
            scores[group.start : group.start + group.width] += squareform(pdist(flat)).sum(axis=1)
    return shares_within(graph, scores)
