"""Text files and CSV tables that come with images and texts, read with limits and plain errors."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.data.spellings import one_spelling
from engine.data.splits import CLASS

MAX_FILE = 256 * 2**20
"""Bytes in one table; CelebA's attributes take 26 MB."""
HEAD = 2**20
"""Bytes in which a header must end."""
MAX_COLUMNS = 5_000
"""Columns of one table; every further one costs memory and time beyond its bytes."""
MOST_VALUES = 1_000
"""Columns of more different values are texts or names and no classes, however they are spelled."""
MOST_FAULTS = 20
"""Faulty rows that are named one by one."""
USUAL = {".csv": ",", ".tsv": "\t"}
"""What stands between cells, by a file's ending."""
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "upright strokes"}
csv.field_size_limit(MAX_FILE)  # a cell may be a long document; without this the limit is 131,072
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_EXCEL = re.compile(r"\Asep=.\r?\n")
"""A first line with which spreadsheets are told the delimiter."""


@dataclass(frozen=True, eq=False)
class CsvTable:
    """A CSV: `cells`, all str, with names stripped; how it was written. Rows are counted from 1,
    without the header."""

    cells: pd.DataFrame
    delimiter: str = ","
    notes: tuple[str, ...] = ()

    def spelled(self, column: str) -> tuple[pd.Series, tuple[str, ...]]:
        """A column of classes or groups with each value in one spelling, [rows] str, "" where
        missing; and notes.

        column: its name, capitals do not count. Only where semicolons part cells may numbers have
        decimal commas.
        """
        found = self.cells[column_of(column, self.cells.columns)]
        if found.nunique() > MOST_VALUES:
            return found, ()
        return one_spelling(found, column, "," if self.delimiter == ";" else ".")


@dataclass
class RowFaults:
    """Collects what is wrong with the rows of one file; names the first MOST_FAULTS and counts the
    others.

    Rows are counted from 1 and leave out the header.
    """

    file: str
    named: list[Fault] = field(default_factory=list)
    n: int = 0

    def add(self, row: int, what: str, fix: str) -> None:
        """Count a faulty row, and name it while there are few."""
        self.n += 1
        if self.n <= MOST_FAULTS:
            self.named.append(Fault(f"{self.file}, row {row}", what, fix))

    def all(self) -> list[Fault]:
        """The faults; where there are more than are named, one says how many."""
        if self.n <= MOST_FAULTS:
            return self.named
        more = Fault(
            self.file,
            f"{self.n - MOST_FAULTS} more faults in its rows.",
            "Mend those above and try again.",
        )
        return [*self.named, more]


def text_of(path: Path, head: bool = False) -> str:
    """The text of a file in UTF-8, or in UTF-16 with a mark; head: only its first part, whole
    lines. RequestError."""
    if not path.is_file():
        raise RequestError(
            Fault(str(path), "There is no such file.", "Check the path; see README for the layout.")
        )
    if (size := path.stat().st_size) > MAX_FILE:
        what = f"The file has {size / 2**20:.0f} MB."
        raise RequestError(Fault(path.name, what, f"At most {MAX_FILE // 2**20} MB are read."))
    with path.open("rb") as file:
        content = file.read(HEAD) if head else file.read()
    if head and size > HEAD:
        content = content[: content.rfind(b"\n") + 1]
    text = decoded(content, path.name)
    if "\0" in text:
        what = (
            "The file is not text (a zero byte in line"
            f" {text.count(chr(10), 0, text.index(chr(0))) + 1})."
        )
        raise RequestError(Fault(path.name, what, "Check that it is the right file."))
    if not text.strip():
        raise RequestError(
            Fault(path.name, "The file is empty.", "Check that it is the right file.")
        )
    return text


def decoded(content: bytes, where: str) -> str:
    """Bytes as text, without the mark at their start. RequestError names the first byte that is no
    text."""
    try:
        return content.decode(
            "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
        )
    except UnicodeDecodeError as error:
        what = f"Not UTF-8 text (byte {error.start}, line {content.count(10, 0, error.start) + 1})."
        fix = (
            "Save it as UTF-8. Spreadsheets call that “CSV UTF-8”; their plain CSV is in an older"
            " coding."
        )
        raise RequestError(Fault(where, what, fix)) from error


def csv_table(path: Path, own: Sequence[str] = (), whole: str = "") -> CsvTable:
    """A CSV by its own dialect, cells stripped but those of the column `whole`. RequestError with
    every fault.

    The delimiter is the one with which all rows are as wide as the header; the usual one of the
    file's ending is tried first. own: names of columns, in small letters, in which capitals do not
    count. A column without a name is called after its place.
    """
    usual = USUAL.get(path.suffix.lower(), ",")
    delimiter, names, rows, faults = _parsed(path.name, _EXCEL.sub("", text_of(path)), usual)
    names = [
        name.lower() if name.lower() in own else name or f"column {at}"
        for at, name in enumerate(names, 1)
    ]
    found = (
        faults.all()
        if len(names) < 2 and faults.n
        else [*_header_faults(path.name, names, own), *faults.all()]
    )
    if not rows and not found:
        found.append(
            Fault(
                path.name,
                "The table has no rows.",
                "Give at least one row below the names of columns.",
            )
        )
    if found:
        raise RequestError(found)
    cells = pd.DataFrame(rows, columns=names, dtype=str)
    cells = cells.apply(lambda column: column if column.name == whole else column.str.strip())
    unusual = f"{path.name} has {DELIMITERS[delimiter]} between its cells, and was read so."
    return CsvTable(cells, delimiter, () if delimiter == usual else (unusual,))


_Parsed = tuple[str, list[str], list[list[str]], RowFaults]


def _parsed(file: str, text: str, usual: str) -> _Parsed:
    """Delimiter, header, rows, faulty rows: by the first delimiter without any, else by that with
    most columns."""
    tried = []
    for delimiter in dict.fromkeys((usual, *DELIMITERS)):
        tried.append(_by(delimiter, file, text))
        if len(tried[-1][1]) > 1 and not tried[-1][3].n:
            return tried[-1]
    return max(tried, key=lambda one: len(one[1]))


def _by(delimiter: str, file: str, text: str) -> _Parsed:
    """The same by one delimiter; a header of one column, or of too many, has no rows."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    faults, rows, names = RowFaults(file), [], []
    try:
        names = [name.strip() for name in next((row for row in reader if row), [])]
        for row in reader if 1 < len(names) <= MAX_COLUMNS else ():
            if row:
                rows.append(row)
                if len(row) != len(names):
                    what = f"It has {len(row)} fields where the header has {len(names)}."
                    faults.add(
                        len(rows),
                        what,
                        f"Quote cells that hold the delimiter (line {reader.line_num}).",
                    )
    except csv.Error as error:
        what = f"Its quotation is broken ({error})."
        fix = (
            "Quote whole cells and double the quotation marks in them (up to line"
            f" {reader.line_num})."
        )
        faults.add(len(rows) + 1, what, fix)
    return delimiter, names, rows, faults


def _header_faults(file: str, names: Sequence[str], own: Sequence[str]) -> list[Fault]:
    """Names of columns that are too few, too many, or stand there twice."""
    if len(names) > MAX_COLUMNS:
        return [
            Fault(
                file, f"The table has {len(names):,} columns.", f"At most {MAX_COLUMNS:,} are read."
            )
        ]
    if len(names) < 2:
        fix = f"Between cells stand {', '.join(DELIMITERS.values())}."
        return [Fault(file, "It has fewer than two columns.", fix)]
    if not (repeated := sorted({name for name in names if names.count(name) > 1})):
        return []
    fix = (
        f"Name every column once; capitals do not count in {', '.join(own)}."
        if own
        else "Name every column once."
    )
    return [
        Fault(file, f"Columns named twice: {', '.join(name[:40] for name in repeated[:40])}.", fix)
    ]


def column_of(name: str, columns: Iterable[str]) -> str:
    """The column that is meant by a name: the one so called, else the only one but for capitals,
    else the name."""
    found = list(columns)
    alike = [one for one in found if one.casefold() == name.casefold()]
    return alike[0] if name not in found and len(alike) == 1 else name


def axes_of(axes: Iterable[str], columns: Iterable[str]) -> tuple[str, ...]:
    """Axes by the columns' own names, each once; draws are seeded by them. "a+b" is a and b, CLASS
    no column."""
    known = dict.fromkeys(columns)

    def own(axis: str) -> str:
        parts = [axis] if axis in known else [part.strip() for part in axis.split("+")]
        return "+".join(part if part == CLASS else column_of(part, known) for part in parts)

    return tuple(dict.fromkeys(map(own, axes)))


def need_columns(path: Path, table: pd.DataFrame, needed: Sequence[str]) -> None:
    """RequestError where the table lacks one of the columns `needed`, naming the absent ones and
    those there are."""
    if absent := [name for name in needed if name not in table.columns]:
        found = ", ".join(str(name)[:40] for name in table.columns[:40])
        what = f"Columns missing: {', '.join(absent)}."
        raise RequestError(Fault(path.name, what, f"Found: {found}. Needed: {', '.join(needed)}."))


def in_order(values: Iterable[str]) -> tuple[str, ...]:
    """Names of classes in order: whole numbers by size, everything else by letters."""
    found = set(values)
    if all(_WHOLE.fullmatch(value) for value in found):
        return tuple(sorted(found, key=lambda value: (int(value), value)))
    return tuple(sorted(found))
