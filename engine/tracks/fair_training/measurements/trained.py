"""One training: cut as its method says, proved to be the mask, and asked about every test image."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.measurements import Measurement
from engine.classifiers.images.context import TEST, ImageShard
from engine.classifiers.images.dense import (
    DenseCost,
    answers_of,
    cut_and_proved,
    settings_of,
)
from engine.models.load_image_classifier import Classifier
from engine.store.tables import curve_arrays, pack
from engine.surgery.filters.cut import with_weights
from engine.surgery.filters.graph import filter_graph
from engine.tracks.fair_training.context import FairContext, FairSettings, FairShard
from engine.tracks.fair_training.measurements._work import (
    job_of,
    model_of,
    must_be_zero,
    trained_shard,
    zeros_of,
)
from engine.tracks.fair_training.methods.base import (
    ACCURACY,
    FILTERS,
    RECIPE,
    UNITS,
    Trained,
    fair_method,
)


def _usual(settings: FairSettings) -> bool:
    return settings.tolerance == 0.0 and settings.notion == ACCURACY


class TrainedModel(Measurement):
    """Array table: weights/… in full shapes, keep and scores [units], curve/…, probabilities [test
    images, classes] of the cut model. Plainly: history, flops, parameters, n_zero, spent,
    agreement of masked and cut.

    All sparsities of a descent are one training.
    """

    name = "trained"
    pace = 0.48

    def parts(self, context: FairContext, shard: FairShard) -> dict[str, Any]:
        method, settings = fair_method(shard.method), context.settings
        recipe = {
            name: value for name, value in settings.recipe.to_dict().items() if name in RECIPE
        }
        return {
            "method": method.version,
            "settings": settings_of(context, method),
            "recipe": {**recipe, "mirror": settings.recipe.mirror and context.mirror},
            "iterations": settings.iterations,
            "check_every": settings.check_every,  # the curve is part of what is kept
            "groups": [settings.axis, list(context.groups)],  # their gap is in the curve
            # the surrogate is in the curve of every method; a plain one's usual form was there
            # before it had a key
            "fair": (
                [settings.tolerance, settings.notion] if method.fair or not _usual(settings) else []
            ),
            "tune_on": settings.tune_on,
            "sparsities": list(settings.sparsities[method.name]) if method.one_descent else [],
            **(
                {"equal": settings.equal}
                if method.units == FILTERS and settings.equal != UNITS
                else {}
            ),
            **({"widths": self._of_widths(context, shard)} if method.widths_of else {}),
        }

    def _of_widths(self, context: FairContext, shard: FairShard) -> list[Any]:
        other = trained_shard(shard, fair_method(shard.method).widths_of)
        return [other.own, self.parts(context, other)]

    def together(self, context: FairContext, shard: FairShard) -> Hashable:
        return (
            (shard.method, shard.strength, shard.seed)
            if fair_method(shard.method).one_descent
            else shard
        )

    def needs(self, context: FairContext, shard: FairShard) -> list[FairShard | ImageShard]:
        other = fair_method(shard.method).widths_of
        of_widths = [trained_shard(shard, other)] if other else []
        return [ImageShard("original"), ImageShard("dense_answers"), *of_widths]

    def compute(self, context: FairContext, shards: Sequence[FairShard]) -> list[pd.DataFrame]:
        first, method = shards[0], fair_method(shards[0].method)
        # a descent depends on all its targets, also where only some are missing
        wanted = (
            context.settings.sparsities[method.name] if method.one_descent else (first.sparsity,)
        )
        whole = FairShard(
            "trained", first.method, max(wanted), first.strength, first.seed, first.draw
        )
        job = job_of(context, method, first, tuple(sorted(wanted)), context.key(whole))
        found = {one.sparsity: one for one in method.train(job)}
        return [self._packed(context, shard, found[shard.sparsity]) for shard in shards]

    def _packed(self, context: FairContext, shard: FairShard, one: Trained) -> pd.DataFrame:
        weights = {name: value.detach().cpu().numpy() for name, value in one.weights.items()}
        keep = np.asarray(one.keep, dtype=bool)
        small = with_weights(context.dense, weights)
        more: dict[str, Any] = {"history": [], "max_logit_difference": 0.0, "agrees": True}
        if fair_method(shard.method).units == FILTERS:
            mask = context.graph.mask(keep)
            small, history, agreement = cut_and_proved(
                context, small, mask, context.describe(shard)
            )
            n_zero = zeros_of(
                {name: value.cpu().numpy() for name, value in small.model.state_dict().items()},
                small.model,
            )
            more = {
                "history": history,
                "max_logit_difference": agreement.max_logit_difference,
                "agrees": agreement.holds,
            }
        elif len(keep):
            n_zero = must_be_zero(one.weights, small.model, keep, context.describe(shard))
        else:
            n_zero = zeros_of(weights, small.model)
        arrays = {f"weights/{name}": value for name, value in weights.items()}
        arrays |= {
            "keep": keep,
            "scores": np.asarray(one.scores, dtype=np.float32),
            **curve_arrays(one.curve),
        }
        arrays["probabilities"] = answers_of(context, small, TEST)
        more |= {
            "flops": filter_graph(small).flops(),
            "parameters": small.n_parameters,
            "n_zero": n_zero,
        }
        return pack(
            arrays, {**more, "spent": {name: float(value) for name, value in one.spent.items()}}
        )

    def size(self, context: FairContext, shard: FairShard) -> float:
        settings, method = context.settings, fair_method(shard.method)
        own = settings_of(context, method)
        looks = settings.iterations / settings.check_every * len(context.looked)
        steps = 3.0 * settings.iterations * settings.recipe.batch
        masks = (
            (1.0 - own["settle"]) / own["inner"] if "inner" in own else 0.0
        )  # a learned mask has its own batches
        return (steps * (1.0 + masks) + looks) * method.rounds_of_all + len(context.rows(TEST))


# What a model costs that was trained and cut here: FLOPs, parameters, bytes, and its latency
# beside the dense one.


class FairCost(DenseCost):
    """One row, with the columns of an image audit's `cost`."""

    name = "fair_cost"
    version = 1

    def parts(self, context: FairContext, shard: Any) -> dict[str, Any]:
        trained = context.kind("trained")
        own = [trained.version, trained.parts(context, trained_shard(shard))]
        return {**super().parts(context, ImageShard("cost")), "trained": own}

    def needs(self, context: FairContext, shard: Any) -> list[FairShard]:
        return [trained_shard(shard)]

    def model_of(self, context: FairContext, shard: Any) -> Classifier:
        return model_of(context, shard)
