"""loss-share (Fig. 4): which images the pruning loss is about, per group and class, over the first 200 batches."""

from __future__ import annotations

from typing import Any

from engine.tracks.image_classifiers.experiments.base import Experiment


class LossShare(Experiment):
    """AutoBot and Taylor at 16 on CelebA with the same batches with and without PW; avatars stand in for it."""

    name = "loss-share"
    figure = "Fig. 4"
    question = "Whose images make up the loss while pruning, and what does the PW loss change about that?"
    dataset = "celeba"
    stand_in = "avatars"
    paper_model = "resnet18"
    full_speedups = (16.0,)
    quick_speedups = (16.0,)
    methods = ("autobot", "autobot+pw", "taylor", "taylor+pw")

    def parts(self) -> list[dict[str, Any]]:
        return [{"loss_share": 200}]
