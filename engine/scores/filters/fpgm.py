"""FPGM: cut the filters nearest to the geometric median of their layer (He et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.spatial.distance import pdist, squareform

from engine.scores.filter_base import Chosen, FilterJob, FilterMethod, from_scores, shares_within


class Fpgm(FilterMethod):
    """Sum of a filter's distances to all filters of its layer, ranked within the layer as published."""

    name = "fpgm"

    def choose(self, job: FilterJob) -> Iterator[Chosen]:
        scores = np.zeros(job.graph.total)
        for group in job.graph.groups:
            for name in group.convolutions:
                weight = job.classifier.model.get_submodule(name).weight.detach().double().cpu().numpy()
                flat = weight.reshape(len(weight), -1)
                scores[group.start : group.start + group.width] += squareform(pdist(flat)).sum(axis=1)
        yield from from_scores(job, shares_within(job.graph, scores))
