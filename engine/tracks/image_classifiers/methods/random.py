"""Cut filters at random: what any method must beat."""

from __future__ import annotations

from collections.abc import Iterator

from engine.core.seeds import rng
from engine.tracks.image_classifiers.methods.base import (
    Chosen,
    FilterJob,
    FilterMethod,
    from_scores,
)


class Random(FilterMethod):
    """A seeded random number per filter; another one in every trial."""

    name = "random"
    draws = True

    def choose(self, job: FilterJob) -> Iterator[Chosen]:
        yield from from_scores(job, rng("random filters", job.seed).random(job.graph.total))
