"""FPGM: cut the filters nearest to the geometric median of their layer (He et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial.distance import pdist, squareform

from engine.scores.filter_base import Chosen, FilterJob, FilterMethod, from_scores, shares_within

if TYPE_CHECKING:
    from engine.surgery.filter_graph import FilterGraph


class Fpgm(FilterMethod):
    """Sum of a filter's distances to all filters of its layer, ranked within the layer as published."""

    name = "fpgm"

    def choose(self, job: FilterJob) -> Iterator[Chosen]:
        yield from from_scores(job, median_ranks(job.classifier.model, job.graph))


def median_ranks(model: Any, graph: FilterGraph) -> np.ndarray:
    """How far each filter is from the others of its layer, as ranks within the layer in (0, 1]: [units]."""
    scores = np.zeros(graph.total)
    for group in graph.groups:
        for name in group.convolutions:
            weight = model.get_submodule(name).weight.detach().double().cpu().numpy()
            flat = weight.reshape(len(weight), -1)
            scores[group.start : group.start + group.width] += squareform(pdist(flat)).sum(axis=1)
    return shares_within(graph, scores)
