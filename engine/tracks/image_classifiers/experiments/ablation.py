"""ablation (Fig. 8): weights and corrected labels of the PW loss, each alone, in pruning, in retraining and in both."""

from __future__ import annotations

from typing import Any

from engine.tracks.image_classifiers.experiments.base import Experiment


class Ablation(Experiment):
    """AutoBot with every switch of the PW loss; ResNet-18 on CelebA, avatars stand in for it."""

    name = "ablation"
    figure = "Fig. 8"
    question = "Which part of the PW loss matters, and where?"
    dataset = "celeba"
    stand_in = "avatars"
    paper_model = "resnet18"
    quick_speedups = (16.0,)
    methods = (
        "autobot", "autobot+pw",
        "autobot+weights@prune", "autobot+labels@prune",
        "autobot+weights", "autobot+labels",
        "autobot+weights@retrain", "autobot+labels@retrain",
    )  # fmt: skip

    def parts(self) -> list[dict[str, Any]]:
        return [{}]
