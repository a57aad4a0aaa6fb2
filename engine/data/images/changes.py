"""What a change of images declares, and how it names classes and draws images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from engine.core.discover import named
from engine.core.errors import Fault, RequestError, refusal, refuse, unknown
from engine.core.types import Setting, key_of, rng, setting_faults
from engine.data.images.load import CLASS, ImageSet

CAT_AND_DOG = (3, 5)
"""Places of cat and dog among CIFAR-10's classes, which Meyer and Wong (2023, Secs. 4.5 and 4.6)
change."""


class ImageChange(ABC):
    """One manipulation. The new set has its own digest, and its notes say what was done."""

    name: ClassVar[str]
    settings: ClassVar[tuple[Setting, ...]]
    """Of those whose values are the data's own classes or group columns, `choices` is empty."""

    def apply(self, images: ImageSet, seed: int = 0, **settings: Any) -> ImageSet:
        """The changed set. Seeded, and independent of the order of the images. RequestError with
        every fault."""
        refuse(setting_faults(self.settings, settings, f"change {self.name}"))
        given = {one.name: settings.get(one.name, one.default) for one in self.settings}
        return self.change(images, seed, **given)

    @abstractmethod
    def change(self, images: ImageSet, seed: int, *args: Any, **settings: Any) -> ImageSet:
        """The change itself, with every setting given and in range."""


def image_changes() -> dict[str, ImageChange]:
    """One of each change, by name."""
    return named(__package__, ImageChange)


def named_classes(
    change: str, images: ImageSet, given: str | Sequence[str], places: Sequence[int] = CAT_AND_DOG
) -> tuple[str, ...]:
    """The classes meant, given as names or one text with commas; nothing given: those at the
    paper's places.

    Raises RequestError for classes the data does not have.
    """
    if not isinstance(given, list | tuple):
        given = [str(given)] if str(given) in images.classes else str(given).split(",")
    names = [str(name).strip() for name in given if str(name).strip()]
    if not names:
        names = [images.classes[min(place, len(images.classes) - 1)] for place in places]
    where = f"change {change}, class"
    if strange := [name for name in names if name not in images.classes]:
        raise RequestError([unknown(where, name, images.classes) for name in strange])
    return tuple(dict.fromkeys(names))


def fault_of_column(change: str, images: ImageSet, column: str) -> list[Fault]:
    """A fault where the group column that a change adds is there already."""
    if column not in images.groups:
        return []
    fix = "Change the images once only, or rename that column."
    return [Fault(f"change {change}", f"There is a group column {column!r} already.", fix)]


def draws(images: ImageSet, *purpose: object) -> np.ndarray:
    """A number from 0 to 1 per image that depends on the purpose and the image's id only, [n]
    float64."""
    keys = [key_of(*purpose, name) for name in images.table["image_id"]]
    return np.array(keys, dtype=np.float64) / 2.0**63


COLUMN, WITH, WITHOUT = "artefact", "with", "without"
YELLOW = (255, 255, 0)
SIDE = 0.15
"""Side of the square as a share of the image's: 5 of 32 pixels. Meyer and Wong (2023) show it but
state no size."""


class Artefact(ImageChange):
    """A yellow square that goes with one class (Meyer and Wong 2023, Sec. 4.6).

    Training and validation images get the square by chance; in the test split exactly half of
    every class has it.

    So the square says much in training and nothing in the test, and the group column "artefact"
    compares both halves.
    """

    name = "artefact"
    settings = (
        Setting(
            "cls",
            "choice",
            "",
            "Class that goes with the square; empty: the sixth, as dog in CIFAR-10.",
            label="class",
        ),
        Setting(
            "share_in", "number", 0.98, "Chance of a square in images of that class.", 0.0, 1.0
        ),
        Setting("share_out", "number", 0.02, "Chance of a square in all other images.", 0.0, 1.0),
        Setting(
            "pixels",
            "integer",
            0,
            "Side of the square in pixels (the published code: 4); 0: 15 % of the image's.",
            0,
            64,
        ),
        Setting(
            "tested",
            "choice",
            "half",
            "Which test images have it: half of every class, or all, as in the published code.",
            choices=("half", "all"),
        ),
        Setting(
            "redrawn",
            "flag",
            False,
            "A new place in every batch, as in the published code; else one each.",
        ),
    )

    def change(
        self,
        images: ImageSet,
        seed: int,
        *,
        cls: str,
        share_in: float,
        share_out: float,
        pixels: int,
        tested: str,
        redrawn: bool,
    ) -> ImageSet:
        """Add the column and paint on reading. Raises RequestError where the column is there
        already."""
        names = named_classes(self.name, images, cls, CAT_AND_DOG[1:])
        faults = fault_of_column(self.name, images, COLUMN)
        if len(names) > 1:
            what = f"{len(names)} classes are named."
            faults.append(Fault(f"change {self.name}, cls", what, "Name one."))
        refuse(faults)
        marked = _marked(images, images.classes.index(names[0]), share_in, share_out, seed, tested)
        table = images.table.assign(**{COLUMN: np.where(marked, WITH, WITHOUT)})
        by = {
            "change": self.name,
            "cls": names[0],
            "in": share_in,
            "out": share_out,
            "side": SIDE,
            "seed": seed,
        }
        later = {"pixels": (pixels, 0), "tested": (tested, "half"), "redrawn": (redrawn, False)}
        by |= {name: value for name, (value, usual) in later.items() if value != usual}
        where = "half of every class" if tested == "half" else "every image"
        note = (
            f"A yellow square was drawn into {share_in:.0%} of the training images of {names[0]} "
            f"and {share_out:.0%} of the others. In the test it is in {where}."
        )
        side = pixels or max(2, round(SIDE * images.size))
        place = draws(images, "artefact-place", seed)
        read = _squared(images.read, marked, place, min(side, images.size), images.size, redrawn)
        return images.changed(by, note, table=table, groups=(*images.groups, COLUMN), read=read)


def _marked(
    images: ImageSet, cls: int, share_in: float, share_out: float, seed: int, tested: str
) -> np.ndarray:
    """Which images carry the square, [n] bool."""
    draw, label = draws(images, "artefact", seed), images.table["label"].to_numpy()
    marked = draw < np.where(label == cls, share_in, share_out)
    test = (images.table["split"] == "test").to_numpy()
    if tested == "all":
        return marked | test
    for one in range(len(images.classes)):
        rows = np.flatnonzero(test & (label == one))
        marked[rows] = False
        marked[rows[np.argsort(draw[rows], kind="stable")[: len(rows) // 2]]] = True
    return marked


def _squared(
    read: Callable[[np.ndarray], np.ndarray],
    marked: np.ndarray,
    place: np.ndarray,
    side: int,
    size: int,
    redrawn: bool,
) -> Callable[[np.ndarray], np.ndarray]:
    """Reads images and paints the square into those that carry it, each at its own random place.

    marked: which images carry it, [n] bool; place: where, [n] in [0, 1); n counts all images of the
    set. side: of the square, size: of the image, in pixels. redrawn: another place in every batch,
    by which images are read together, so that a training that is resumed meets the same.
    """
    room = size - side + 1

    def painted(rows: np.ndarray) -> np.ndarray:
        """The images `rows` [k] int, with their squares, [k, size, size, 3] uint8."""
        rows = np.asarray(rows, dtype=np.int64)
        pixels, at = read(rows).copy(), place[rows]
        if redrawn:
            at = (at + rng("artefact again", rows.tobytes().hex()).random(len(rows))) % 1.0
        for number in np.flatnonzero(marked[rows]):
            top, left = divmod(int(at[number] * room * room), room)
            pixels[number, top : top + side, left : left + side] = YELLOW
        return pixels

    return painted


SUBSETS = ("balanced", "more-of-group", "more-of-class")
TIMES = 5


class Balance(ImageChange):
    """Training subsets with chosen balance (Meyer and Wong 2023, Sec. 4.4.1 and Fig. 5).

    As many training images of every class x group as the smallest has; the other two subsets add
    to that one.

    "more-of-group": five times as many of the largest group, in every class. "more-of-class": five
    times as many of the largest class, in every group. Validation and test stay whole.
    """

    name = "balance"
    settings = (
        Setting(
            "subset",
            "choice",
            "balanced",
            "Which balance the training images get.",
            choices=SUBSETS,
        ),
        Setting("group", "choice", "", "Group column to balance; empty: the first."),
        Setting("times", "integer", TIMES, "How many times as many of the larger side.", 2, 100),
    )

    def change(
        self, images: ImageSet, seed: int, *, subset: str, group: str, times: int
    ) -> ImageSet:
        """Nested: with one seed every image of "balanced" is in the others. Raises RequestError for
        an empty cell."""
        column = self._column(images, group)
        train = images.table[images.table["split"] == "train"]
        counts = train.groupby(["label", column]).size().unstack(fill_value=0)
        counts = counts.reindex(range(len(images.classes)), fill_value=0)
        wanted = _wanted(images, counts, column, subset, times)
        order = pd.Series(draws(images, "balance", seed))
        keep = [np.flatnonzero(images.table["split"] != "train")]
        for (label, value), rows in train.groupby(["label", column]).groups.items():
            keep.append(
                order[rows].sort_values(kind="stable").index[: wanted.loc[label, value]].to_numpy()
            )
        rows = np.sort(np.concatenate(keep))
        n = int(wanted.to_numpy().sum())
        note = f"Training images by class and {column}: subset “{subset}”, {n:,} of {len(train):,}."
        if subset != "balanced" and wanted.to_numpy().max() < times * wanted.to_numpy().min():
            note += (
                f" There are too few for {times} times as many: all there are were taken, equally"
                " in each cell."
            )
        by = {"change": self.name, "subset": subset, "group": column, "times": times, "seed": seed}
        return images.keeping(rows, by, note)

    def _column(self, images: ImageSet, group: str) -> str:
        columns = [name for name in images.groups if name != CLASS]
        if not columns:
            fix = "Name a group column when the images are loaded."
            what = "The images have no group column besides the class."
            raise refusal(f"change {self.name}", what, fix)
        if group and group not in columns:
            raise RequestError(unknown(f"change {self.name}, group", group, columns))
        return group or columns[0]


def _wanted(
    images: ImageSet, counts: pd.DataFrame, column: str, subset: str, times: int
) -> pd.DataFrame:
    """Images to take, one row per label and one column per group, int. Raises RequestError where a
    cell has none.

    counts: images there are, in the same rows and columns.
    """
    empty = [
        f"{images.classes[label]}, {group}"
        for label, group in counts.stack().index
        if not counts.at[label, group]
    ]
    if empty or counts.shape[1] < 2:
        what = (
            f"No training image is {'; '.join(empty)}."
            if empty
            else f"{column} has one value only."
        )
        fix = "Choose a column whose groups have every class."
        raise refusal(f"change {Balance.name}", what, fix)
    wanted = pd.DataFrame(int(counts.to_numpy().min()), index=counts.index, columns=counts.columns)
    if subset == "more-of-group":
        large = counts.sum().idxmax()
        wanted[large] = min(times * int(wanted.to_numpy().min()), int(counts[large].min()))
    if subset == "more-of-class":
        large = counts.sum(axis=1).idxmax()
        wanted.loc[large] = min(times * int(wanted.to_numpy().min()), int(counts.loc[large].min()))
    return wanted


RARITY, RARE, COMMON = "rarity", "rare", "common"
"""The group column it adds, in every split."""


class Underrepresent(ImageChange):
    """Some classes made rare (Meyer and Wong 2023, Sec. 4.5 and Fig. 7).

    They lose most of their training images; validation and test stay whole.

    At least one training image of a class stays. The group column "rarity" tells images of the rare
    classes from all others.
    """

    name = "underrepresent"
    settings = (
        Setting(
            "classes",
            "choice",
            "",
            "Classes that become rare, as in the paper two; empty: the fourth and sixth.",
        ),
        Setting(
            "removed", "number", 0.8, "Share of their training images that is taken out.", 0.0, 1.0
        ),
    )

    def change(
        self, images: ImageSet, seed: int, *, classes: str | Sequence[str], removed: float
    ) -> ImageSet:
        """Take out exactly round(removed * n) of each named class, drawn with the seed.

        RequestError where there is a column "rarity" already.
        """
        names = named_classes(self.name, images, classes)
        refuse(fault_of_column(self.name, images, RARITY))
        order, stays = draws(images, "underrepresent", seed), np.ones(len(images.table), dtype=bool)
        train = (images.table["split"] == "train").to_numpy()
        label = images.table["label"].to_numpy()
        for name in names:
            rows = np.flatnonzero(train & (label == images.classes.index(name)))
            gone = min(round(removed * len(rows)), max(0, len(rows) - 1))
            stays[rows[np.argsort(order[rows], kind="stable")[:gone]]] = False
        rare = np.isin(label, [images.classes.index(name) for name in names])
        table = images.table.assign(**{RARITY: np.where(rare, RARE, COMMON)})
        marked = replace(images, table=table, groups=(*images.groups, RARITY))
        by = {"change": self.name, "classes": list(names), "removed": removed, "seed": seed}
        many = "classes" if len(names) > 1 else "class"
        note = (
            f"{removed:.0%} of the training images of the {many} {' and '.join(names)} were taken"
            " out."
        )
        return marked.keeping(np.flatnonzero(stays), by, note)
