"""Any images with a CSV: columns path (relative to the CSV), label, perhaps split, and every
further column a group."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.data.group_columns import left_out, usable
from engine.data.images.readers.base import (
    CLASS,
    PHOTO_SIZES,
    ImageInfo,
    ImageReader,
    Listing,
    Wanted,
)
from engine.data.images.readers.pixels import FilePixels, listed, visible
from engine.data.spellings import regression_faults
from engine.data.splits import WORDS
from engine.data.tables import CsvTable, csv_table, in_order, need_columns

REQUIRED = ("path", "label")


class ImageCsv(ImageReader):
    """Paths never leave the CSV's folder. Any column with 2 to 64 values may be the target instead
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
        for column in wanted.columns:
            if column != CLASS:
                table[column], more = csv.spelled(column)
                notes = (*notes, *more)
        if blank := int((table["target"] == "").sum()):
            notes = (*notes, f"{blank} rows have no {wanted.target} and were left out.")
        table = table[table["target"] != ""].drop_duplicates().reset_index(drop=True)
        if len(again := table.loc[table["image_id"].duplicated(), "image_id"]):
            what = (
                f"{len(again)} paths have rows that contradict each other: {listed(list(again))}."
            )
            raise RequestError(Fault(file.name, what, "Give one row per image."))
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
        raise RequestError(Fault(file.name, what, "Call them something else."))
    if len(rows := table.index[table["path"] == ""]):
        raise RequestError(
            Fault(
                f"{file.name}, row {rows[0] + 1}", f"{len(rows)} rows name no path.", "Fill them."
            )
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
        raise RequestError(
            Fault(f"{file.name}, column split", what, f"Known: {', '.join(sorted(WORDS))}.")
        )
    return [WORDS[name] for name in given]
