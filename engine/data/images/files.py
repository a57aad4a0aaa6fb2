"""Pictures as files: a folder per class, any CSV with paths and labels, Fitzpatrick17k."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd

from engine.core.errors import refusal, refuse
from engine.data.images.arrays import CLASSES
from engine.data.images.load import CLASS, ImageInfo, ImageReader, Listing, Wanted
from engine.data.images.pixels import SUFFIXES, FilePixels, is_picture, listed, visible
from engine.data.sources import WORDS, deal, left_out, usable
from engine.data.tables import (
    CsvTable,
    RowFaults,
    csv_table,
    in_order,
    need_columns,
    one_spelling,
    regression_faults,
)

LEFT_BEHIND = ("thumbs.db", "desktop.ini", "__MACOSX")


class ClassFolders(ImageReader):
    """train/<class>/* and test/<class>/*, perhaps val/<class>/*, as torchvision's ImageFolder has
    them. The folder's name is the class, of all pictures in and below it. Hidden files are ignored,
    and those with other endings, or outside the classes, counted."""

    name = "an image folder (train/<class>/ and test/<class>/ with images)"
    general = True

    def recognises(self) -> bool:
        return self.path.is_dir() and bool(
            {"train", "test"} & set(_split_folders(self.path)) and _classes(self.path)
        )

    def look(self) -> ImageInfo:
        name, _, classes, notes = _listed(self.path)
        return ImageInfo(name, note=" ".join(notes), size=32 if classes == CLASSES else 64)

    def read(self, wanted: Wanted) -> Listing:
        name, table, classes, notes = _listed(self.path)
        pixels = FilePixels.below(self.path, list(table["image_id"]))
        return Listing(name, table, pixels, classes, notes)


def _listed(path: Path) -> tuple[str, pd.DataFrame, tuple[str, ...], tuple[str, ...]]:
    """Name; columns split, target, image_id of every image; the classes, sorted, or as CIFAR-10 has
    them; notes on folders that are one class and on files that are not read."""
    files, others = _files(path)
    table = pd.DataFrame(files, columns=["split", "target", "image_id"])
    empty = set(_classes(path)) - set(table["target"])
    table["target"], notes = one_spelling(table["target"], "class folders", missing=())
    found = empty | set(table["target"])
    name, classes = (
        ("CIFAR-10", CLASSES) if found == set(CLASSES) else (path.name, tuple(sorted(found)))
    )
    return name, table, classes, (*notes, *_said(others), *_outside(path))


def _split_folders(path: Path) -> dict[str, str]:
    """Folder of each split."""
    return {WORDS[name.lower()]: name for name in sorted(_folders(path)) if name.lower() in WORDS}


def _classes(path: Path) -> set[str]:
    """Names of the class folders of all splits."""
    return {name for folder in _split_folders(path).values() for name in _folders(path / folder)}


def _folders(path: Path) -> list[str]:
    with os.scandir(path) as entries:
        return [entry.name for entry in entries if entry.is_dir() and entry.name[0] != "."]


def _files(path: Path) -> tuple[list[tuple[str, str, str]], list[str]]:
    """(split, class, path below the folder) of every image, and names of other files. RequestError
    without training or test images."""
    found, others = [], []
    for split, folder in _split_folders(path).items():
        for name in _folders(path / folder):
            for place, folders, files in os.walk(path / folder / name):
                folders[:] = [one for one in folders if not one.startswith(".")]
                inside = Path(place).relative_to(path).as_posix()
                found += [(split, name, f"{inside}/{file}") for file in files if is_picture(file)]
                others += [file for file in files if not is_picture(file)]
    absent = [split for split in ("train", "test") if split not in {row[0] for row in found}]
    if absent:
        what = f"No images in {' and '.join(f'{split}/<class>/' for split in absent)}."
        fix = f"Endings read: {', '.join(SUFFIXES)}."
        raise refusal(f"image folder {path}", what, fix)
    return sorted(found), others


def _outside(path: Path) -> tuple[str, ...]:
    """Notes on folders beside the splits, and on pictures in a split but in no class."""
    splits = _split_folders(path).values()
    beside = [
        name for name in sorted(_folders(path)) if name not in splits and name not in LEFT_BEHIND
    ]
    stray = [
        f"{split}/{file.name}"
        for split in splits
        for file in visible(path / split, "*")
        if is_picture(file.name) and file.is_file()
    ]
    notes = []
    if beside:
        what = "Folders that are not read, for they name no split, or one twice:"
        notes.append(f"{what} {listed(beside)}.")
    if stray:
        what = "Pictures that lie in no class folder and were left out:"
        notes.append(f"{what} {len(stray)} ({listed(stray)}).")
    return tuple(notes)


def _said(others: list[str]) -> tuple[str, ...]:
    """A note on files that may be pictures all the same; none on those that systems leave
    behind."""
    left = [name for name in others if name[0] != "." and name.lower() not in LEFT_BEHIND]
    if not left:
        return ()
    kinds = sorted({Path(name).suffix.lower() or "no ending" for name in left})
    what = f"{len(left)} files do not end as pictures that are read here and were left out:"
    return (f"{what} {listed(kinds)}.",)


REQUIRED = ("path", "label")


class ImageCsv(ImageReader):
    """Columns path (relative to the CSV), label, perhaps split, and every further column a group.
    Paths never leave the CSV's folder. Any column with 2 to 64 values may be the target instead
    of label."""

    name = "a CSV with the columns path, label and groups (or its folder)"
    general = True

    def recognises(self) -> bool:
        return self.file.suffix.lower() == ".csv" and self.file.is_file()

    def look(self) -> ImageInfo:
        csv = _table(self.file)
        spelled = {
            name: csv.spelled(name) for name in csv.cells.columns if name not in ("path", "split")
        }
        counts = {name: len(set(column) - {""}) for name, (column, _) in spelled.items()}
        targets = tuple(dict.fromkeys(["label", *usable(counts)]))
        groups = tuple(name for name in usable(counts) if name != "label")
        said = [note for name in targets for note in spelled[name][1]]
        return ImageInfo(
            self.title,
            (*groups, CLASS),
            groups[:1] or (CLASS,),
            targets,
            note=" ".join(filter(None, (left_out(counts), *csv.notes, *said))),
            size=64,
        )

    def read(self, wanted: Wanted) -> Listing:
        file = self.file
        csv = _table(file)
        target, notes = csv.spelled(wanted.target)
        table = pd.DataFrame({"image_id": csv.cells["path"], "target": target})
        table["split"] = csv.splits(faults := RowFaults(file.name))
        refuse(faults.all())
        notes = (*notes, *csv.add_groups(table, wanted.groups, (CLASS,)))
        if blank := int((table["target"] == "").sum()):
            notes = (*notes, f"{blank} rows have no {wanted.target} and were left out.")
        table = table[table["target"] != ""].drop_duplicates().reset_index(drop=True)
        if len(again := table.loc[table["image_id"].duplicated(), "image_id"]):
            what = (
                f"{len(again)} paths have rows that contradict each other: {listed(list(again))}."
            )
            raise refusal(file.name, what, "Give one row per image.")
        pixels = FilePixels.below(file.parent, list(table["image_id"]), confined=True)
        classes = in_order(table["target"])
        refuse(regression_faults(f"{file.name}, column {wanted.target}", classes))
        return Listing(self.title, table, pixels, classes, (*csv.notes, *notes))

    @property
    def file(self) -> Path:
        """The CSV itself, or the only one in a folder."""
        files = visible(self.path, "*.csv") if self.path.is_dir() else []
        return files[0] if len(files) == 1 else self.path

    @property
    def title(self) -> str:
        says_little = self.file.stem in ("labels", "data", "index", "metadata", "images")
        return self.file.parent.name if says_little else self.file.stem


def _table(file: Path) -> CsvTable:
    """The CSV, columns path, label and split in lower case, further ones as they are. Raises
    RequestError."""
    csv = csv_table(file, (*REQUIRED, "split"))
    table = csv.cells
    need_columns(file, table, REQUIRED)
    if taken := [name for name in table.columns if name in (CLASS, "image_id", "target", "unit")]:
        what = f"Columns with names the audit uses itself: {', '.join(taken)}."
        raise refusal(file.name, what, "Call them something else.")
    if len(rows := table.index[table["path"] == ""]):
        raise refusal(
            f"{file.name}, row {rows[0] + 1}", f"{len(rows)} rows name no path.", "Fill them."
        )
    return csv


SCALES = ("fitzpatrick_scale", "fitzpatrick")
TARGETS = ("three_partition_label", "nine_partition_label", "label")
TONES = {1: "light", 2: "light", 3: "medium", 4: "medium", 5: "dark", 6: "dark"}
FOLDERS = ("images", "data/finalfitz17k", "finalfitz17k", "data", "fitzpatrick17k", ".")
VALIDATION = {"validation": 0.25}
"""Share of medium and dark skin that validates (Meyer and Wong 2023, Sec. 4.1)."""


class Fitzpatrick17k(ImageReader):
    """Light skin trains, medium and dark skin validate and test.

    Target three_partition_label (or nine_partition_label, label), groups skin (light, medium,
    dark) and the scale.

    A hash stands for one picture: repeated rows count once, and hashes whose rows contradict each
    other are left out, so no picture is on two sides.
    """

    name = (
        "Fitzpatrick17k (a CSV with md5hash, fitzpatrick_scale, three_partition_label, and"
        " <md5hash>.jpg images)"
    )

    def recognises(self) -> bool:
        return self.file is not None

    def look(self) -> ImageInfo:
        file = self.file or self.path
        csv = csv_table(file)
        table = csv.cells
        scale = _scale(file, table)
        targets = tuple(name for name in TARGETS if name in table.columns)
        if not targets:
            need_columns(file, table, TARGETS[:1])
        _, said = csv.spelled(targets[0])
        return ImageInfo(
            "Fitzpatrick17k",
            ("skin", scale, CLASS),
            ("skin",),
            targets,
            targets[0],
            " ".join((*csv.notes, *said)),
            size=128,
        )

    def read(self, wanted: Wanted) -> Listing:
        file = self.file or self.path
        csv = csv_table(file)
        raw, scale = csv.cells, _scale(file, csv.cells)
        (target, said), (grade, _) = csv.spelled(wanted.target), csv.spelled(scale)
        tone = pd.to_numeric(grade, errors="coerce").map(TONES)
        known = tone.notna() & (target != "") & (raw["md5hash"] != "")
        table = pd.DataFrame(
            {"image_id": raw["md5hash"], "target": target, "skin": tone, scale: grade}
        )
        once = table[known].drop_duplicates()
        twice = once["image_id"].duplicated(keep=False)
        counts = {
            "rows name no skin tone from 1 to 6, no class or no hash": int((~known).sum()),
            "rows repeat another one": int(known.sum()) - len(once),
            "hashes have rows that contradict each other": once["image_id"][twice].nunique(),
        }
        notes = [f"{n} {what}; they were left out." for what, n in counts.items() if n]
        table = once[~twice].reset_index(drop=True)
        table["split"] = np.where(table["skin"] == "light", "train", "test")
        held = np.flatnonzero(table["split"] == "test")
        table.loc[held, "split"] = deal(table.loc[held].reset_index(drop=True), VALIDATION, "test")
        folder = _images(file, list(table["image_id"]))
        pixels = FilePixels.below(folder, [f"{name}.jpg" for name in table["image_id"]])
        keep = ["image_id", "target", "split", *(name for name in wanted.groups if name != CLASS)]
        how = (
            "Light skin trains; a quarter of medium and dark skin validates, the rest tests, as in"
            " the paper."
        )
        return Listing(
            "Fitzpatrick17k",
            table[keep].astype(str),
            pixels,
            notes=(how, *csv.notes, *said, *notes),
        )

    @property
    def file(self) -> Path | None:
        """The CSV, given itself or its folder, whose header names md5hash."""
        files = visible(self.path, "*.csv")[:20] if self.path.is_dir() else [self.path]
        for file in files:
            if file.suffix.lower() == ".csv" and file.is_file():
                with file.open("rb") as opened:
                    if b"md5hash" in opened.readline(4096):
                        return file
        return None


def _scale(file: Path, table: pd.DataFrame) -> str:
    """Name of the column with the Fitzpatrick scale, among the columns of the CSV. Raises
    RequestError."""
    found = [name for name in SCALES if name in table.columns]
    need_columns(file, table, ["md5hash"] if found else ["md5hash", SCALES[0]])
    return found[0]


def _images(file: Path, hashes: list[str]) -> Path:
    """The folder beside the CSV with most of the images. Raises RequestError where none has any."""
    wanted, counts = {f"{name}.jpg" for name in hashes}, {}
    for name in FOLDERS:
        folder = file.parent / name
        if folder.is_dir():
            counts[folder] = len(wanted.intersection(os.listdir(folder)))
    if not counts or not max(counts.values()):
        what = "No image named <md5hash>.jpg lies beside the CSV."
        raise refusal(
            f"Fitzpatrick17k in {file.parent}", what, f"Put them into {FOLDERS[0]}/ there."
        )
    return max(counts, key=lambda folder: counts[folder])
