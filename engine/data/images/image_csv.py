"""Images with a CSV beside them: any, with the columns path and label, and Fitzpatrick17k's."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd

from engine.core.errors import RequestError, refusal
from engine.data.images.load import CLASS, PHOTO_SIZES, ImageInfo, ImageReader, Listing, Wanted
from engine.data.images.pixels import FilePixels, listed, visible
from engine.data.sources import WORDS, deal, left_out, usable
from engine.data.tables import CsvTable, csv_table, in_order, need_columns, regression_faults

REQUIRED = ("path", "label")


class ImageCsv(ImageReader):
    """Columns path (relative to the CSV), label, perhaps split, and every further column a group.
    Paths never leave the CSV's folder. Any column with 2 to 64 values may be the target instead
    of label."""

    name = "a CSV with the columns path, label and groups (or its folder)"
    general = True

    def recognises(self, source: str, path: Path) -> bool:
        return _csv_of(path) is not None

    def look(self, source: str, path: Path) -> ImageInfo:
        file = _csv_of(path) or path
        csv = _table(file)
        spelled = {
            name: csv.spelled(name) for name in csv.cells.columns if name not in ("path", "split")
        }
        values = {name: set(column) - {""} for name, (column, _) in spelled.items()}
        counts = {name: len(found) for name, found in values.items()}
        targets = tuple(dict.fromkeys(["label", *usable(counts)]))
        groups = tuple(name for name in usable(counts) if name != "label")
        classes = in_order(values["label"])
        default = groups[:1] or (CLASS,)
        said = [note for name in targets for note in spelled[name][1]]
        return ImageInfo(
            _name(file),
            "image files",
            targets,
            (*groups, CLASS),
            "label",
            default,
            PHOTO_SIZES,
            len(csv.cells),
            64,
            classes,
            note=" ".join(filter(None, (left_out(counts), *csv.notes, *said))),
        )

    def read(self, source: str, path: Path, wanted: Wanted) -> Listing:
        file = _csv_of(path) or path
        csv = _table(file)
        target, notes = csv.spelled(wanted.target)
        table = pd.DataFrame({"image_id": csv.cells["path"], "target": target})
        table["split"] = _splits(file, csv.cells)
        notes = (*notes, *csv.add_groups(table, wanted.columns, (CLASS,)))
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
        if faults := regression_faults(f"{file.name}, column {wanted.target}", classes):
            raise RequestError(faults)
        return Listing(_name(file), table, pixels, classes, (*csv.notes, *notes))


def _csv_of(path: Path) -> Path | None:
    """The CSV itself, or the only one in a folder."""
    if path.suffix.lower() == ".csv" and path.is_file():
        return path
    files = visible(path, "*.csv") if path.is_dir() else []
    return files[0] if len(files) == 1 else None


def _name(file: Path) -> str:
    return (
        file.stem
        if file.stem not in ("labels", "data", "index", "metadata", "images")
        else file.parent.name
    )


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


def _splits(file: Path, table: pd.DataFrame) -> list[str]:
    """Split of every row in the words of SPLITS, "" for all where there is no such column. Raises
    RequestError."""
    if "split" not in table.columns:
        return [""] * len(table)
    given = table["split"].str.lower()
    if odd := sorted(set(given) - set(WORDS)):
        what = f"Splits that are not known: {listed([repr(name) for name in odd])}."
        raise refusal(f"{file.name}, column split", what, f"Known: {', '.join(sorted(WORDS))}.")
    return [WORDS[name] for name in given]


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

    def recognises(self, source: str, path: Path) -> bool:
        return _hashes_csv_of(path) is not None

    def look(self, source: str, path: Path) -> ImageInfo:
        file = _hashes_csv_of(path) or path
        csv = csv_table(file)
        table = csv.cells
        scale = _scale(file, table)
        targets = tuple(name for name in TARGETS if name in table.columns)
        if not targets:
            need_columns(file, table, TARGETS[:1])
        spelled, said = csv.spelled(targets[0])
        classes = tuple(sorted(set(spelled) - {""}))
        groups = ("skin", scale, CLASS)
        return ImageInfo(
            "Fitzpatrick17k",
            "image files",
            targets,
            groups,
            targets[0],
            ("skin",),
            PHOTO_SIZES,
            len(table),
            128,
            classes,
            note=" ".join((*csv.notes, *said)),
        )

    def read(self, source: str, path: Path, wanted: Wanted) -> Listing:
        file = _hashes_csv_of(path) or path
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
        table.loc[held, "split"] = deal(
            table.loc[held].reset_index(drop=True), VALIDATION, "test", wanted.seed
        )
        folder = _images(file, list(table["image_id"]))
        pixels = FilePixels.below(folder, [f"{name}.jpg" for name in table["image_id"]])
        keep = ["image_id", "target", "split", *(name for name in wanted.columns if name != CLASS)]
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


def _hashes_csv_of(path: Path) -> Path | None:
    """The CSV, given itself or its folder, whose header names md5hash."""
    if path.is_dir():
        files = visible(path, "*.csv")[:20]
    else:
        files = [path] if path.suffix.lower() == ".csv" and path.is_file() else []
    for file in files:
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
