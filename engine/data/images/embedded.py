"""The embedded images: faces the project draws, with and without a planted gap, and scikit-learn's
digits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from engine.core.errors import refusal
from engine.core.ids import key_of, rng
from engine.data.images.avatar_faces import SIZES, TONES, VERSION, People, draw, people
from engine.data.images.load import CLASS, ImageInfo, ImageReader, Listing, Wanted
from engine.data.images.pixels import ArrayPixels, Check, Pixels
from engine.data.sources import deal

COUNTS = {"train": 12_000, "validation": 2_000, "test": 8_000}
CLASSES = ("not blond", "blond")
MOST = 1_000_000
"""Most training images that may be asked for."""
STAND_IN = (
    "This project drew the faces; they show nobody. “Male” and “non-male” are two ways of "
    "drawing, with CelebA's shares. Numbers on them show how an audit works, not how any model "
    "treats people."
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
        return Listing("avatars", *_drawn(_counts(source), wanted.seed), CLASSES)


@dataclass(frozen=True, eq=False)
class DrawnPixels(Pixels):
    """Faces painted when they are asked for, those of `lit` [n] bool in evening light."""

    who: People
    names: list[str]
    lit: np.ndarray

    def take(self, rows: np.ndarray, size: int) -> np.ndarray:
        """The faces `rows` [k] int, painted, [k, size, size, 3] uint8."""
        found, lit = draw(self.who.of(rows), size), self.lit[rows]
        if lit.any():
            shine = found[lit] * np.array(LIGHT) + np.array(GLOW)
            found[lit] = np.clip(shine, 0, 255).astype(np.uint8)
        return found

    def check(self, rows: np.ndarray, size: int, keep: Callable[[int, np.ndarray], None]) -> Check:
        """Identities of the faces `rows` [k] int: drawing version, seed, face and light. No face is
        painted for them."""
        light = f" lit {[LIGHT, GLOW]}"
        names = [self.names[row] + (light if self.lit[row] else "") for row in rows]
        return Check(np.empty(0, np.int64), names, False)


def _drawn(counts: Mapping[str, int], seed: int) -> tuple[pd.DataFrame, DrawnPixels]:
    """One row per face with image_id, split, target, male and skin; and the faces."""
    drawn = {split: people(split, seed, n) for split, n in counts.items()}
    who = People.joined(list(drawn.values()))
    places = [(split, place) for split, part in drawn.items() for place in range(len(part))]
    table = pd.DataFrame(
        {
            "image_id": [f"{split}-{place:06d}" for split, place in places],
            "split": [split for split, _ in places],
            "target": np.where(who.blond, CLASSES[1], CLASSES[0]),
            "male": np.where(who.male, "male", "non-male"),
            "skin": np.array([name for name, _ in TONES])[who.tone],
        }
    )
    names = [f"avatars {VERSION} {seed} {name}" for name in table["image_id"]]
    return table, DrawnPixels(who, names, np.zeros(len(who), dtype=bool))


def _number(source: str, what: str, least: int, most: int) -> int:
    """N of "name:N", `least` to `most`; 0 for the name alone. Raises RequestError for any other."""
    name, colon, text = source.partition(":")
    if colon and not (text.isdecimal() and least <= int(text) <= most):
        fix = f"Use {name}:N with N from {least} to {most:,}."
        raise refusal(name, f"{text!r} is not {what}.", fix)
    return int(text or 0)


def _counts(source: str) -> dict[str, int]:
    """Images per split. Raises RequestError for a number that is none."""
    number = _number(source, "a number of training images", 100, MOST) or COUNTS["train"]
    return {split: round(count * number / COUNTS["train"]) for split, count in COUNTS.items()}


NAME = "avatars-gap"
LIT = 0.35
"""Share of the faces drawn as non-male that are lit, in every split."""
LIGHT, GLOW = (1.25, 1.1, 0.7), (40.0, 26.0, 0.0)
"""What the light does to red, green and blue: a factor, and what is added (of 255): brown hair
looks blond in it."""
PLANTED = (
    f"A gap is planted: {LIT:.0%} of the faces drawn as non-male, in every split, are in evening "
    "light that makes brown hair look blond. A model that never saw that light errs there, so "
    "its accuracy differs between drawings."
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
        table, pixels = _drawn(COUNTS, wanted.seed)
        chance = [key_of(NAME, wanted.seed, image) / 2.0**63 for image in table["image_id"]]
        lit = (np.array(chance) < LIT) & (table["male"] == "non-male").to_numpy()
        return Listing(NAME, table, replace(pixels, lit=lit), CLASSES)


SHARES = {"test": 0.3, "validation": 0.1}
DIGITS = tuple("0123456789")
COUNT = 1_797


class Digits(ImageReader):
    """1,797 real handwritten digits of 8 x 8 pixels. 60 % train, 10 % validation, 30 % test, by
    class and seed. Enlarged by bilinear interpolation, white on black.

    `digits:100` adds noise of that standard deviation to every pixel, in grey levels of 255: as
    they are, a small model makes no mistake, and nothing that is cut shows.
    """

    name = "digits (embedded: real handwritten digits from scikit-learn; digits:100 with noise)"

    def recognises(self, source: str, path: Path) -> bool:
        return source.partition(":")[0] == "digits"

    def look(self, source: str, path: Path) -> ImageInfo:
        _noise(source)
        axes, sizes = (CLASS,), (16, 32, 64)
        return ImageInfo(
            "digits", "arrays", ("digit",), axes, "digit", axes, sizes, COUNT, 32, DIGITS
        )

    def read(self, source: str, path: Path, wanted: Wanted) -> Listing:
        from sklearn.datasets import load_digits  # slow to import, and only needed here

        found = load_digits()
        table = pd.DataFrame(
            {"image_id": [f"digit-{place:04d}" for place in range(len(found.target))]}
        )
        table["target"] = [DIGITS[label] for label in found.target]
        table["split"] = deal(table, SHARES, "train", wanted.seed)
        noise = _noise(source) * rng("digits", wanted.seed).normal(size=found.images.shape)
        grey = np.rint(found.images * (255 / 16) + noise).clip(0, 255).astype(np.uint8)
        return Listing(source, table, ArrayPixels(np.repeat(grey[..., None], 3, axis=3)), DIGITS)


def _noise(source: str) -> int:
    return _number(source, "a standard deviation of noise", 1, 255)
