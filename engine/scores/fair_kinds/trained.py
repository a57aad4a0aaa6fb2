"""One training: cut as its method says, proved to be the mask, and asked about every test image."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from engine.metrics.fair_bench import FairBench, FairSettings, FairShard
from engine.metrics.image_bench import TEST, ImageShard
from engine.metrics.packed import curve_arrays, pack
from engine.metrics.workbench import Kind
from engine.scores.fair_base import ACCURACY, FILTERS, RECIPE, Trained, fair_method
from engine.scores.fair_kinds._work import job_of, must_be_zero, zeros_of
from engine.scores.image_kinds._work import answers_of, settings_of
from engine.scores.image_kinds.trial import cut_and_proved
from engine.surgery.filter_graph import filter_graph
from engine.surgery.filter_weights import with_weights


def _usual(settings: FairSettings) -> bool:
    return settings.tolerance == 0.0 and settings.notion == ACCURACY


class TrainedModel(Kind):
    """Packed: weights/… in full shapes, keep and scores [units], curve/…, probabilities [test images, classes] of the
    cut model; and plainly history, flops, parameters, n_zero, spent, agreement of masked and cut.

    All sparsities of a descent are one training.
    """

    name = "trained"

    def parts(self, bench: FairBench, shard: FairShard) -> dict[str, Any]:
        method, settings = fair_method(shard.method), bench.settings
        recipe = {name: value for name, value in settings.recipe.to_dict().items() if name in RECIPE}
        return {
            "method": method.version,
            "settings": settings_of(bench, method),
            "recipe": {**recipe, "mirror": settings.recipe.mirror and bench.mirror},
            "iterations": settings.iterations,
            "check_every": settings.check_every,  # the curve is part of what is kept
            "groups": [settings.axis, list(bench.groups)],  # their gap is in the curve
            # the surrogate is in the curve of every method; a plain one's usual form was there before it had a key
            "fair": [settings.tolerance, settings.notion] if method.fair or not _usual(settings) else [],
            "tune_on": settings.tune_on,
            "sparsities": list(settings.sparsities[method.name]) if method.one_descent else [],
        }

    def together(self, bench: FairBench, shard: FairShard) -> Hashable:
        return (shard.method, shard.strength, shard.seed) if fair_method(shard.method).one_descent else shard

    def needs(self, bench: FairBench, shard: FairShard) -> list[ImageShard]:
        return [ImageShard("original"), ImageShard("dense_answers")]

    def compute(self, bench: FairBench, shards: Sequence[FairShard]) -> list[pd.DataFrame]:
        first, method = shards[0], fair_method(shards[0].method)
        # a descent depends on all its targets, also where only some are missing
        wanted = bench.settings.sparsities[method.name] if method.one_descent else (first.sparsity,)
        whole = FairShard("trained", first.method, max(wanted), first.strength, first.seed)
        job = job_of(bench, method, first, tuple(sorted(wanted)), bench.key(whole))
        found = {one.sparsity: one for one in method.train(job)}
        return [self._packed(bench, shard, found[shard.sparsity]) for shard in shards]

    def _packed(self, bench: FairBench, shard: FairShard, one: Trained) -> pd.DataFrame:
        weights = {name: value.detach().cpu().numpy() for name, value in one.weights.items()}
        keep = np.asarray(one.keep, dtype=bool)
        small = with_weights(bench.dense, weights)
        more: dict[str, Any] = {"history": [], "max_logit_difference": 0.0, "agrees": True}
        if fair_method(shard.method).units == FILTERS:
            mask = bench.graph.mask(keep)
            small, history, agreement = cut_and_proved(bench, small, mask, bench.describe(shard))
            n_zero = zeros_of({name: value.cpu().numpy() for name, value in small.model.state_dict().items()},
                              small.model)  # fmt: skip
            more = {"history": history, "max_logit_difference": agreement.max_logit_difference,
                    "agrees": agreement.holds}  # fmt: skip
        elif len(keep):
            n_zero = must_be_zero(one.weights, small.model, keep, bench.describe(shard))
        else:
            n_zero = zeros_of(weights, small.model)
        arrays = {f"weights/{name}": value for name, value in weights.items()}
        arrays |= {"keep": keep, "scores": np.asarray(one.scores, dtype=np.float32), **curve_arrays(one.curve)}
        arrays["probabilities"] = answers_of(bench, small, TEST)
        more |= {"flops": filter_graph(small).flops(), "parameters": small.n_parameters, "n_zero": n_zero}
        return pack(arrays, {**more, "spent": {name: float(value) for name, value in one.spent.items()}})

    def size(self, bench: FairBench, shard: FairShard) -> float:
        settings, method = bench.settings, fair_method(shard.method)
        own = settings_of(bench, method)
        looks = settings.iterations / settings.check_every * len(bench.looked)
        steps = 3.0 * settings.iterations * settings.recipe.batch
        masks = (1.0 - own["settle"]) / own["inner"] if "inner" in own else 0.0  # a learned mask has its own batches
        return (steps * (1.0 + masks) + looks) * method.rounds_of_all + len(bench.rows(TEST))
