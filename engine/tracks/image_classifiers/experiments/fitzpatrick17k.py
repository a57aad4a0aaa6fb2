"""fitzpatrick17k (Fig. 2): skin lesions, trained on light skin, tested on medium and dark skin."""

from __future__ import annotations

from typing import Any

from engine.tracks.image_classifiers.experiments.base import Experiment


class Fitzpatrick17k(Experiment):
    """Speedups of 2 to 32 with ResNet-34 (or EfficientNetV2-M); avatars by skin tone stand in for it, though they are
    trained on all tones."""

    name = "fitzpatrick17k"
    figure = "Fig. 2"
    question = "Does pruning harm skin tones that the model was not trained on, and does the PW loss help there?"
    dataset = "fitzpatrick17k"
    stand_in = "avatars"
    paper_model = "resnet34"
    axes = ("skin",)

    def parts(self) -> list[dict[str, Any]]:
        return [{}]
