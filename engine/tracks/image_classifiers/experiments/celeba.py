"""celeba (Fig. 1): what pruning does to blond and other faces of men and of everybody else, with and without PW."""

from __future__ import annotations

from typing import Any

from engine.tracks.image_classifiers.experiments.base import Experiment


class CelebA(Experiment):
    """Speedups of 16 to 256 with ResNet-18 (or VGG-16) on CelebA; avatars stand in for it."""

    name = "celeba"
    figure = "Fig. 1"
    question = "Does pruning make the model worse for the group with few examples, and does the PW loss prevent it?"
    dataset = "celeba"
    stand_in = "avatars"
    paper_model = "resnet18"
    quick_speedups = (4.0, 16.0, 48.0)

    def parts(self) -> list[dict[str, Any]]:
        return [{}]
