"""Which images belong to which group of which axis, who may be compared, and how images are redrawn
and exchanged.

Images are redrawn within each group of an axis, so that group sizes stay as they are. The same
draws serve every metric of the axis, the dense model and all variants. Draws depend on the images
and their groups, not on their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.core.errors import Fault, RequestError, unknown
from engine.core.ids import rng

CLASS = "class"
"""The axis whose groups are the classes themselves, alone or as part of an intersection
("class+artefact")."""
MIN_IMAGES = 10
"""Images below which a group gets no verdict."""
MIN_PER_CLASS = 5
"""Positives, or negatives, below which a group gets no verdict (two classes, and one class against
the rest)."""
ONE_CLASS = "one class only"
DRAWS = 1_000_000
"""Images drawn at once."""


@dataclass(frozen=True)
class Items:
    """What a classifier is asked about: the column that identifies one, and what it is called."""

    key: str
    one: str
    many: str

    @property
    def too_few(self) -> str:
        """The verdict on a group with fewer than may be judged."""
        return f"too few {self.many}"


IMAGES = Items("image_id", "image", "images")
TEXTS = Items("text_id", "text", "texts")


@dataclass(frozen=True, eq=False)
class Axis:
    """One axis. strata: the sets of images that are redrawn on their own, as row positions
    [members] int, by name.

    groups: one row per group with group, stratum (position), cls (class, -1 when the group is the
    whole stratum), n, n_positive and verdict. Its units are the observations behind auc, accuracy,
    tpr and fpr (see `metrics`), counted the images each of these is a share of.
    """

    name: str
    strata: dict[str, np.ndarray]
    groups: pd.DataFrame

    @property
    def by_class(self) -> bool:
        """True when the groups are classes: each one's AUC is of that class against the rest of its
        stratum."""
        return bool((self.groups["cls"] >= 0).all())

    @property
    def counts(self) -> np.ndarray:
        """Positions of the groups that may be compared, [groups] int."""
        return np.flatnonzero((self.groups["verdict"] == "").to_numpy())

    def weights(self, n_boot: int, seed: int) -> list[np.ndarray]:
        """How often each image of each stratum is drawn, [images of the stratum, n_boot] uint8 per
        stratum."""
        return [
            _redrawn(len(rows), n_boot, rng("images", seed, self.name, name))
            for name, rows in self.strata.items()
        ]

    def exchanges(
        self, labels: np.ndarray, n_permutations: int, seed: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Row positions [images] int of all images in groups that count, and their group under each
        exchange.

        labels: true classes of all images, [n] int. The groups come as positions among `counts`,
        [images, n_permutations] int16. Group labels are exchanged between images of the same class,
        so every group keeps its balance of classes.
        """
        members = [self.strata[self.groups["group"].iloc[place]] for place in self.counts]
        rows = np.concatenate(members)
        codes = np.repeat(np.arange(len(members), dtype=np.int16), [len(part) for part in members])
        generator = rng("exchange", seed, self.name)
        exchanged = np.empty((len(rows), n_permutations), dtype=np.int16)
        for label in np.unique(labels[rows]):
            places = np.flatnonzero(labels[rows] == label)
            repeated = np.tile(codes[places], (n_permutations, 1))
            exchanged[places] = generator.permuted(repeated, axis=1).T
        return rows, exchanged


def lay_out(
    images: pd.DataFrame, classes: Sequence[str], axes: Sequence[str], items: Items = IMAGES
) -> tuple[list[Axis], tuple[str, ...]]:
    """The whole (an axis named "" with one group), then every axis; and notes for the screen.

    images: one row per image in the order of the answers, with columns label and those of the axes.
    An image whose group is "" belongs to no group of that axis; a note says how many. Raises
    RequestError for an axis that is no column, naming every one, and for one on which no image has
    a group.
    """
    needed = {axis: _columns(axis, images) for axis in axes}
    wrong = sorted(
        {column for columns in needed.values() for column in columns} - set(images.columns)
    )
    if wrong:
        raise RequestError(
            [unknown("axes", column, {*map(str, images.columns), CLASS}) for column in wrong]
        )
    labels = images["label"].to_numpy()
    everything = {"": np.arange(len(images))}
    whole = Axis("", everything, _plain_groups(labels, everything, len(classes), items))
    found, notes = [whole], []
    for axis in axes:
        strata, left_out = _strata(images, needed[axis])
        if not strata:
            raise RequestError(
                Fault(
                    "axes",
                    f"No {items.one} has a group on {axis}.",
                    "Leave it out or fill its column.",
                )
            )
        if left_out:
            notes.append(
                f"{left_out} of {len(images)} {items.many} have no group on {axis} and are left out"
                " there."
            )
        if CLASS in axis.split("+"):
            names = images[axis] if axis in images.columns else None
            groups = _class_groups(labels, strata, classes, names, items)
        else:
            groups = _plain_groups(labels, strata, len(classes), items)
            notes += _lacking(axis, labels, strata, classes)
        found.append(Axis(axis, strata, groups))
    return found, tuple(notes)


def _columns(axis: str, images: pd.DataFrame) -> list[str]:
    """Columns that tell the strata of an axis apart: its own column, else its parts; the class is
    not among them."""
    parts = [part for part in axis.split("+") if part != CLASS]
    return [axis] if axis in images.columns and CLASS not in axis.split("+") else parts


def _strata(images: pd.DataFrame, columns: list[str]) -> tuple[dict[str, np.ndarray], int]:
    """Row positions [members] int by name of the stratum, and how many images have none."""
    if not columns:
        return {"": np.arange(len(images))}, 0
    values = images[columns].astype(str)
    known = (values != "").all(axis=1).to_numpy()
    names = (
        values[columns[0]]
        .str.cat([values[column] for column in columns[1:]], sep="+")
        .to_numpy(dtype=object)
    )
    strata = {
        str(name): np.flatnonzero(known & (names == name)) for name in sorted(set(names[known]))
    }
    return strata, int((~known).sum())


def _plain_groups(
    labels: np.ndarray, strata: dict[str, np.ndarray], k: int, items: Items
) -> pd.DataFrame:
    """One group per stratum, in the columns of `Axis.groups`; labels [images] int, k: number of
    classes."""
    rows = []
    for place, (name, members) in enumerate(strata.items()):
        count = np.bincount(labels[members], minlength=k)
        present = count[count > 0]
        few = len(members) < MIN_IMAGES or present.min(initial=len(members)) < MIN_PER_CLASS
        verdict = ONE_CLASS if len(present) < 2 else items.too_few if few else ""
        positive = float(count[1]) if k == 2 else np.nan
        # One class takes part in 2 of the k shares of a mean over pairs; a mean of each against the
        # rest has no fewer.
        rarest = present.min(initial=len(members))
        size = len(members)
        units = (rarest * k / 2, size, *((count[1], count[0]) if k == 2 else (rarest * k, size)))
        counted = (size, size, *((int(count[1]), int(count[0])) if k == 2 else (size, size)))
        rows.append((name, place, -1, size, positive, units, counted, verdict))
    return _group_table(rows)


def _class_groups(
    labels: np.ndarray,
    strata: dict[str, np.ndarray],
    classes: Sequence[str],
    names: pd.Series | None,
    items: Items,
) -> pd.DataFrame:
    """One group per class and stratum that holds it, in the columns of `Axis.groups`; labels
    [images] int.

    They are named as in `names` [images], the column of the axis, where there is one.
    """
    rows = []
    for place, (stratum, members) in enumerate(strata.items()):
        for cls, title in enumerate(classes):
            own = members[labels[members] == cls]
            if not len(own):
                continue
            rest = len(members) - len(own)
            few = len(own) < MIN_IMAGES or rest < MIN_PER_CLASS
            name = (
                str(names.iloc[own[0]])
                if names is not None
                else f"{title}+{stratum}"
                if stratum
                else str(title)
            )
            units = (min(len(own), rest), len(own), len(own), rest)
            verdict = ONE_CLASS if not rest else items.too_few if few else ""
            counted = (len(own), len(own), len(own), rest)
            rows.append((name, place, cls, len(own), float(len(own)), units, counted, verdict))
    return _group_table(rows)


def _group_table(rows: list[tuple]) -> pd.DataFrame:
    """Groups in the columns of `Axis.groups`."""
    return pd.DataFrame(
        rows, columns=["group", "stratum", "cls", "n", "n_positive", "units", "counted", "verdict"]
    )


def _lacking(
    axis: str, labels: np.ndarray, strata: dict[str, np.ndarray], classes: Sequence[str]
) -> list[str]:
    """Notes on groups of several classes that lack some: their AUC is over the classes that are
    there.

    labels [images] int; strata: row positions [members] int by name.
    """
    notes = []
    for name, members in strata.items():
        there = len(np.unique(labels[members]))
        if 2 <= there < len(classes):
            notes.append(
                f"{name} ({axis}) has {there} of {len(classes)} classes: its AUC is over those."
            )
    return notes


def _redrawn(n: int, n_boot: int, generator: np.random.Generator) -> np.ndarray:
    """How often each of n images is drawn in n draws with replacement, [n, n_boot] uint8."""
    weights = np.empty((n, n_boot), dtype=np.uint8)
    step = max(1, DRAWS // max(n, 1))
    for start in range(0, n_boot, step):
        width = min(step, n_boot - start)
        drawn = generator.integers(0, n, size=(width, n)) + np.arange(width)[:, None] * n
        weights[:, start : start + width] = (
            np.bincount(drawn.ravel(), minlength=width * n).reshape(width, n).T
        )
    return weights
