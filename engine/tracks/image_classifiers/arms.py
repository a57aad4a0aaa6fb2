"""The arms of an image audit: a method with a loss, at every target speedup, in several trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.tracks.image_classifiers.methods.base import filter_method
from engine.tracks.image_classifiers.request import ImageRequest, arm_of

if TYPE_CHECKING:
    pass
from engine.classifiers.images.context import ImageShard


@dataclass(frozen=True)
class Arm:
    """One method with one loss. `name` is how the request writes it, e.g. "autobot+pw"."""

    name: str
    method: str
    loss: str
    speedups: tuple[float, ...]
    n_trials: int

    def pooled(self, speedup: float) -> str:
        """Id of the variant that stands for all trials."""
        return f"{self.name}-{speedup:g}x"

    def id_of(self, shard: ImageShard) -> str:
        """Id of one trial's variant."""
        return f"{self.pooled(shard.speedup)}#{shard.trial}"

    def trials(self, speedup: float | None = None) -> list[ImageShard]:
        """One shard per trial, of one speedup or of all."""
        wanted = self.speedups if speedup is None else (speedup,)
        return [
            ImageShard("trial", self.method, self.loss, one, trial)
            for one in wanted
            for trial in range(self.n_trials)
        ]

    def cost(self, speedup: float) -> ImageShard:
        """The cost is measured on the first trial."""
        return ImageShard("cost", self.method, self.loss, speedup, 0)

    def loss_shares(self) -> list[ImageShard]:
        """One per trial, aimed at the smallest speedup; none where choosing filters reads no
        images."""
        if not filter_method(self.method).looks_at_images:
            return []
        return [
            ImageShard("loss_share", self.method, self.loss, self.speedups[0], trial)
            for trial in range(self.n_trials)
        ]


def arms_of(request: ImageRequest) -> list[Arm]:
    """The arms in the order they were asked for."""
    return [Arm(name, *arm_of(name), request.speedups, request.trials) for name in request.methods]


def trials_of(method: str, loss: str, speedups: Sequence[float], trials: int) -> list[ImageShard]:
    """One shard per speedup and trial of an arm."""
    return [
        ImageShard("trial", method, loss, speedup, trial)
        for speedup in speedups
        for trial in range(trials)
    ]
