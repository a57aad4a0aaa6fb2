"""Methods that look at no images: the smallest weights, FPGM, and filters drawn at random."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.core.types import Setting, rng
from engine.surgery.ranking import median_ranks, shares_within
from engine.tracks.image_classifiers.methods import (
    Chosen,
    FilterJob,
    FilterMethod,
    from_scores,
)


class Magnitude(FilterMethod):
    """The L1 or L2 norm of a filter's weights, over all convolutions whose filters are cut
    together."""

    name = "magnitude"
    settings = (
        Setting("norm", "choice", "l2", "Which norm of a filter's weights.", choices=("l1", "l2")),
        Setting(
            "scope",
            "choice",
            "layer",
            "Ranked within each layer (as published), or all filters together.",
            choices=("layer", "global"),
        ),
    )

    def choose(self, job: FilterJob) -> Iterator[Chosen]:
        from engine.surgery.filters.graph import rows_of

        power = 1 if self.setting(job, "norm") == "l1" else 2
        scores = np.zeros(job.graph.total)
        for group in job.graph.groups:
            for weight in rows_of(job.classifier.model, group):
                sizes = (np.abs(weight) ** power).sum(axis=1)
                scores[group.start : group.start + group.width] += sizes
        scores = scores if power == 1 else np.sqrt(scores)
        if self.setting(job, "scope") == "layer":
            scores = shares_within(job.graph, scores)
        yield from from_scores(job, scores)


# FPGM: cut the filters nearest to the geometric median of their layer (He et al. 2019).


class Fpgm(FilterMethod):
    """Sum of a filter's distances to all filters of its layer, ranked within the layer as
    published."""

    name = "fpgm"

    def choose(self, job: FilterJob) -> Iterator[Chosen]:
        yield from from_scores(job, median_ranks(job.classifier.model, job.graph))


# Cut filters at random: what any method must beat.


class Random(FilterMethod):
    """A seeded random number per filter; another one in every trial."""

    name = "random"
    draws = True

    def choose(self, job: FilterJob) -> Iterator[Chosen]:
        yield from from_scores(job, rng("random filters", job.seed).random(job.graph.total))
