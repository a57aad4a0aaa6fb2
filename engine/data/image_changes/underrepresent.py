"""Some classes made rare: most of their training images are taken out (paper, Sec. 4.5 and Fig. 7)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.data.image_changes.base import ImageChange, draws, named_classes
from engine.data.images import ImageSet
from engine.types import Setting


class Underrepresent(ImageChange):
    """Validation and test stay whole. At least one training image of a class stays."""

    name = "underrepresent"
    settings = (
        Setting("classes", "choice", "", "Classes that become rare, as in the paper two; empty: the fourth and sixth."),
        Setting("removed", "number", 0.8, "Share of their training images that is taken out.", 0.0, 1.0),
    )
    of_classes = ("classes",)

    def change(self, images: ImageSet, seed: int, *, classes: str | Sequence[str], removed: float) -> ImageSet:
        """Takes out exactly round(removed * n) of each named class, drawn with the seed."""
        names = named_classes(self.name, images, classes)
        order, stays = draws(images, "underrepresent", seed), np.ones(len(images.table), dtype=bool)
        train, label = (images.table["split"] == "train").to_numpy(), images.table["label"].to_numpy()
        for name in names:
            rows = np.flatnonzero(train & (label == images.classes.index(name)))
            gone = min(round(removed * len(rows)), max(0, len(rows) - 1))
            stays[rows[np.argsort(order[rows], kind="stable")[:gone]]] = False
        by = {"change": self.name, "classes": list(names), "removed": removed, "seed": seed}
        many = "classes" if len(names) > 1 else "class"
        note = f"{removed:.0%} of the training images of the {many} {' and '.join(names)} were taken out."
        return images.keeping(np.flatnonzero(stays), by, note)
