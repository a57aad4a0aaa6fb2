"""Photographs of faces with a table of attributes, in torchvision's layout: CelebA and LFW."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.errors import Fault, RequestError, refusal
from engine.data.images.load import ImageInfo, ImageReader, Listing, Wanted
from engine.data.images.pixels import FilePixels
from engine.data.sources import CLASS, HELD_OUT, SPLITS, deal
from engine.data.tables import text_of

AS_PUBLISHED = "Use the file as published."


class _Faces(ImageReader):
    """Any attribute as target or group (default Male); `usual` is the default target."""

    title: str
    usual: str

    def info(self, names: tuple[str, ...]) -> ImageInfo:
        """What the form must know of images with these attributes."""
        target = self.usual if self.usual in names else names[0]
        group = "Male" if "Male" in names and target != "Male" else CLASS
        return ImageInfo(self.title, (*names, CLASS), (group,), names, target, size=128)


def _attributes_of(wanted: Wanted) -> list[str]:
    """Target and groups, each once."""
    return [name for name in dict.fromkeys((wanted.target, *wanted.groups)) if name != CLASS]


def _worded(scores: pd.DataFrame, wanted: Wanted) -> dict[str, list[str]]:
    """Columns target and groups in words: an attribute is there where its score is above 0."""
    words = {}
    for column in _attributes_of(wanted):
        no, yes = yes_no(column)
        words[column] = [yes if score > 0 else no for score in scores[column]]
    return {"target": words.pop(wanted.target), **words}


def yes_no(column: str) -> tuple[str, str]:
    """Words for an attribute that a picture lacks or has, such as ("not wavy hair", "wavy
    hair")."""
    plain = column.replace("_", " ").strip().lower()
    return ("non-male", "male") if plain == "male" else (f"not {plain}", plain)


def _read_columns(file: str, text: str, names: Sequence[str], what: str, **how: Any) -> Any:
    """Columns of a table without quotation, as pandas reads them. RequestError, which begins with
    `what`, where it cannot."""
    try:
        return pd.read_csv(io.StringIO(text), names=list(names), quoting=3, **how)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError) as error:
        said = f"{what} ({str(error).strip()[:120]})."
        raise refusal(file, said, AS_PUBLISHED) from error


CELEBA_IMAGES = "img_align_celeba"
CELEBA_ATTRIBUTES = "list_attr_celeba.txt"
PARTITION = "list_eval_partition.txt"


class CelebA(_Faces):
    """Any of the 40 attributes; splits as published."""

    name = (
        "CelebA (a folder with img_align_celeba/, list_attr_celeba.txt and list_eval_partition.txt)"
    )
    title, usual = "CelebA", "Blond_Hair"

    def recognises(self) -> bool:
        return (self.home / CELEBA_ATTRIBUTES).is_file()

    def look(self) -> ImageInfo:
        home = self.home
        absent = [name for name in (CELEBA_IMAGES, PARTITION) if not (home / name).exists()]
        if absent:
            where, fix = (
                f"CelebA in {home}",
                f"torchvision's layout has it beside {CELEBA_ATTRIBUTES}.",
            )
            raise RequestError([Fault(where, f"{name} is absent.", fix) for name in absent])
        return self.info(_celeba_names(text_of(home / CELEBA_ATTRIBUTES, head=True)))

    def read(self, wanted: Wanted) -> Listing:
        home = self.home
        marks = _marks(home, _attributes_of(wanted))
        table = pd.DataFrame({"image_id": marks.index.astype(str), **_worded(marks, wanted)})
        table["split"] = _partition(home).reindex(table["image_id"]).to_numpy()
        placed = table["split"].notna()
        left = int((~placed).sum())
        notes = (f"{left} images have no split and were left out.",) if left else ()
        table = table[placed].reset_index(drop=True)
        pixels = FilePixels.below(home / CELEBA_IMAGES, list(table["image_id"]))
        return Listing("CelebA", table, pixels, yes_no(wanted.target), notes)

    @property
    def home(self) -> Path:
        inside = self.path / "celeba"
        return inside if (inside / CELEBA_ATTRIBUTES).is_file() else self.path


def _celeba_names(text: str) -> tuple[str, ...]:
    """Names of the attributes, from the second line; the first counts the images."""
    first, _, rest = text.partition("\n")
    names = tuple(rest.partition("\n")[0].split())
    if not first.strip().isdigit() or not names:
        what = "The first line is not a number of images, or no attributes follow."
        raise refusal(CELEBA_ATTRIBUTES, what, AS_PUBLISHED)
    return names


def _marks(home: Path, columns: list[str]) -> pd.DataFrame:
    """1 or -1 per image (rows, indexed by file name) and wanted attribute (columns). Raises
    RequestError."""
    text = text_of(home / CELEBA_ATTRIBUTES)
    names = _celeba_names(text)
    marks = _read_columns(
        CELEBA_ATTRIBUTES,
        "\n".join(text.split("\n")[2:]),
        ["image_id", *names],
        f"Its rows do not fit its {len(names)} attributes",
        sep=r"\s+",
        usecols=["image_id", *columns],
        dtype={"image_id": str},
    ).set_index("image_id")
    wrong = ~marks.isin([1, -1]).all(axis=1)
    if wrong.any() or not len(marks) or marks.index.has_duplicates:
        first = marks.index[wrong][0] if wrong.any() else "a repeated or no image"
        what = f"Attributes must be 1 or -1, once per image; see {first}."
        raise refusal(CELEBA_ATTRIBUTES, what, AS_PUBLISHED)
    return marks


def _partition(home: Path) -> pd.Series:
    """Split of each file name, [images], indexed by it. Raises RequestError."""
    rows = [line.split() for line in text_of(home / PARTITION).splitlines() if line.strip()]
    bad = [" ".join(row) for row in rows if len(row) != 2 or row[1] not in ("0", "1", "2")]
    if bad:
        what = f"Lines must be a file name and 0, 1 or 2; found {bad[0][:80]!r}."
        raise refusal(PARTITION, what, AS_PUBLISHED)
    return pd.Series({name: SPLITS[int(place)] for name, place in rows}, dtype=object)


LFW_ATTRIBUTES = "lfw_attributes.txt"
LFW_FOLDERS = ("lfw_funneled", "lfw-deepfunneled", "lfw")
PEOPLE = {"train": "peopleDevTrain.txt", "test": "peopleDevTest.txt"}


class LFW(_Faces):
    """The attribute scores of lfw_attributes.txt; a person is never on two sides.

    Splits: LFW's development people where peopleDevTrain.txt and peopleDevTest.txt lie beside the
    images (10 % of the training people validate); else people are dealt out 70/10/20.
    """

    name = "LFW (a folder with lfw_funneled/ or lfw/ and lfw_attributes.txt)"
    title, usual = "LFW", "Wavy Hair"

    def recognises(self) -> bool:
        return self.file.is_file()

    def look(self) -> ImageInfo:
        _lfw_images(self.path)
        return self.info(_lfw_names(text_of(self.file, head=True))[2:])

    def read(self, wanted: Wanted) -> Listing:
        scores = _scores(self.file, _attributes_of(wanted))
        person = scores["person"].str.replace(" ", "_")
        files = person + "/" + person + "_" + scores["imagenum"].str.zfill(4) + ".jpg"
        table = pd.DataFrame(
            {"image_id": files, "unit": person, "split": "", **_worded(scores, wanted)}
        ).drop_duplicates("image_id", ignore_index=True)
        home = _lfw_images(self.path)
        table, notes = _published_split(table, home.parent)
        pixels = FilePixels.below(home, list(table["image_id"]))
        return Listing("LFW", table, pixels, yes_no(wanted.target), notes)

    @property
    def file(self) -> Path:
        """Its attributes, beside the images or one folder up or down; only where the folder looks
        like LFW at all."""
        inside = [self.path, self.path / "lfw-py", self.path / "lfw"]
        beside = [self.path.parent] if self.path.name in (*LFW_FOLDERS, "lfw-py") else []
        files = [place / LFW_ATTRIBUTES for place in inside + beside]
        return next((file for file in files if file.is_file()), files[0])


def _lfw_images(path: Path) -> Path:
    """The folder with one folder per person. Raises RequestError."""
    places = [
        place / name for place in (path, path / "lfw-py", path / "lfw") for name in LFW_FOLDERS
    ]
    for folder in [path, *places] if path.name in LFW_FOLDERS else places:
        if _has_people(folder):
            return folder
    what = f"There is {LFW_ATTRIBUTES}, but no folder of images."
    fix = f"Put one of {', '.join(LFW_FOLDERS)} beside it."
    raise refusal(f"LFW in {path}", what, fix)


def _has_people(folder: Path) -> bool:
    """Whether some folder of it holds pictures named after it."""
    if not folder.is_dir():
        return False
    people = [entry for entry in folder.iterdir() if entry.is_dir() and entry.name[0] != "."][:20]
    return any(
        next(person.glob(f"{person.name.replace('[', '[[]')}_*.jpg"), None) for person in people
    )


def _lfw_names(text: str) -> tuple[str, ...]:
    """person, imagenum and the attributes, from the first line that names them."""
    for line in text.splitlines()[:5]:
        cells = [cell.strip() for cell in line.lstrip("#").strip("\t\r\n").split("\t")]
        if cells[:2] == ["person", "imagenum"] and len(cells) > 2:
            return tuple(cells)
    what = "No line starts with person, imagenum and attributes, separated by tabs."
    fix = "Use the file as published with LFW's attributes."
    raise refusal(LFW_ATTRIBUTES, what, fix)


def _scores(path: Path, columns: list[str]) -> pd.DataFrame:
    """One row per image: columns person, imagenum (text) and the wanted attributes (numbers).
    Raises RequestError."""
    text = text_of(path)
    own = ["person", "imagenum"]
    table = _read_columns(
        path.name,
        "\n".join(line for line in text.splitlines() if line.strip() and line[0] != "#"),
        _lfw_names(text),
        "Its rows cannot be read",
        sep="\t",
        usecols=[*own, *columns],
        dtype=dict.fromkeys(own, str) | dict.fromkeys(columns, float),
    )
    if table.isna().any(axis=None) or not table["imagenum"].str.isdigit().all():
        what = "Some rows lack a person, a number or a score."
        raise refusal(path.name, what, AS_PUBLISHED)
    return table


def _published_split(table: pd.DataFrame, folder: Path) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The table with LFW's development split in its column split where both lists are there; else
    as it is. And notes.

    table: one row per image, its column unit names the person.
    """
    if not all((folder / name).is_file() for name in PEOPLE.values()):
        return table, ()
    place: dict[str, str] = {}
    for split, name in PEOPLE.items():
        rows = [line.split("\t") for line in text_of(folder / name).splitlines() if "\t" in line]
        place |= {row[0].strip(): split for row in rows}
    table = table.assign(split=table["unit"].map(place))
    left = int(table["split"].isna().sum())
    table = table.dropna(subset="split").reset_index(drop=True)
    train = table.index[table["split"] == "train"]
    table.loc[train, "split"] = deal(table.loc[train].reset_index(drop=True), HELD_OUT, "train")
    said = "LFW's development split; 10 % of its training people validate."
    gone = f"{left} images of people in neither list were left out."
    return table, (said, gone) if left else (said,)
