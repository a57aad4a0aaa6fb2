"""What a cut saves: the cost of a trial's cut model, measured beside the dense one."""

from __future__ import annotations

from typing import Any

from engine.classifiers.images.context import ImageContext, ImageShard
from engine.classifiers.images.measurements.cost import DenseCost
from engine.models.load_image_classifier import Classifier
from engine.tracks.image_classifiers.measurements.trial import trial_model


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
