"""The embedded avatars with a gap planted between two groups: evening light on some of the faces
drawn as non-male."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from engine.core.seeds import key_of
from engine.data.images.readers.avatars import Avatars
from engine.data.images.readers.base import ImageInfo, ImageReader, Listing, Wanted
from engine.data.images.readers.pixels import Check, Pixels

NAME = "avatars-gap"
LIT = 0.35
"""Share of the faces drawn as non-male that are lit, in every split."""
LIGHT, GLOW = (1.25, 1.1, 0.7), (40.0, 26.0, 0.0)
"""What the light does to red, green and blue: a factor, and what is added (of 255): brown hair
looks blond in it."""
PLANTED = (
    f"A gap is planted: {LIT:.0%} of the faces drawn as non-male, in every split, are in evening"
    " light that makes brown hair look blond. A model that never saw that light errs there, so its"
    " accuracy differs between drawings."
)


class AvatarsGap(ImageReader):
    """`avatars-gap`: the faces, labels and groups of `avatars`, some of them lit. `avatars` itself
    stays as it is."""

    name = f"{NAME} (the same faces with a planted gap)"

    def recognises(self, source: str, path: Path) -> bool:
        return source == NAME

    def look(self, source: str, path: Path) -> ImageInfo:
        info = Avatars().look("avatars", path)
        return replace(info, name=NAME, stand_in=f"{info.stand_in} {PLANTED}")

    def read(self, source: str, path: Path, wanted: Wanted) -> Listing:
        columns = tuple(dict.fromkeys((*wanted.columns, "male")))
        whole = Avatars().read("avatars", path, replace(wanted, columns=columns))
        chance = [key_of(NAME, wanted.seed, image) / 2.0**63 for image in whole.table["image_id"]]
        lit = (np.array(chance) < LIT) & (whole.table["male"] == "non-male").to_numpy()
        table = whole.table if "male" in wanted.columns else whole.table.drop(columns="male")
        return replace(whole, name=NAME, table=table, pixels=LitPixels(whole.pixels, lit))


@dataclass(frozen=True, eq=False)
class LitPixels(Pixels):
    """The faces of `plain`, those of `lit` [n] bool in evening light."""

    plain: Pixels
    lit: np.ndarray

    def take(self, rows: np.ndarray, size: int) -> np.ndarray:
        """The faces `rows` [k] int, [k, size, size, 3] uint8."""
        found = self.plain.take(rows, size)
        shine = found[self.lit[rows]] * np.array(LIGHT) + np.array(GLOW)
        found[self.lit[rows]] = np.clip(shine, 0, 255).astype(np.uint8)
        return found

    def check(self, rows: np.ndarray, size: int, keep: Callable[[int, np.ndarray], None]) -> Check:
        """Identities of the faces `rows` [k] int, with whether each is lit."""
        found = self.plain.check(rows, size, keep)
        light = [LIGHT, GLOW]
        names = [
            f"{name}{f' lit {light}' if self.lit[row] else ''}"
            for name, row in zip(found.identities, rows, strict=True)
        ]
        return replace(found, identities=names)
