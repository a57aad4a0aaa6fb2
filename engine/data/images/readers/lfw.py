"""LFW in torchvision's layout with the attribute scores of lfw_attributes.txt; a person is never on
two sides."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.data.images.readers.base import (
    CLASS,
    PHOTO_SIZES,
    ImageInfo,
    ImageReader,
    Listing,
    Wanted,
    yes_no,
)
from engine.data.images.readers.pixels import FilePixels
from engine.data.splits import HELD_OUT, deal
from engine.data.tables import text_of

ATTRIBUTES = "lfw_attributes.txt"
FOLDERS = ("lfw_funneled", "lfw-deepfunneled", "lfw")
PEOPLE = {"train": "peopleDevTrain.txt", "test": "peopleDevTest.txt"}


class LFW(ImageReader):
    """Any attribute as target (default Wavy Hair) or group (default Male): yes where its score is
    above 0.

    Splits: LFW's development people where peopleDevTrain.txt and peopleDevTest.txt lie beside the
    images (10 % of the training people validate); else people are dealt out 70/10/20.
    """

    name = "LFW (a folder with lfw_funneled/ or lfw/ and lfw_attributes.txt)"

    def recognises(self, source: str, path: Path) -> bool:
        return _attribute_file(path) is not None

    def look(self, source: str, path: Path) -> ImageInfo:
        attributes = _attribute_file(path) or path
        _images(path)
        text = text_of(attributes, head=True)
        names = _columns(text)[2:]
        lines = text.count("\n")
        n = round(attributes.stat().st_size / max(1, len(text.encode())) * lines)
        target = "Wavy Hair" if "Wavy Hair" in names else names[0]
        groups = ("Male",) if "Male" in names and target != "Male" else (CLASS,)
        return ImageInfo(
            "LFW",
            "image files",
            names,
            (*names, CLASS),
            target,
            groups,
            PHOTO_SIZES,
            n,
            128,
            classes=yes_no(target),
        )

    def read(self, source: str, path: Path, wanted: Wanted) -> Listing:
        columns = list(
            dict.fromkeys([wanted.target, *(name for name in wanted.columns if name != CLASS)])
        )
        scores = _scores(_attribute_file(path) or path, columns)
        person = scores["person"].str.replace(" ", "_")
        files = person + "/" + person + "_" + scores["imagenum"].str.zfill(4) + ".jpg"
        table = pd.DataFrame({"image_id": files, "unit": person, "split": ""})
        for column in columns:
            no, yes = yes_no(column)
            worded = [yes if score > 0 else no for score in scores[column]]
            if column in wanted.columns:
                table[column] = worded
            if column == wanted.target:
                table["target"] = worded
        table = table.drop_duplicates("image_id").reset_index(drop=True)
        home = _images(path)
        table, notes = _published_split(table, home.parent, wanted.seed)
        return Listing(
            "LFW",
            table,
            FilePixels.below(home, list(table["image_id"])),
            yes_no(wanted.target),
            notes,
        )


def _places(path: Path) -> list[Path]:
    return [path, path / "lfw-py", path / "lfw", path.parent]


def _attribute_file(path: Path) -> Path | None:
    """Beside the images or one folder up or down; only where the folder looks like LFW at all."""
    inside = [place / ATTRIBUTES for place in (path, path / "lfw-py", path / "lfw")]
    beside = [path.parent / ATTRIBUTES] if path.name in (*FOLDERS, "lfw-py") else []
    return next((file for file in inside + beside if file.is_file()), None)


def _images(path: Path) -> Path:
    """The folder with one folder per person. Raises RequestError."""
    if path.name in FOLDERS and _has_people(path):
        return path
    for place in _places(path)[:3]:
        for name in FOLDERS:
            if _has_people(place / name):
                return place / name
    what = f"There is {ATTRIBUTES}, but no folder of images."
    raise RequestError(Fault(f"LFW in {path}", what, f"Put one of {', '.join(FOLDERS)} beside it."))


def _has_people(folder: Path) -> bool:
    """Whether some folder of it holds pictures named after it."""
    if not folder.is_dir():
        return False
    people = [
        entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")
    ][:20]
    return any(
        next(person.glob(f"{person.name.replace('[', '[[]')}_*.jpg"), None) for person in people
    )


def _columns(text: str) -> tuple[str, ...]:
    """person, imagenum and the attributes, from the first line that names them."""
    for line in text.splitlines()[:5]:
        cells = [cell.strip() for cell in line.lstrip("#").strip("\t\r\n").split("\t")]
        if cells[:2] == ["person", "imagenum"] and len(cells) > 2:
            return tuple(cells)
    what = "No line starts with person, imagenum and attributes, separated by tabs."
    raise RequestError(Fault(ATTRIBUTES, what, "Use the file as published with LFW's attributes."))


def _scores(path: Path, columns: list[str]) -> pd.DataFrame:
    """One row per image: columns person, imagenum (text) and the wanted attributes (numbers).
    Raises RequestError."""
    text = text_of(path)
    names = _columns(text)
    body = "\n".join(
        line for line in text.splitlines() if line.strip() and not line.startswith("#")
    )
    fix = "Use the file as published."
    try:
        table = pd.read_csv(
            io.StringIO(body),
            sep="\t",
            names=names,
            usecols=["person", "imagenum", *columns],
            dtype=str,
            quoting=3,
        )
        scores = table[columns].astype(float)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError) as error:
        raise RequestError(
            Fault(path.name, f"Its rows cannot be read ({str(error).strip()[:120]}).", fix)
        ) from error
    if (
        scores.isna().any(axis=None)
        or table.isna().any(axis=None)
        or not table["imagenum"].str.isdigit().all()
    ):
        raise RequestError(Fault(path.name, "Some rows lack a person, a number or a score.", fix))
    return pd.concat([table[["person", "imagenum"]], scores], axis=1)


def _published_split(
    table: pd.DataFrame, folder: Path, seed: int
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The table with LFW's development split in its column split where both lists are there; else
    as it is.

    table: one row per image, its column unit names the person. Returns notes too.
    """
    if not all((folder / name).is_file() for name in PEOPLE.values()):
        return table, ()
    place: dict[str, str] = {}
    for split, name in PEOPLE.items():
        rows = [line.split("\t") for line in text_of(folder / name).splitlines() if "\t" in line]
        place |= {row[0].strip(): split for row in rows}
    split = table["unit"].map(place)
    left = int(split.isna().sum())
    table = table.assign(split=split)[split.notna()].reset_index(drop=True)
    train = table.index[table["split"] == "train"]
    table.loc[train, "split"] = deal(
        table.loc[train].reset_index(drop=True), HELD_OUT, "train", seed
    )
    said = "LFW's development split; 10 % of its training people validate."
    return table, (
        (said, f"{left} images of people in neither list were left out.") if left else (said,)
    )
