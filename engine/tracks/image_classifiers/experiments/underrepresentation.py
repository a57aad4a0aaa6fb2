"""underrepresentation (Fig. 7, left): 80 % of the training images of two classes are taken away."""

from __future__ import annotations

from typing import Any

from engine.tracks.image_classifiers.experiments.base import Experiment


class Underrepresentation(Experiment):
    """Cat and dog of CIFAR-10 with ResNet-56; two digits stand in for it. The model is trained on what is left."""

    name = "underrepresentation"
    figure = "Fig. 7"
    question = "Do classes with few training images pay for pruning, and does the PW loss help them?"
    dataset = "cifar10"
    stand_in = "digits"
    paper_model = "resnet56"
    axes = ("class",)
    retrains = True
    quick_speedups = (2.0, 4.0)

    def parts(self) -> list[dict[str, Any]]:
        return [{"changes": ({"name": "underrepresent"},)}]
