"""artefact (Fig. 7, right): a yellow square in 98 % of one class and 2 % of the others."""

from __future__ import annotations

from typing import Any

from engine.tracks.image_classifiers.experiments.base import Experiment


class Artefact(Experiment):
    """The dog class of CIFAR-10 with ResNet-56; one digit stands in for it. The model is trained on marked images."""

    name = "artefact"
    figure = "Fig. 7"
    question = "Does pruning make a model lean more on an artefact, and does the PW loss prevent it?"
    dataset = "cifar10"
    stand_in = "digits"
    paper_model = "resnet56"
    axes = ("class", "artefact", "class+artefact")
    retrains = True
    quick_speedups = (2.0, 4.0)

    def parts(self) -> list[dict[str, Any]]:
        return [{"changes": ({"name": "artefact"},)}]
