"""AutoBot: filters whose learned bottleneck closes under a target of FLOPs are cut (Castells and
Yeom 2021)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from engine.core.types import Setting
from engine.tracks.image_classifiers.methods.base import Chosen, FilterJob, FilterMethod


class AutoBot(FilterMethod):
    """One search per speedup: the bottlenecks depend on the target. The model's weights stay as
    they are."""

    name = "autobot"
    looks_at_images = True
    plain_labels = "original"
    settings = (
        Setting(
            "rate",
            "number",
            0.85,
            "Learning rate of Adam on the bottlenecks (Table 1).",
            1e-4,
            10.0,
        ),
        Setting(
            "beta",
            "number",
            2.7,
            "Weight of the distance from the target FLOPs (Table 1).",
            0.0,
            100.0,
        ),
        Setting(
            "iterations",
            "integer",
            200,
            "Batches to learn from, per target (Table 1).",
            10,
            100_000,
        ),
        Setting("batch", "integer", 64, "Images per batch.", 2, 4096),
    )

    def choose(self, job: FilterJob) -> Iterator[Chosen]:
        from engine.surgery.ranking import meet_target
        from engine.tracks.image_classifiers.methods._learned import learn_bottlenecks

        total = len(job.speedups)
        for place, speedup in enumerate(sorted(job.speedups)):
            goal = job.graph.flops() / speedup
            learned = learn_bottlenecks(
                job.classifier,
                job.graph,
                job.batches,
                job.targets,
                goal,
                rate=self.setting(job, "rate"),
                beta=self.setting(job, "beta"),
                iterations=self.setting(job, "iterations"),
                check=job.check,
                step=_stepping(job, place, total),
            )
            met = meet_target(job.graph, learned.gates, goal)
            yield Chosen(speedup, learned.gates, met.keep, met.holds, curve=learned.curve)


def _stepping(job: FilterJob, place: int, total: int) -> Callable[[int, int], None]:
    """How far the target at `place` of `total` is, told as a share of all."""
    return lambda done, of: job.step(place * of + done, total * of)
