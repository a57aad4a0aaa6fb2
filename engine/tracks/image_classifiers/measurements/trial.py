"""One trial: cut for real, prove that the cut is the mask, retrain, and answer every test image."""

from __future__ import annotations

from typing import Any

import pandas as pd

from engine.classifiers.audit import EachAlone
from engine.classifiers.images.context import TEST, TRAIN, ImageContext, ImageShard
from engine.classifiers.images.dense import (
    DenseCost,
    answers_of,
    batches_of,
    cut_and_proved,
    stepper,
    targets_of,
    validator,
)
from engine.models.load_image_classifier import Classifier
from engine.store.tables import curve_arrays, pack, within
from engine.surgery.filters.cut import arrays_of, cut_filters, with_weights
from engine.surgery.filters.graph import filter_graph
from engine.tracks.image_classifiers.methods.base import filter_method
from engine.training.fit import fit
from engine.training.recipe import ADDED, VIEW, LossPlan, loss_while_pruning


class Trial(EachAlone):
    """Array table: weights/… of the cut and retrained model, probabilities [test images, classes],
    keep [units], curve/…, and plainly: history, flops, met, agreement of masked and cut before
    retraining."""

    name = "trial"
    pace = 1.6

    def parts(self, context: ImageContext, shard: ImageShard) -> dict[str, Any]:
        chosen = context.kind("chosen")
        plan = context.settings.plan(shard.method, shard.loss)
        retrain: list[object] = [
            plan.weights_in_retraining,
            plan.labels_in_retraining,
            context.mirror,
        ]
        retrain += [plan.theta, plan.gamma] if plan.weights_in_retraining else []
        retrain += (
            [plan.weighting] if plan.weights_in_retraining and plan.weighting != ADDED else []
        )
        retrain += [VIEW] if by_view(context, plan) else []
        return {
            "chosen": [chosen.version, chosen.parts(context, chosen_shard(shard))],
            "recipe": context.settings.retrain.to_dict(),
            "loss": retrain,
        }

    def needs(self, context: ImageContext, shard: ImageShard) -> list[ImageShard]:
        return [ImageShard("original"), chosen_shard(shard)]

    def table(self, context: ImageContext, shard: ImageShard) -> pd.DataFrame:
        arrays, plain = context.fetch_arrays(chosen_shard(shard))
        base = (
            with_weights(context.dense, within(arrays, "weights/"))
            if plain["trained"]
            else context.dense
        )
        mask = context.graph.mask(arrays["keep"])
        small, history, agreement = cut_and_proved(context, base, mask, context.describe(shard))
        curve = self._retrain(context, shard, small)
        after = {f"weights/{name}": value for name, value in arrays_of(small.model).items()}
        found = {"probabilities": answers_of(context, small, TEST), "keep": arrays["keep"]}
        found |= {**after, **curve_arrays(curve)}
        more = {
            "history": history,
            "flops": filter_graph(small).flops(),
            "met": plain["met"],
            "max_logit_difference": agreement.max_logit_difference,
            "agrees": agreement.holds,
        }
        return pack(found, more)

    def _retrain(
        self, context: ImageContext, shard: ImageShard, small: Classifier
    ) -> list[dict[str, float]]:
        recipe = context.settings.retrain
        plan = context.settings.plan(shard.method, shard.loss)
        apart = by_view(context, plan)
        batches = batches_of(
            context, small, recipe.batch, context.seed("retrain", shard.trial), recipe.mirror, apart
        )
        return fit(
            small.model,
            batches,
            targets_of(context, plan, "retrain", apart=apart),
            recipe,
            small.architecture.classifier(small.model),
            context.hooks.check,
            stepper(context),
            context.partial(context.key(shard)),
            validator(context, small, recipe),
        )

    def size(self, context: ImageContext, shard: ImageShard) -> float:
        return (
            3.0
            * context.settings.retrain.epochs
            * len(context.rows(TRAIN))
            / min(shard.speedup, 4.0)
        )


def by_view(context: ImageContext, plan: LossPlan) -> bool:
    """Whether labels are corrected by the original model's answer to each view, mirrored or not."""
    mirrors = context.settings.retrain.mirror and context.mirror
    return plan.labels_in_retraining and mirrors and context.settings.corrected == VIEW


def chosen_shard(shard: ImageShard) -> ImageShard:
    """Where this trial's mask comes from."""
    loss = loss_while_pruning(shard.loss, filter_method(shard.method).looks_at_images)
    return ImageShard("chosen", shard.method, loss, shard.speedup, shard.trial)


def trial_model(context: ImageContext, shard: ImageShard) -> Classifier:
    """The cut and retrained model of a trial."""
    trial = ImageShard("trial", shard.method, shard.loss, shard.speedup, shard.trial)
    keep = context.fetch_arrays(chosen_shard(trial))[0]["keep"]
    small, _ = cut_filters(context.dense, context.graph.mask(keep))
    return with_weights(small, within(context.fetch_arrays(trial)[0], "weights/"))


# What a cut saves: the cost of a trial's cut model, measured beside the dense one.


class ImageCost(DenseCost):
    """The columns of the dense model's cost, which has method ""; of trials too."""

    def parts(self, context: ImageContext, shard: ImageShard) -> dict[str, Any]:
        own = super().parts(context, shard)
        return (
            {**own, "trial": context.kind("trial").parts(context, shard)} if shard.method else own
        )

    def needs(self, context: ImageContext, shard: ImageShard) -> list[ImageShard]:
        return (
            [ImageShard("trial", shard.method, shard.loss, shard.speedup, shard.trial)]
            if shard.method
            else []
        )

    def model_of(self, context: ImageContext, shard: ImageShard) -> Classifier:
        return trial_model(context, shard) if shard.method else super().model_of(context, shard)
