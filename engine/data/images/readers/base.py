"""What every source of images offers: a quick look for the form, and a listing that loading starts
from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from engine.data.images.decoding import Preparation
from engine.data.images.readers.pixels import Pixels
from engine.data.splits import CLASS, SPLITS

__all__ = [
    "CLASS",
    "PHOTO_SIZES",
    "SPLITS",
    "ImageAsk",
    "ImageInfo",
    "ImageReader",
    "Listing",
    "Wanted",
    "yes_no",
]

PHOTO_SIZES = (32, 64, 128, 224)


@dataclass(frozen=True)
class ImageAsk:
    """What is wanted of a source; None and () mean its defaults.

    `target`: column to predict. `groups`: group columns, "a+b" for the intersection of two. `size`:
    side in pixels. `max_images`: at most this many per split, drawn with `seed` in proportion to
    label x groups. `prepare`: how the model's own processor makes pictures of `size`; None: the
    middle square, bilinear.
    """

    target: str | None = None
    groups: tuple[str, ...] = ()
    size: int | None = None
    max_images: int | None = None
    seed: int = 0
    prepare: Preparation | None = None


@dataclass(frozen=True)
class ImageInfo:
    """What a form must know of a source before anything is loaded.

    `sizes`: sides worth offering, `size` the default; images may have any side from `least` to
    `most`. `n`: images, all splits, as far as headers tell. `classes`: of the default target, in
    order of their labels; () where only loading can tell. `stand_in`: see ImageSet. `note`: a
    sentence for the form.
    """

    name: str
    kind: str
    targets: tuple[str, ...]
    groups: tuple[str, ...]
    default_target: str
    default_groups: tuple[str, ...]
    sizes: tuple[int, ...]
    n: int
    size: int
    classes: tuple[str, ...] = ()
    least: int = 8
    most: int = 512
    stand_in: str = ""
    note: str = ""


@dataclass(frozen=True)
class Wanted:
    """An ask after it was checked against the info: nothing is None, `columns` are the plain
    columns of its groups."""

    target: str
    groups: tuple[str, ...]
    columns: tuple[str, ...]
    size: int
    seed: int


@dataclass(frozen=True)
class Listing:
    """Every image of a source, before missing ones, splits and sampling are dealt with.

    `table` (row i is image i of `pixels`): image_id (str, unique), target (str, the class), split
    ("" where the source names none), and the wanted columns (str). A column `unit` (str), where
    there is one, names what must stay on one side of a split, such as a person. `classes`: names in
    order of their labels; () = those in the table, sorted.
    """

    name: str
    table: pd.DataFrame
    pixels: Pixels
    classes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class ImageReader(ABC):
    """One source of images."""

    name: str
    """What it reads, as errors and forms name it."""
    general: bool = False
    """True for layouts that nearly anything could have: asked last."""

    @abstractmethod
    def recognises(self, source: str, path: Path) -> bool:
        """Whether this is its layout. Cheap; may raise OSError."""

    @abstractmethod
    def look(self, source: str, path: Path) -> ImageInfo:
        """Reads headers and short files only. Raises RequestError where the layout is broken."""

    @abstractmethod
    def read(self, source: str, path: Path, wanted: Wanted) -> Listing:
        """Everything but the pixels. Raises RequestError listing all faults."""


def yes_no(column: str) -> tuple[str, str]:
    """Words for an attribute that a picture lacks or has, such as ("not wavy hair", "wavy
    hair")."""
    plain = column.replace("_", " ").strip().lower()
    return ("non-male", "male") if plain == "male" else (f"not {plain}", plain)
