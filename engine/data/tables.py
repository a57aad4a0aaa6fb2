"""What comes with images, texts, prompts and benchmarks: text files, tables and JSON, read with
limits and plain errors.

One value has one spelling: what tables write for the same class or group in several ways is read as
one, and said.
"""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.errors import Fault, refusal, refuse
from engine.core.types import Values
from engine.data.sources import CLASS, WORDS

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

    def splits(self, faults: RowFaults) -> list[str]:
        """Split of every row in the words of SPLITS, "" for all where the file names none; what is
        no split is added to the faults."""
        if "split" not in self.cells or (self.cells["split"] == "").all():
            return [""] * len(self.cells)
        given = [value.lower() for value in self.cells["split"]]
        for row, value in enumerate(given, start=1):
            if value not in WORDS:
                known = ", ".join(sorted(WORDS))
                faults.add(row, f"split is {value[:40]!r}, which is not known.", f"Known: {known}.")
        return [WORDS.get(value, "") for value in given]

    def add_groups(
        self, table: pd.DataFrame, columns: Iterable[str], own: Collection[str]
    ) -> list[str]:
        """Put group columns, spelled, into `table` in place, but those of its `own`; notes."""
        notes = list[str]()
        for column in columns:
            if column not in own:
                table[column], more = self.spelled(column)
                notes += more
        return notes


def preview(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """The first rows of a CSV, and what is said of it, unescaped: how many rows there are, and how
    often each value stands in columns of few. RequestError.

    Few: at most 24 values, of which some stand there more than once.
    """
    cells = csv_table(path).cells
    said = [f"Rows: {len(cells):,}."]
    for name in cells.columns:
        counts = cells[name].value_counts()
        if len(counts) < min(25, len(cells)):
            listed = (f"{value or 'empty'} {n:,}" for value, n in counts.items())
            said.append(f"{name}: {', '.join(listed)}")
    return cells.head(), said


class RowFaults(list[Fault]):
    """What is wrong with the rows of one file. Rows are counted from 1 and leave out the header."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self.file = file

    def add(self, row: int, what: str, fix: str) -> None:
        """One more faulty row."""
        self.append(Fault(f"{self.file}, row {row}", what, fix))

    def all(self) -> list[Fault]:
        """The faults that are named; where there are more, one says how many."""
        return few(self, self.file)


def few(faults: list[Fault], file: str) -> list[Fault]:
    """The first MOST_FAULTS of a file's faults, and how many more there are."""
    if (left := len(faults) - MOST_FAULTS) <= 0:
        return faults
    more = Fault(file, f"{left} more faults in its rows.", "Mend those above and try again.")
    return [*faults[:MOST_FAULTS], more]


def text_of(path: Path, head: bool = False) -> str:
    """The text of a file in UTF-8, or in UTF-16 with a mark; head: only its first part, whole
    lines. RequestError."""
    if not path.is_file():
        raise refusal(
            str(path), "There is no such file.", "Check the path; see README for the layout."
        )
    if (size := path.stat().st_size) > MAX_FILE:
        what = f"The file has {size / 2**20:.0f} MB."
        raise refusal(path.name, what, f"At most {MAX_FILE // 2**20} MB are read.")
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
        raise refusal(path.name, what, "Check that it is the right file.")
    if not text.strip():
        raise refusal(path.name, "The file is empty.", "Check that it is the right file.")
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
        raise refusal(where, what, fix) from error


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
        if len(names) < 2 and faults
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
    refuse(found)
    cells = pd.DataFrame(rows, columns=names, dtype=str)
    cells = cells.apply(lambda column: column if column.name == whole else column.str.strip())
    unusual = f"{path.name} has {DELIMITERS[delimiter]} between its cells, and was read so."
    return CsvTable(cells, delimiter, () if delimiter == usual else (unusual,))


def tab_rows(
    path: Path, needed: Sequence[str], faults: RowFaults, fix: str, header: Sequence[str] = ()
) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of a table without quotation, whose cells end at tabs and rows at line feeds, one by one
    with their numbers. Of each, the cells of the columns `needed`, stripped, by name.

    A row of another width adds a fault, mended by `fix`. header: the names where the file has none.
    RequestError where a column is missing or there twice.
    """
    lines = text_of(path).rstrip("\r\n").split("\n")
    names = list(header) or [name.strip() for name in lines.pop(0).split("\t")]
    if absent := [name for name in needed if names.count(name) != 1]:
        what = f"Columns missing, or there twice: {', '.join(absent)}."
        found = ", ".join(name[:40] for name in names[:40])
        raise refusal(path.name, what, f"Found: {found}. Needed: {', '.join(needed)}.")
    places = {name: names.index(name) for name in needed}
    for number, line in enumerate(lines, 1):
        cells = line.split("\t")
        if len(cells) == len(names):
            yield number, {name: cells[at].strip() for name, at in places.items()}
        else:
            faults.add(number, f"It has {len(cells)} fields where {len(names)} are needed.", fix)


_Parsed = tuple[str, list[str], list[list[str]], RowFaults]


def _parsed(file: str, text: str, usual: str) -> _Parsed:
    """Delimiter, header, rows, faulty rows: by the first delimiter without any, else by that with
    most columns."""
    tried = []
    for delimiter in dict.fromkeys((usual, *DELIMITERS)):
        tried.append(_by(delimiter, file, text))
        if len(tried[-1][1]) > 1 and not tried[-1][3]:
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
        raise refusal(path.name, what, f"Found: {found}. Needed: {', '.join(needed)}.")


def in_order(values: Iterable[str]) -> tuple[str, ...]:
    """Names of classes in order: whole numbers by size, everything else by letters."""
    found = set(values)
    if all(_WHOLE.fullmatch(value) for value in found):
        return tuple(sorted(found, key=lambda value: (int(value), value)))
    return tuple(sorted(found))


def read_json(path: Path) -> Values:
    """The object of a JSON file. Raises RequestError where there is none."""
    text, fix = text_of(path), "Give a JSON object with entries, as in the published file."
    try:
        content = json.loads(text)
        json.dumps(content, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise refusal(path.name, "Some text holds half a character.", fix) from error
    # ValueError: no JSON, or a number of thousands of digits.
    except (ValueError, RecursionError) as error:
        raise refusal(path.name, f"Not JSON ({str(error)[:200]}).", fix) from error
    if not isinstance(content, dict) or not content:
        raise refusal(path.name, "It holds no JSON object with entries.", fix)
    return content


def read_json_lines(path: Path) -> tuple[list[tuple[int, dict[str, Any]]], RowFaults]:
    """Objects with the number of their line, from 1, and a fault for each line that is none. Raises
    RequestError where the file cannot be read at all."""
    found, faults = [], RowFaults(path.name)
    for number, line in enumerate(text_of(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except (ValueError, RecursionError) as error:
            faults.add(number, f"Not JSON ({str(error)[:120]}).", "One object a line.")
            continue
        if isinstance(value, dict):
            found.append((number, value))
        else:
            faults.add(number, "Not a JSON object.", "One object a line.")
    return found, faults


MISSING = ("nan", "NaN", "NAN", "<NA>", "null", "NULL", "#N/A")
"""What pandas and spreadsheets write into a cell that has no value."""
DOUBTFUL = ("none", "na", "n/a", "n.a.", "-", "?", "unknown")
"""Words, in small letters, that are a value or mean that there is none: nobody but their writer
knows."""
MOST_REAL = 10
"""More different numbers than this, some of them not whole, are measurements and no classes."""
MOST_SAID = 8
"""Values of one column that are named in its notes."""
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2})?")
_DIGITS = 25
"""Characters of a number; decimal arithmetic keeps 28 digits."""
_UNSEEN = dict.fromkeys(map(ord, "\u200b\ufeff\u00ad"))
"""Blanks without a width and hyphens that do not show."""


Spellings = Mapping[Decimal | str, Mapping[str, int]]
"""What stands for a value, and its spellings with how often each stands there."""


def one_spelling(
    values: pd.Series, column: str, decimal: str = ".", missing: Collection[str] = MISSING
) -> tuple[pd.Series, tuple[str, ...]]:
    """A column of classes or groups, [rows] str, with each value in one spelling, and notes that
    count what was joined.

    Equal numbers are one, written the shortest way. What differs by capitals, blanks or Unicode
    form is one, in its most frequent spelling. What is written for a `missing` value is "".
    decimal: "," where numbers may have decimal commas. Values without a second spelling stay as
    they are.
    """
    counts = Counter(values.tolist())
    gone = {value: n for value, n in counts.items() if value in missing}
    kinds: dict[Decimal | str, dict[str, int]] = defaultdict(dict)
    for value in sorted(set(counts) - set(gone) - {""}):
        kinds[_key(value, decimal)][value] = counts[value]
    names = _names(kinds)
    new = {value: names[key] for key, kind in kinds.items() for value in kind} | dict.fromkeys(
        gone, ""
    )
    notes = [f"{column}: {_counted(gone)} {_are(gone)} read as missing."] if gone else []
    notes += _joined(kinds, names, column)
    said = {names[key]: sum(kinds[key].values()) for key in DOUBTFUL if key in kinds}
    if said:
        notes.append(f"{column}: {_counted(said)} {_are(said)} read as a value, not as missing.")
    if any(value != name for value, name in new.items()):
        values = values.map(lambda value: new.get(value, value))
    return values, tuple(notes)


def regression_faults(where: str, classes: Collection[str]) -> list[Fault]:
    """A fault where `classes` are measurements: many numbers, some of them not whole."""
    # Of points or commas: it is only said.
    numbers = [number for value in classes if (number := _number(value, ",")) is not None]
    if (
        len(numbers) <= MOST_REAL
        or len(numbers) < len(classes)
        or all(number == int(number) for number in numbers)
    ):
        return []
    what = (
        f"It holds {len(numbers):,} different numbers: a regression, and PruneAudit audits"
        " classifiers."
    )
    return [Fault(where, what, "Put the numbers into classes yourself, such as low and high.")]


def _key(value: str, decimal: str) -> Decimal | str:
    """What two spellings of one value have in common."""
    number = _number(value, decimal)
    if number is not None:
        return number
    plain = unicodedata.normalize("NFC", value.translate(_UNSEEN)).casefold()
    return unicodedata.normalize("NFC", " ".join(plain.split()))


def _number(value: str, decimal: str) -> Decimal | None:
    point = value.replace(decimal, ".")
    return Decimal(point) if len(point) <= _DIGITS and _NUMBER.fullmatch(point) else None


def _names(kinds: Spellings) -> dict[Decimal | str, str]:
    """The spelling of every value: numbers all the shortest way where any of them has two, or is
    whole with a point."""
    numbers = {key: kind for key, kind in kinds.items() if isinstance(key, Decimal)}
    again = any(len(kind) > 1 or "," in "".join(kind) for kind in numbers.values())
    again |= all(key == int(key) for key in numbers) and any(
        "." in "".join(kind) for kind in numbers.values()
    )

    def name(key: Decimal | str, kind: Mapping[str, int]) -> str:
        if again and isinstance(key, Decimal):
            return f"{key.normalize() + 0:f}"
        often = max(kind, key=lambda one: kind[one])
        return often if len(kind) == 1 else " ".join(often.split())

    return {key: name(key, kind) for key, kind in kinds.items()}


def _joined(kinds: Spellings, names: Mapping[Decimal | str, str], column: str) -> list[str]:
    """A sentence on each value that had several spellings, and one on numbers that are written
    another way now."""
    several = {names[key]: kind for key, kind in kinds.items() if len(kind) > 1}
    notes = [
        f"{column}: {_counted(kind)} are read as one: “{name}”." for name, kind in several.items()
    ]
    if len(notes) > MOST_SAID:
        notes = [
            *notes[:MOST_SAID],
            f"{column}: {len(notes) - MOST_SAID} more values had several spellings.",
        ]
    alone = {next(iter(kind)): names[key] for key, kind in kinds.items() if len(kind) == 1}
    if respelled := [f"“{value}” as “{name}”" for value, name in alone.items() if value != name]:
        more = f" and {len(respelled) - 2} more" if len(respelled) > 2 else ""
        notes.append(
            f"{column}: numbers are written the shortest way, {', '.join(respelled[:2])}{more}."
        )
    return notes


def _counted(kind: Mapping[str, int]) -> str:
    """Spellings with how often each stands there, the most frequent first."""
    ordered = sorted(kind, key=lambda one: (-kind[one], one))
    named = [f"“{value[:60]}” ({kind[value]:,})" for value in ordered]
    return " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))


def _are(kind: Mapping[str, int]) -> str:
    return "is" if len(kind) == 1 else "are"
