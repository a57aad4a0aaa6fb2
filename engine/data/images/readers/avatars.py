"""The embedded avatars: faces the project draws, hair colour as target, presentation and skin tone
as groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.data.images.avatar_faces import SIZES, TONES, VERSION, People, draw, people
from engine.data.images.readers.base import CLASS, ImageInfo, ImageReader, Listing, Wanted
from engine.data.images.readers.pixels import Check, Pixels

COUNTS = {"train": 12_000, "validation": 2_000, "test": 8_000}
CLASSES = ("not blond", "blond")
MOST = 1_000_000
"""Most training images that may be asked for."""
STAND_IN = (
    "The faces are drawn by this project and show nobody. “Male” and “non-male” are two ways of"
    " drawing, with CelebA's shares; numbers on them say how an audit works, not how any model"
    " treats people."
)


class Avatars(ImageReader):
    """`avatars`, or `avatars:50000` for another number of training images (the other splits grow
    with it).

    The seed of the ask decides who is drawn. Every split has CelebA's shares of hair and
    presentation.
    """

    name = "avatars (embedded faces; avatars:50000 for another number)"

    def recognises(self, source: str, path: Path) -> bool:
        return source == "avatars" or source.startswith("avatars:")

    def look(self, source: str, path: Path) -> ImageInfo:
        counts = _counts(source)
        groups, least, most = ("male", "skin", CLASS), *SIZES
        return ImageInfo(
            "avatars",
            "drawn",
            ("blond",),
            groups,
            "blond",
            ("male", "skin"),
            (32, 48, 64),
            sum(counts.values()),
            32,
            CLASSES,
            least,
            most,
            STAND_IN,
        )

    def read(self, source: str, path: Path, wanted: Wanted) -> Listing:
        drawn = {split: people(split, wanted.seed, n) for split, n in _counts(source).items()}
        tables = [_table(split, who, wanted.columns) for split, who in drawn.items()]
        everybody = People(
            *(np.concatenate(parts) for parts in zip(*map(_arrays, drawn.values()), strict=True))
        )
        table = pd.concat(tables, ignore_index=True)
        names = [f"avatars {VERSION} {wanted.seed} {name}" for name in table["image_id"]]
        return Listing("avatars", table, DrawnPixels(everybody, names), CLASSES)


@dataclass(frozen=True, eq=False)
class DrawnPixels(Pixels):
    """Faces painted when they are asked for."""

    who: People
    names: list[str]

    def take(self, rows: np.ndarray, size: int) -> np.ndarray:
        """The faces `rows` [k] int, painted, [k, size, size, 3] uint8."""
        return draw(self.who.of(rows), size)

    def check(self, rows: np.ndarray, size: int, keep: Callable[[int, np.ndarray], None]) -> Check:
        """Identities of the faces `rows` [k] int: drawing version, seed and face. No face is
        painted for them."""
        return Check(np.empty(0, np.int64), [self.names[row] for row in rows], False)


def _counts(source: str) -> dict[str, int]:
    """Images per split. Raises RequestError for a number that is none."""
    _, colon, number = source.partition(":")
    if not colon:
        return COUNTS
    if not number.isdecimal() or not 100 <= int(number) <= MOST:
        what = f"{number!r} is not a number of training images."
        raise RequestError(Fault("avatars", what, f"Use avatars:N with N from 100 to {MOST:,}."))
    return {split: round(count * int(number) / COUNTS["train"]) for split, count in COUNTS.items()}


def _table(split: str, who: People, columns: tuple[str, ...]) -> pd.DataFrame:
    """One row per face with image_id, split, target and those of the group columns that are
    wanted."""
    target = np.where(who.blond, CLASSES[1], CLASSES[0])
    table = {
        "image_id": [f"{split}-{place:06d}" for place in range(len(who))],
        "split": split,
        "target": target,
    }
    groups = {
        "male": np.where(who.male, "male", "non-male"),
        "skin": np.array([name for name, _ in TONES])[who.tone],
    }
    return pd.DataFrame(
        table | {name: values for name, values in groups.items() if name in columns}
    )


def _arrays(who: People) -> tuple[np.ndarray, ...]:
    """The fields of `People`, each over faces."""
    return who.blond, who.male, who.tone, who.draw
