"""The measurement context of an image classifier: its images, its settings, and every measurement
of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.audit.measurements import InMemory, Keeper, Measurement
from engine.classifiers.audit import ArrayContext
from engine.core.types import Hooks, Setting, Values, digest_of
from engine.data.images.load import ImageSet
from engine.store.runs import within
from engine.training.recipe import ADDED, GAMMA, IMAGE, THETA, Keep, LossPlan, Nowhere, Recipe

if TYPE_CHECKING:
    from engine.models.load_image_classifier import Classifier
    from engine.surgery.filters.graph import FilterGraph

TRAIN, VALIDATION, TEST = "train", "validation", "test"


class Declared:
    """What declares settings: a method, whose job holds those that were asked for."""

    settings: tuple[Setting, ...] = ()

    def setting(self, job: Any, name: str) -> Any:
        """The value asked for, or the declared default."""
        declared = {item.name: item.default for item in self.settings}
        return job.settings.get(name, declared[name])


@dataclass(frozen=True, order=True)
class ImageShard:
    """One measurement as data: of which kind, method, loss, target speedup and trial.

    The dense model has method "". Speedups are ratios of FLOPs, dense over cut.
    """

    kind: str
    method: str = ""
    loss: str = ""
    speedup: float = 1.0
    trial: int = 0

    @property
    def own(self) -> list[Any]:
        """What the shard says besides its kind, JSON-able."""
        return [self.method, self.loss, self.speedup, self.trial]


@dataclass(frozen=True)
class ImageSettings:
    """Everything besides model and images that the numbers depend on.

    methods: settings per method; pw: (theta, gamma) of the PW loss per method; train: how the dense
    model is fitted before anything is cut, None where it comes trained. weighting, corrected: how
    the PW loss weighs and corrects, of engine.training.recipe.
    """

    speedups: tuple[float, ...] = (2.0,)
    first_seed: int = 0
    methods: Mapping[str, Values] = field(default_factory=dict)
    pw: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    retrain: Recipe = Recipe()
    train: Recipe | None = None
    batch: int = 256
    """Images per forward pass of an evaluation."""
    weighting: str = ADDED
    corrected: str = IMAGE

    def plan(self, method: str, loss: str) -> LossPlan:
        """The loss of one arm."""
        return LossPlan.parse(loss, *self.pw_of(method), self.weighting)

    def pw_of(self, method: str) -> tuple[float, float]:
        """(theta, gamma) of the PW loss for a method."""
        return self.pw.get(method, (THETA, GAMMA))


@dataclass
class ImageContext(ArrayContext):
    """Fetches measurements of one classifier on one set of images.

    `start` is the classifier as loaded; `dense` the one that is pruned: the same, or fitted first.
    """

    start: Classifier
    images: ImageSet
    settings: ImageSettings
    kinds: Mapping[str, Measurement]
    keeper: Keeper = field(default_factory=InMemory)
    hooks: Hooks = Hooks()
    partial: Callable[[str], Keep] = lambda key: Nowhere()
    """Where the state of an unfinished fit is kept, by key."""
    mirror: bool = True
    loss_share: int = 0
    """Batches over which the shares of the pruning loss are recorded."""
    opener: str = ""
    plan: Any = None
    """For workers of a cluster: the function ("module:name") that makes this context of its plan.
    """

    @property
    def device(self) -> Any:
        return self.start.device

    def recipe(self) -> tuple[str, Any]:
        return self.opener, self.plan

    def base(self) -> list[ImageShard]:
        return [] if self.settings.train is None else [ImageShard("dense_weights")]

    def key(self, shard: Any) -> str:
        kind = self.kind(shard.kind)
        model = [
            self.start.weight_hash,
            self.start.arch,
            self.start.size,
            list(self.start.mean),
            list(self.start.std),
        ]
        train = self.settings.train
        fitted = (
            None if train is None else {**train.to_dict(), "mirror": train.mirror and self.mirror}
        )
        where = str(self.start.device).split(":")[0]
        return digest_of(
            [
                kind.name,
                kind.version,
                model,
                fitted,
                self.settings.first_seed,
                self.images.digest,
                where,
                shard.own,
                kind.parts(self, shard),
            ]
        )

    def prove(self) -> None:
        """See `MeasurementContext`. Weights that are fitted first say nothing yet (the last layer
        of torchvision's ViT starts at zero): these are proved once they are fitted, when `dense` is
        first asked for."""
        if self.settings.train is None:
            self._prove(self.start)

    def _prove(self, classifier: Classifier) -> None:
        from engine.surgery.filters.graph import prove_filter_mask_works

        prove_filter_mask_works(classifier, self.graph, self.hooks.check)

    def describe(self, shard: ImageShard) -> str:
        if not shard.method:
            return "dense model"
        if shard.speedup <= 1:
            return shard.method
        loss = "" if shard.loss in ("", "plain") else f" with {shard.loss}"
        return f"{shard.method}{loss}, {shard.speedup:g}×, trial {shard.trial}"

    def rows(self, split: str) -> np.ndarray:
        """Positions of a split's images in the table of images, [n] int."""
        return self.images.rows(split)

    def labels(self, split: str) -> np.ndarray:
        """True classes of a split's images, [n] int64."""
        return self.images.table["label"].to_numpy(dtype=np.int64)[self.rows(split)]

    @cached_property
    def dense(self) -> Classifier:
        """The classifier that is pruned."""
        if self.settings.train is None:
            return self.start
        from engine.surgery.filters.graph import with_weights

        arrays = self.fetch_arrays(ImageShard("dense_weights"))[0]
        fitted = with_weights(self.start, within(arrays, "weights/"))
        self._prove(fitted)
        return fitted

    @cached_property
    def graph(self) -> FilterGraph:
        """Groups and FLOPs of the dense model at the images' size."""
        from engine.surgery.filters.graph import filter_graph

        return filter_graph(self.start)

    def original(self) -> np.ndarray:
        """The dense model's probabilities of the training images, [n, classes] float32: what the PW
        loss rests on."""
        return self.fetch_arrays(ImageShard("original"))[0]["probabilities"]

    def answers(self, shard: ImageShard) -> np.ndarray:
        """Probabilities of the test images, [n, classes] float32, of a trial or of the dense model
        (method "")."""
        found = replace(shard, kind="trial" if shard.method else "dense_answers")
        return self.without_weights(found)[0]["probabilities"]


DENSE = "dense"
