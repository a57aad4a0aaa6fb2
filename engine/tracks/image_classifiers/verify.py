"""Do the numbers of an image run follow from its stored answers? Every AUC and accuracy is computed
again, plainly."""

from __future__ import annotations

from typing import Any

from engine.classifiers.metrics import OVO
from engine.classifiers.verification import again_from_answers, again_from_tried, pooled_are_means
from engine.store.runs import Run


def recomputed(run: Run) -> list[dict[str, Any]]:
    """One check per metric: the largest difference between what is stored and what scikit-learn
    finds."""
    images = run.table("images").set_index("image_id")
    multi_class = run.meta["request"].get(
        "multi_class", OVO
    )  # runs from before there was a choice do not say
    checks = again_from_answers(
        run.table("results"), run.table("predictions"), images, "image_id", multi_class
    )
    return [*checks, *again_from_tried(run, "image_id", multi_class), pooled_are_means(run)]
