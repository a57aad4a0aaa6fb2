"""Some classes made rare: most of their training images are taken out (Meyer and Wong 2023, Sec.
4.5 and Fig. 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from engine.core.errors import Fault, RequestError
from engine.core.types import Setting
from engine.data.images.changes.base import ImageChange, draws, named_classes
from engine.data.images.load import ImageSet

COLUMN, RARE, COMMON = "rarity", "rare", "common"
"""The group column it adds, in every split."""


class Underrepresent(ImageChange):
    """Some classes lose most of their training images; validation and test stay whole.

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
    of_classes = ("classes",)

    def change(
        self, images: ImageSet, seed: int, *, classes: str | Sequence[str], removed: float
    ) -> ImageSet:
        """Take out exactly round(removed * n) of each named class, drawn with the seed.

        RequestError where there is a column "rarity" already.
        """
        names = named_classes(self.name, images, classes)
        if COLUMN in images.groups:
            fix = "Change the images once only, or rename that column."
            raise RequestError(
                Fault(f"change {self.name}", f"There is a group column {COLUMN!r} already.", fix)
            )
        order, stays = draws(images, "underrepresent", seed), np.ones(len(images.table), dtype=bool)
        train, label = (
            (images.table["split"] == "train").to_numpy(),
            images.table["label"].to_numpy(),
        )
        for name in names:
            rows = np.flatnonzero(train & (label == images.classes.index(name)))
            gone = min(round(removed * len(rows)), max(0, len(rows) - 1))
            stays[rows[np.argsort(order[rows], kind="stable")[:gone]]] = False
        rare = np.isin(label, [images.classes.index(name) for name in names])
        table = images.table.assign(**{COLUMN: np.where(rare, RARE, COMMON)})
        marked = replace(images, table=table, groups=(*images.groups, COLUMN))
        by = {"change": self.name, "classes": list(names), "removed": removed, "seed": seed}
        many = "classes" if len(names) > 1 else "class"
        note = (
            f"{removed:.0%} of the training images of the {many} {' and '.join(names)} were taken"
            " out."
        )
        return marked.keeping(np.flatnonzero(stays), by, note)
