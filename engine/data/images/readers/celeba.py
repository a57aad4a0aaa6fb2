"""CelebA in torchvision's layout: img_align_celeba/, list_attr_celeba.txt,
list_eval_partition.txt."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.data.images.readers.base import (
    CLASS,
    PHOTO_SIZES,
    SPLITS,
    ImageInfo,
    ImageReader,
    Listing,
    Wanted,
    yes_no,
)
from engine.data.images.readers.pixels import FilePixels
from engine.data.tables import text_of

IMAGES, ATTRIBUTES, PARTITION = (
    "img_align_celeba",
    "list_attr_celeba.txt",
    "list_eval_partition.txt",
)


class CelebA(ImageReader):
    """Any of the 40 attributes as target (default Blond_Hair) or group (default Male); splits as
    published."""

    name = (
        "CelebA (a folder with img_align_celeba/, list_attr_celeba.txt and list_eval_partition.txt)"
    )

    def recognises(self, source: str, path: Path) -> bool:
        return (_home(path) / ATTRIBUTES).is_file()

    def look(self, source: str, path: Path) -> ImageInfo:
        home = _home(path)
        wanting = [name for name in (IMAGES, PARTITION) if not (home / name).exists()]
        if wanting:
            raise RequestError([_wanting(home, name) for name in wanting])
        n, names = _header(text_of(home / ATTRIBUTES, head=True))
        target = "Blond_Hair" if "Blond_Hair" in names else names[0]
        groups = ("Male",) if "Male" in names and target != "Male" else (CLASS,)
        classes = yes_no(target)
        return ImageInfo(
            "CelebA",
            "image files",
            names,
            (*names, CLASS),
            target,
            groups,
            PHOTO_SIZES,
            n,
            size=128,
            classes=classes,
        )

    def read(self, source: str, path: Path, wanted: Wanted) -> Listing:
        home = _home(path)
        columns = list(
            dict.fromkeys([wanted.target, *(name for name in wanted.columns if name != CLASS)])
        )
        marks = _attributes(home, columns)
        splits = _partition(home)
        table = pd.DataFrame({"image_id": marks.index.astype(str)})
        table["target"] = _worded(marks[wanted.target], wanted.target)
        for column in columns:
            if column in wanted.columns:
                table[column] = _worded(marks[column], column)
        table["split"] = splits.reindex(table["image_id"]).to_numpy()
        unplaced = table["split"].isna()
        notes = (
            (f"{int(unplaced.sum())} images have no split and were left out.",)
            if unplaced.any()
            else ()
        )
        table = table[~unplaced].reset_index(drop=True)
        pixels = FilePixels.below(home / IMAGES, list(table["image_id"]))
        return Listing("CelebA", table, pixels, yes_no(wanted.target), notes)


def _home(path: Path) -> Path:
    return path / "celeba" if (path / "celeba" / ATTRIBUTES).is_file() else path


def _wanting(home: Path, name: str) -> Fault:
    return Fault(
        f"CelebA in {home}",
        f"{name} is absent.",
        f"torchvision's layout has it beside {ATTRIBUTES}.",
    )


def _header(text: str) -> tuple[int, tuple[str, ...]]:
    """(images, attribute names) from the first two lines."""
    lines = text.split("\n", 2)
    names = tuple(lines[1].split()) if len(lines) > 1 else ()
    if not lines[0].strip().isdigit() or not names:
        what = "The first line is not a number of images, or no attributes follow."
        raise RequestError(Fault(ATTRIBUTES, what, "Use the file as published."))
    return int(lines[0]), names


def _attributes(home: Path, columns: list[str]) -> pd.DataFrame:
    """1 or -1 per image (rows, indexed by file name) and wanted attribute (columns). Raises
    RequestError."""
    text = text_of(home / ATTRIBUTES)
    _, names = _header(text)
    body = io.StringIO(text.split("\n", 2)[2] if text.count("\n") > 1 else "")
    keep = ["image_id", *columns]
    try:
        marks = pd.read_csv(
            body, sep=r"\s+", names=["image_id", *names], usecols=keep, dtype={"image_id": str}
        )
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError) as error:
        what = f"Its rows do not fit its {len(names)} attributes ({str(error).strip()[:120]})."
        raise RequestError(Fault(ATTRIBUTES, what, "Use the file as published.")) from error
    marks = marks.set_index("image_id")
    wrong = ~marks.isin([1, -1]).all(axis=1)
    if wrong.any() or not len(marks) or marks.index.has_duplicates:
        first = marks.index[wrong][0] if wrong.any() else "a repeated or no image"
        what = f"Attributes must be 1 or -1, once per image; see {first}."
        raise RequestError(Fault(ATTRIBUTES, what, "Use the file as published."))
    return marks


def _partition(home: Path) -> pd.Series:
    """Split of each file name, [images], indexed by it. Raises RequestError."""
    rows = [line.split() for line in text_of(home / PARTITION).splitlines() if line.strip()]
    bad = [" ".join(row) for row in rows if len(row) != 2 or row[1] not in ("0", "1", "2")]
    if bad:
        what = f"Lines must be a file name and 0, 1 or 2; found {bad[0][:80]!r}."
        raise RequestError(Fault(PARTITION, what, "Use the file as published."))
    return pd.Series({name: SPLITS[int(place)] for name, place in rows}, dtype=object)


def _worded(marks: pd.Series, column: str) -> list[str]:
    """Marks [images] of 1 or -1 in words."""
    no, yes = yes_no(column)
    return [yes if mark > 0 else no for mark in marks]
