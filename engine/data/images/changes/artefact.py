"""A yellow square that goes with one class: in most of its images, in few others (Meyer and Wong
2023, Sec. 4.6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engine.core.errors import Fault, RequestError
from engine.core.seeds import rng
from engine.core.types import Setting
from engine.data.images.changes.base import CAT_AND_DOG, ImageChange, draws, named_classes
from engine.data.images.load import ImageSet

COLUMN, WITH, WITHOUT = "artefact", "with", "without"
YELLOW = (255, 255, 0)
SIDE = 0.15
"""Side of the square as a share of the image's: 5 of 32 pixels. Meyer and Wong (2023) show it but
state no size."""


class Artefact(ImageChange):
    """Training and validation images get the square by chance; in the test split exactly half of
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
    of_classes = ("cls",)

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
        faults = []
        if len(names) > 1:
            faults.append(
                Fault(f"change {self.name}, cls", f"{len(names)} classes are named.", "Name one.")
            )
        if COLUMN in images.groups:
            fix = "Change the images once only, or rename that column."
            faults.append(
                Fault(f"change {self.name}", f"There is a group column {COLUMN!r} already.", fix)
            )
        if faults:
            raise RequestError(faults)
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
            f"A yellow square was drawn into {share_in:.0%} of the training images of {names[0]}"
            f" and {share_out:.0%} of the others; in the test it is in {where}."
        )
        side = pixels or max(2, round(SIDE * images.size))
        place = draws(images, "artefact-place", seed)
        read = _Squares(images.read, marked, place, min(side, images.size), images.size, redrawn)
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


@dataclass(frozen=True, eq=False)
class _Squares:
    """Reads images and paints the square into those that carry it, each at its own random place.

    marked: which images carry it, [n] bool; place: where, [n] in [0, 1); n counts all images of the
    set. side: of the
    square, size: of the image, in pixels. redrawn: another place in every batch, by which images
    are read together, so that a training that is resumed meets the same.
    """

    read: Callable[[np.ndarray], np.ndarray]
    marked: np.ndarray
    place: np.ndarray
    side: int
    size: int
    redrawn: bool = False

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """The images `rows` [k] int, with their squares, [k, size, size, 3] uint8."""
        rows = np.asarray(rows, dtype=np.int64)
        pixels = self.read(rows).copy()
        side, room = self.side, self.size - self.side + 1
        place = self.place[rows]
        if self.redrawn:
            place = (place + rng("artefact again", rows.tobytes().hex()).random(len(rows))) % 1.0
        for at in np.flatnonzero(self.marked[rows]):
            top, left = divmod(int(place[at] * room * room), room)
            pixels[at, top : top + side, left : left + side] = YELLOW
        return pixels
