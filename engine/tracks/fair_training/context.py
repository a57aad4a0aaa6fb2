"""What fair trainings are measured in: images with groups, how a model is trained, and what is seen
meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from engine.classifiers.groups import Band, band, cross_entropy, predicted
from engine.classifiers.images.context import (
    TEST,
    TRAIN,
    VALIDATION,
    ImageContext,
    ImageSettings,
    ImageShard,
)
from engine.classifiers.layout import MIN_IMAGES, MIN_PER_CLASS, joined_names
from engine.core.types import rng
from engine.tracks.fair_training.methods import ACCURACY, UNITS
from engine.training.recipe import Recipe

TUNED_ON = (TRAIN, VALIDATION)
"""Images that models are cut and trained on: the training images, or, as in the paper, the
validation images."""
LOOKED_AT = 1000
"""Images that are looked at while a model trains, at most."""
CORNERS = ("bifp-str", "bifp-str-no-w", "bifp-str-no-m")
"""The models between which the loss is looked at (Fig. 8): the first is the origin, the second lies
on the x axis."""
EXCHANGES = 1000
"""Exchanges of group labels behind the null band of the images looked at."""
LOOKED_SHARE = 0.2
"""Share of the validation images that are looked at where the others are trained on."""


@dataclass(frozen=True, order=True)
class FairShard:
    """One measurement: its name, of which method, at which sparsity (share cut), with which λ and
    seed.

    draw: number of the random mask among those of the seed. Methods without a fairness term have
    strength 0; those that cut nothing have sparsity 0.
    """

    kind: str
    method: str = ""
    sparsity: float = 0.0
    strength: float = 0.0
    seed: int = 0
    draw: int = 0

    @property
    def own(self) -> list[Any]:
        """Every field but the name, JSON-able; the first draw is that of methods that draw once."""
        return [
            self.method,
            self.sparsity,
            self.strength,
            self.seed,
            *([self.draw] if self.draw else []),
        ]


@dataclass(frozen=True)
class FairSettings(ImageSettings):
    """Everything besides model and images that the numbers depend on.

    sparsities: all that a method is asked for, by method (a descent depends on all of them). axis:
    the group column, or columns joined by "+", that the fairness term is about. equal: what methods
    that cut filters have alike at one sparsity, FLOPs or filters. iterations: weight updates of one
    training.
    """

    axis: str = ""
    sparsities: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    recipe: Recipe = Recipe(rate=1e-3, batch=64)
    iterations: int = 400
    check_every: int = 40
    tolerance: float = 0.0
    notion: str = ACCURACY
    tune_on: str = TRAIN
    equal: str = UNITS


@dataclass
class FairContext(ImageContext):
    """A context whose dense model is measured as in an audit of an image classifier, under the same
    keys."""

    settings: FairSettings

    def describe(self, shard: FairShard | ImageShard) -> str:
        if isinstance(shard, ImageShard) or not shard.method:
            return "dense model"
        cut = f", {100 * shard.sparsity:g} % cut" if shard.sparsity else ""
        fair = f", λ {shard.strength:g}" if shard.strength else ""
        draw = f", draw {shard.draw}" if shard.draw else ""
        return f"{shard.method}{cut}{fair}, seed {shard.seed}{draw}"

    def answers(self, shard: FairShard | ImageShard) -> np.ndarray:
        """Probabilities of the test images, [n, classes] float32, of a trained model or the dense
        one (method "")."""
        found = shard if shard.method else ImageShard("dense_answers")
        return self.without_weights(found)[0]["probabilities"]

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups of the fair axis, in the order of their codes."""
        return tuple(sorted(set(self._names) - {""}))

    @cached_property
    def codes(self) -> np.ndarray:
        """Code of the group of every image in the table of images, [images] int64; -1 for none."""
        places = {name: place for place, name in enumerate(self.groups)}
        return np.array([places.get(name, -1) for name in self._names], dtype=np.int64)

    @cached_property
    def _names(self) -> np.ndarray:
        """The group of every image on the fair axis, [images] str objects."""
        return group_names(self.images.table, self.settings.axis)

    @cached_property
    def looked(self) -> np.ndarray:
        """Places in the table of the validation images that are looked at while a model trains,
        [looked at] int."""
        return looked_rows(self.images.table, self.settings.tune_on)

    @cached_property
    def tuned(self) -> np.ndarray:
        """Places in the table of the images that models are cut and trained on, [images] int; none
        of them is looked at.
        """
        return tuned_rows(self.images.table, self.settings.tune_on)

    def before(self, places: np.ndarray) -> np.ndarray:
        """The dense model's probabilities of some images, [n, classes] float32, by their places in
        the table."""
        found = np.full((len(self.images.table), len(self.start.classes)), np.nan, dtype=np.float32)
        answers = self.without_weights(ImageShard("dense_answers"))[0]
        found[self.rows(TEST)] = answers["probabilities"]
        if "validation" in answers:
            found[self.rows(VALIDATION)] = answers["validation"]
        if self.settings.tune_on == TRAIN:
            found[self.rows(TRAIN)] = self.original()
        return found[places]

    @cached_property
    def look(self) -> Look:
        """What measures a model on the images that are looked at while it trains."""
        labels = self.images.table["label"].to_numpy(dtype=np.int64)[self.looked]
        return Look(labels, self.codes[self.looked], len(self.groups), self.before(self.looked))


@dataclass(frozen=True, eq=False)
class Look:
    """labels [n], groups [n] (-1: none), and the dense model's probabilities [n, classes] of the
    images looked at.

    Only groups that count (`compared`) have an accuracy here: a gap is between groups that may be
    compared.
    """

    labels: np.ndarray
    groups: np.ndarray
    n_groups: int
    dense: np.ndarray

    def of(self, probabilities: np.ndarray) -> dict[str, float]:
        """What probabilities [n, classes] of the images looked at come to.

        accuracy; gap: largest minus smallest accuracy of a group; degradation: largest minus
        smallest loss of accuracy against the dense model; val_loss: cross-entropy in nats. Gaps are
        NaN for fewer than two groups that count.
        """
        own = self.accuracies(probabilities)
        lost = self.accuracies(self.dense) - own
        return {
            "accuracy": float((predicted(probabilities) == self.labels).mean()),
            "gap": self._gap(own),
            "degradation": self._gap(lost),
            "val_loss": float(cross_entropy(probabilities, self.labels).mean()),
        }

    def accuracies(self, probabilities: np.ndarray) -> np.ndarray:
        """Accuracy of every group, [groups], from [n, classes]; NaN where the group does not
        count."""
        right, known = predicted(probabilities) == self.labels, self.groups >= 0
        counts = np.bincount(self.groups[known], minlength=self.n_groups)
        sums = np.bincount(self.groups[known], weights=right[known], minlength=self.n_groups)
        return np.divide(sums, counts, out=np.full(self.n_groups, np.nan), where=self.compared)

    @cached_property
    def compared(self) -> np.ndarray:
        """Which groups count, bool [groups]: enough images, enough of every class there is, and two
        classes at least, as on test images (engine/classifiers/layout.py)."""
        found = []
        for group in range(self.n_groups):
            own = self.labels[self.groups == group]
            present = np.unique(own, return_counts=True)[1]
            found.append(
                len(own) >= MIN_IMAGES and len(present) > 1 and int(present.min()) >= MIN_PER_CLASS
            )
        return np.array(found, dtype=bool)

    def _gap(self, levels: np.ndarray) -> float:
        """Largest minus smallest of levels [groups], of the groups that count; NaN for fewer than
        two."""
        mine = levels[self.compared]
        return float(mine.max() - mine.min()) if len(mine) > 1 else float("nan")

    def null_band(self) -> Band:
        """Gaps of the dense model under group labels exchanged between images of one class
        (EXCHANGES draws)."""
        rows = np.flatnonzero(np.isin(self.groups, np.flatnonzero(self.compared)))
        if self.compared.sum() < 2:
            return band(np.nan, np.empty(0))
        right, draw = (
            (predicted(self.dense) == self.labels)[rows].astype(float),
            rng("look exchanges", len(rows)),
        )
        codes = np.tile(self.groups[rows], (EXCHANGES, 1))
        for label in np.unique(self.labels):
            mine = np.flatnonzero(self.labels[rows] == label)
            codes[:, mine] = draw.permuted(codes[:, mine], axis=1)
        found = np.stack(
            [
                (right * (codes == one)).sum(axis=1) / (codes == one).sum(axis=1)
                for one in np.flatnonzero(self.compared)
            ]
        )
        return band(self.of(self.dense)["gap"], found.max(axis=0) - found.min(axis=0))

    def gap_error(self) -> float:
        """Standard error of the dense model's gap on these images, by the two groups that make it;
        NaN for none."""
        if self.compared.sum() < 2:
            return float("nan")
        own, counts = (
            self.accuracies(self.dense),
            np.bincount(self.groups[self.groups >= 0], minlength=self.n_groups),
        )
        ends = [int(np.nanargmax(own)), int(np.nanargmin(own))]
        return float(np.sqrt(sum(own[end] * (1 - own[end]) / counts[end] for end in ends)))


def looked_rows(table: Any, tune_on: str) -> np.ndarray:
    """Places in the table of the images that are looked at while a model trains, [looked at] int: a
    fixed draw."""
    rows = np.flatnonzero((table["split"] == VALIDATION).to_numpy())
    most = LOOKED_AT if tune_on == TRAIN else min(LOOKED_AT, round(LOOKED_SHARE * len(rows)))
    return rows if most >= len(rows) else np.sort(rng("look", len(rows)).permutation(rows)[:most])


def tuned_rows(table: Any, tune_on: str) -> np.ndarray:
    """Places in the table of the images that models are cut and trained on, [images] int; none of
    them is looked at."""
    rows = np.flatnonzero((table["split"] == tune_on).to_numpy())
    return rows if tune_on == TRAIN else np.setdiff1d(rows, looked_rows(table, tune_on))


def group_names(table: Any, axis: str) -> np.ndarray:
    """The group of every image on an axis, [images] str objects; "" where one of its columns is
    empty."""
    return joined_names(table, axis.split("+"))
