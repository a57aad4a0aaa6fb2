"""Text files and CSV tables that come with images and texts, read with limits and plain errors."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from engine.core.errors import Fault, RequestError

MAX_FILE = 256 * 2**20
"""Bytes in one table; CelebA's attributes take 26 MB."""
HEAD = 2**20
"""Bytes in which a header must end."""
MAX_COLUMNS = 5_000
"""Columns of one table; every further one costs memory and time beyond its bytes."""
_WHOLE = re.compile(r"-?[0-9]{1,18}")


def text_of(path: Path, head: bool = False) -> str:
    """A UTF-8 file's text (head: only its first part, whole lines). Raises RequestError where that cannot be had."""
    if not path.is_file():
        raise RequestError(Fault(str(path), "There is no such file.", "Check the path; see README for the layout."))
    if (size := path.stat().st_size) > MAX_FILE:
        what = f"The file has {size / 2**20:.0f} MB."
        raise RequestError(Fault(path.name, what, f"At most {MAX_FILE // 2**20} MB are read."))
    with path.open("rb") as file:
        content = file.read(HEAD) if head else file.read()
    if head and size > HEAD:
        content = content[: content.rfind(b"\n") + 1]
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        what = f"Not UTF-8 text (byte {error.start}, line {content.count(10, 0, error.start) + 1})."
        raise RequestError(Fault(path.name, what, "Save it as UTF-8.")) from error
    if not text.strip() or "\0" in text:
        what = "The file is empty." if not text.strip() else "The file is not text."
        raise RequestError(Fault(path.name, what, "Check that it is the right file."))
    return text


def csv_table(path: Path, head: bool = False) -> pd.DataFrame:
    """A CSV as text columns, names and cells stripped; head: some first rows. Raises RequestError."""
    text = text_of(path, head)
    _check_header(path, text)
    try:
        raw = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False, index_col=False, engine="c")
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError) as error:
        what = f"Not a CSV table ({str(error).strip()[:200]})."
        raise RequestError(Fault(path.name, what, "Check its quotation.")) from error
    raw.columns = [str(name).strip() for name in raw.columns]
    if not len(raw):
        raise RequestError(
            Fault(path.name, "The table has no rows.", "Give at least one row below the names of the columns.")
        )
    return raw.apply(lambda column: column.fillna("").str.strip())


def _check_header(path: Path, text: str) -> None:
    """RequestError where the names of columns cannot be read, are too many, or stand there twice."""
    try:
        names = [name.strip() for name in next(csv.reader(io.StringIO(text, newline=None)), [])]
    except csv.Error as error:
        raise RequestError(Fault(path.name, f"Not a CSV table ({error}).", "Check its quotation.")) from error
    if len(names) > MAX_COLUMNS:
        what = f"The table has {len(names):,} columns."
        raise RequestError(Fault(path.name, what, f"At most {MAX_COLUMNS:,} are read."))
    if repeated := sorted(name for name, times in Counter(names).items() if times > 1):
        what = f"Columns named twice: {', '.join(name[:40] for name in repeated[:40])}."
        raise RequestError(Fault(path.name, what, "Name every column once."))


def need_columns(path: Path, table: pd.DataFrame, needed: Sequence[str]) -> None:
    """RequestError where the table lacks one of the columns `needed`, naming the absent ones and those there are."""
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
