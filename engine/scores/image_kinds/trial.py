"""One trial: cut for real, prove that the cut is the mask, retrain, and answer every test image."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd

from engine.errors import MaskError
from engine.metrics.image_bench import TEST, TRAIN, ImageBench, ImageShard
from engine.metrics.packed import curve_arrays, pack, within
from engine.metrics.workbench import Kind
from engine.models.load_classifier import Classifier
from engine.scores.filter_base import filter_method
from engine.scores.image_kinds._work import answers_of, batches_of, stepper, targets_of
from engine.surgery.filter_cut import FilterAgreement, History, agree_filters, cut_filters
from engine.surgery.filter_graph import filter_graph
from engine.surgery.filter_weights import arrays_of, with_weights
from engine.training.fit import fit
from engine.training.loss_plan import loss_while_pruning
from engine.types import FilterMask

PROBES = 16
"""Images on which the masked model and the cut one are compared."""


class Trial(Kind):
    """Packed: weights/… of the cut and retrained model, probabilities [test images, classes], keep [units], curve/…,
    and plainly: history, flops, met, agreement of masked and cut before retraining."""

    name = "trial"

    def parts(self, bench: ImageBench, shard: ImageShard) -> dict[str, Any]:
        chosen = bench.kind("chosen")
        plan = bench.settings.plan(shard.method, shard.loss)
        retrain = [plan.weights_in_retraining, plan.labels_in_retraining, bench.mirror]
        retrain += [plan.theta, plan.gamma] if plan.weights_in_retraining else []
        return {
            "chosen": [chosen.version, chosen.parts(bench, chosen_shard(shard))],
            "recipe": bench.settings.retrain.to_dict(),
            "loss": retrain,
        }

    def together(self, bench: ImageBench, shard: ImageShard) -> Hashable:
        return shard

    def needs(self, bench: ImageBench, shard: ImageShard) -> list[ImageShard]:
        return [ImageShard("original"), chosen_shard(shard)]

    def compute(self, bench: ImageBench, shards: Sequence[ImageShard]) -> list[pd.DataFrame]:
        return [self._one(bench, shard) for shard in shards]

    def _one(self, bench: ImageBench, shard: ImageShard) -> pd.DataFrame:
        arrays, plain = bench.fetch_arrays(chosen_shard(shard))
        base = with_weights(bench.dense, within(arrays, "weights/")) if plain["trained"] else bench.dense
        mask = bench.graph.mask(arrays["keep"])
        small, history, agreement = cut_and_proved(bench, base, mask, bench.describe(shard))
        curve = self._retrain(bench, shard, small)
        after = {f"weights/{name}": value for name, value in arrays_of(small.model).items()}
        found = {"probabilities": answers_of(bench, small, TEST), "keep": arrays["keep"]}
        found |= {**after, **curve_arrays(curve)}
        more = {"history": history, "flops": filter_graph(small).flops(), "met": plain["met"],
                "max_logit_difference": agreement.max_logit_difference, "agrees": agreement.holds}  # fmt: skip
        return pack(found, more)

    def _retrain(self, bench: ImageBench, shard: ImageShard, small: Classifier) -> list[dict[str, float]]:
        recipe = bench.settings.retrain
        plan = bench.settings.plan(shard.method, shard.loss)
        batches = batches_of(bench, small, recipe.batch, bench.seed("retrain", shard.trial), recipe.mirror)
        return fit(
            small.model, batches, targets_of(bench, plan, "retrain"), recipe,
            small.architecture.classifier(small.model), bench.hooks.check,
            stepper(bench), bench.partial(bench.key(shard)),
        )  # fmt: skip

    def size(self, bench: ImageBench, shard: ImageShard) -> float:
        return 3.0 * bench.settings.retrain.epochs * len(bench.rows(TRAIN)) / min(shard.speedup, 4.0)


def chosen_shard(shard: ImageShard) -> ImageShard:
    """Where this trial's mask comes from."""
    loss = loss_while_pruning(shard.loss, filter_method(shard.method).looks_at_images)
    return ImageShard("chosen", shard.method, loss, shard.speedup, shard.trial)


def cut_and_proved(
    bench: ImageBench, base: Classifier, mask: FilterMask, what: str
) -> tuple[Classifier, History, FilterAgreement]:
    """`base` cut for real, the history of that, and the proof that it is the masked one. MaskError where it is not."""
    small, history = cut_filters(base, mask)
    agreement = agree_filters(base, bench.graph, mask, small, bench.images.read(bench.rows(TEST)[:PROBES]))
    if not agreement.holds:
        raise MaskError(
            f"{what}: the masked model and the cut one differ by {agreement.max_logit_difference:.3g} in a logit "
            f"(allowed {agreement.tolerance:.3g}). Nothing was kept of this trial."
        )
    return small, history, agreement
