"""CelebA in torchvision's layout: img_align_celeba/, list_attr_celeba.txt,
list_eval_partition.txt."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.data.images.load import (
    CLASS,
    PHOTO_SIZES,
    SPLITS,
    ImageInfo,
    ImageReader,
    Listing,
    Wanted,
    yes_no,
)
from engine.data.images.pixels import FilePixels
from engine.data.sources import HELD_OUT, deal
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


# LFW in torchvision's layout with the attribute scores of lfw_attributes.txt; a person is never
# on two sides.


LFW_ATTRIBUTES = "lfw_attributes.txt"
LFW_FOLDERS = ("lfw_funneled", "lfw-deepfunneled", "lfw")
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
    inside = [place / LFW_ATTRIBUTES for place in (path, path / "lfw-py", path / "lfw")]
    beside = [path.parent / LFW_ATTRIBUTES] if path.name in (*LFW_FOLDERS, "lfw-py") else []
    return next((file for file in inside + beside if file.is_file()), None)


def _images(path: Path) -> Path:
    """The folder with one folder per person. Raises RequestError."""
    if path.name in LFW_FOLDERS and _has_people(path):
        return path
    for place in _places(path)[:3]:
        for name in LFW_FOLDERS:
            if _has_people(place / name):
                return place / name
    what = f"There is {LFW_ATTRIBUTES}, but no folder of images."
    raise RequestError(
        Fault(f"LFW in {path}", what, f"Put one of {', '.join(LFW_FOLDERS)} beside it.")
    )


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
    raise RequestError(
        Fault(LFW_ATTRIBUTES, what, "Use the file as published with LFW's attributes.")
    )


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
