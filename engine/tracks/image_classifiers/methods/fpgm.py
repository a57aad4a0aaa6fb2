"""FPGM: cut the filters nearest to the geometric median of their layer (He et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.surgery.filters.ranking import median_ranks
from engine.tracks.image_classifiers.methods.base import (
    Chosen,
    FilterJob,
    FilterMethod,
    from_scores,
)

if TYPE_CHECKING:
    pass


class Fpgm(FilterMethod):
    """Sum of a filter's distances to all filters of its layer, ranked within the layer as
    published."""

    name = "fpgm"

    def choose(self, job: FilterJob) -> Iterator[Chosen]:
        yield from from_scores(job, median_ranks(job.classifier.model, job.graph))
