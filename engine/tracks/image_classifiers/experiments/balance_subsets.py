"""balance-subsets (Fig. 5): three subsets of the training images with other balances of class and group."""

from __future__ import annotations

from typing import Any

from engine.tracks.image_classifiers.experiments.base import Experiment


class BalanceSubsets(Experiment):
    """Balanced; five times as many of the majority group; five times as many of the majority class. AutoBot and Taylor
    at 8, 32 and 128, each subset with a model trained on it."""

    name = "balance-subsets"
    figure = "Fig. 5"
    question = "Is the harm of pruning explained by how many training images a group or class has?"
    dataset = "celeba"
    stand_in = "avatars:30000"  # the balanced subset has four times as many images as the rarest cell
    paper_model = "resnet18"
    retrains = True
    full_speedups = (8.0, 32.0, 128.0)
    quick_speedups = (8.0, 32.0)
    quick_images = None
    methods = ("autobot", "taylor")

    def parts(self) -> list[dict[str, Any]]:
        kinds = ("balanced", "more-of-group", "more-of-class")
        return [
            {"changes": ({"name": "balance", "subset": kind},), "title": f"balance-subsets: {kind.replace('-', ' ')}"}
            for kind in kinds
        ]
