"""Taylor: train, and cut the filters that matter least to the loss to first order, again and again
(Molchanov 2016)."""

from __future__ import annotations

from collections.abc import Iterator

from engine.core.types import Setting
from engine.tracks.image_classifiers.methods.base import Chosen, FilterJob, FilterMethod


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
