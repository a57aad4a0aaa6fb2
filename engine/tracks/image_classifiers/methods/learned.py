"""AutoBot, which cuts filters whose learned bottleneck closes under a target of FLOPs (Castells and
Yeom 2021), and Taylor. Torch loads when they choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from engine.core.types import Setting
from engine.tracks.image_classifiers.methods import Chosen, FilterJob, FilterMethod


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


# Taylor: train, and cut the filters that matter least to the loss to first order, again and again
# (Molchanov 2016).


class Taylor(FilterMethod):
    """One descent serves all speedups: larger targets continue where smaller ones stopped."""

    name = "taylor"
    looks_at_images = True
    one_descent = True
    settings = (
        Setting(
            "rate", "number", 0.01, "Learning rate of SGD between two cuts (Table 2).", 1e-6, 1.0
        ),
        Setting(
            "every", "integer", 5, "Iterations between two cuts, f_prune (Table 2).", 1, 10_000
        ),
        Setting("count", "integer", 1, "Filters per cut, N_filters (Table 2).", 1, 10_000),
        Setting(
            "momentum",
            "number",
            0.9,
            "Momentum of SGD between two cuts; the paper states none.",
            0.0,
            0.999,
        ),
        Setting(
            "reading",
            "choice",
            "training",
            "Where importance is read: training (mean over the batches since the "
            "last cut, while weights move), cut (the last batch before the cut alone).",
            choices=("training", "cut"),
        ),
        Setting(
            "normalise",
            "flag",
            False,
            "Compare filters by importance over the L2 norm of their layer's.",
        ),
        Setting("batch", "integer", 64, "Images per batch.", 2, 4096),
    )

    def choose(self, job: FilterJob) -> Iterator[Chosen]:
        from engine.tracks.image_classifiers.methods._learned import TaylorPruning

        names = ("rate", "every", "count", "normalise", "momentum")
        settings = {name: self.setting(job, name) for name in names}
        settings["last_only"] = self.setting(job, "reading") == "cut"
        work = TaylorPruning(
            job.classifier,
            job.graph,
            job.batches,
            job.targets,
            **settings,
            check=job.check,
            step=job.step,
        )
        whole, speedups = job.graph.flops(), sorted(job.speedups)
        stops = work.run([whole / speedup for speedup in speedups])
        for speedup, stop in zip(speedups, stops, strict=True):
            yield Chosen(
                speedup, stop.importance, stop.met.keep, stop.met.holds, stop.weights, stop.curve
            )
