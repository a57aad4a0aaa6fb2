"""cifar10 (Fig. 3): what the PW loss does where no group is known to be at risk."""

from __future__ import annotations

from typing import Any

from engine.tracks.image_classifiers.experiments.base import Experiment


class Cifar10(Experiment):
    """Speedups of 1.33 to 16 with ResNet-56 (or EfficientNetV2-S) on CIFAR-10; handwritten digits stand in for it."""

    name = "cifar10"
    figure = "Fig. 3"
    question = "What does the PW loss do to overall AUC where no group is known to be at risk?"
    dataset = "cifar10"
    stand_in = "digits"
    paper_model = "resnet56"
    axes = ("class",)
    quick_speedups = (2.0, 4.0)

    def parts(self) -> list[dict[str, Any]]:
        return [{}]
