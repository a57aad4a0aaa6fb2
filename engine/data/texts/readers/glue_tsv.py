"""A folder of one GLUE task, named after it: train.tsv and dev.tsv (MNLI: dev_matched.tsv) as GLUE
hands them out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.data.splits import CLASS
from engine.data.tables import RowFaults, text_of
from engine.data.texts.readers.base import LENGTH, Listing, TextInfo, TextReader, Wanted
from engine.data.texts.readers.glue_tasks import (
    DEV_IS_TEST,
    GLUE_TASKS,
    REGRESSION,
    GlueTask,
    key_of_name,
    left_out,
    task_of,
)

FEWER = "Fetch the file again: it must be as GLUE hands it out, without quotation."


class GlueTsv(TextReader):
    """Fields end at tabs and rows at line feeds; quotation marks are part of the text."""

    name = (
        "a GLUE task's folder with train.tsv and dev.tsv"
        f" ({', '.join(task.name for task in GLUE_TASKS.values())})"
    )

    def recognises(self, source: str, path: Path) -> bool:
        return path.is_dir() and key_of_name(path.resolve().name) in (*GLUE_TASKS, REGRESSION)

    def look(self, source: str, path: Path) -> TextInfo:
        task = _task(path)
        n = sum(_rows(file) - (not task.header) for file in _files(path, task).values())
        return task.info(n, _groups(task), DEV_IS_TEST)

    def read(self, source: str, path: Path, wanted: Wanted) -> Listing:
        task = _task(path)
        columns = _columns(task, [group for group in wanted.groups if group not in (LENGTH, CLASS)])
        parts, faults, notes = [], list[Fault](), [DEV_IS_TEST]
        for split, file in _files(path, task).items():
            try:
                part, broken = _table(file, task, columns)
            except RequestError as error:
                faults += error.faults
                continue
            if broken:
                notes.append(left_out(broken, file.name))
            parts.append(part.assign(split=split))
        if faults:
            raise RequestError(faults)
        return Listing(
            task.name, pd.concat(parts, ignore_index=True), task.classes, task.metric, tuple(notes)
        )


def _task(path: Path) -> GlueTask:
    return task_of(path.resolve().name)


def _groups(task: GlueTask) -> tuple[str, ...]:
    return (task.group,) if task.group else ()


def _files(path: Path, task: GlueTask) -> dict[str, Path]:
    """The file of each split. Raises RequestError naming all that are absent."""
    files = {"train": path / "train.tsv", "test": path / f"{task.dev}.tsv"}
    fix = f"{task.name} needs {' and '.join(file.name for file in files.values())}."
    absent = [
        Fault(str(file), "There is no such file.", fix)
        for file in files.values()
        if not file.is_file()
    ]
    if absent:
        raise RequestError(absent)
    return files


def _rows(file: Path) -> int:
    """Lines of a file, the last one with or without its line feed."""
    count, last = 0, b"\n"
    with file.open("rb") as open_file:
        while block := open_file.read(2**20):
            count, last = count + block.count(b"\n"), block[-1:]
    return count + (last != b"\n")


def _columns(task: GlueTask, groups: list[str]) -> dict[str, str]:
    """Name of every column that is read, as in `Listing` -> as in the file."""
    second = {"text_b": task.texts[1]} if len(task.texts) > 1 else {}
    return {
        "text": task.texts[0],
        **second,
        "label": task.label,
        **{group: group for group in groups},
    }


def _table(file: Path, task: GlueTask, columns: Mapping[str, str]) -> tuple[pd.DataFrame, int]:
    """The wanted columns of one file, and how many damaged rows were left out. Raises RequestError
    with all faults.

    columns: as from `_columns`; the rows have these and text_b.
    """
    lines = [line.removesuffix("\r") for line in text_of(file).split("\n")]
    while not lines[-1]:
        lines.pop()
    header = list(task.header) or [name.strip() for name in lines.pop(0).split("\t")]
    absent = [name for name in columns.values() if header.count(name) != 1]
    if absent:
        what = f"Columns missing, or there twice: {', '.join(absent)}."
        found = ", ".join(name[:40] for name in header[:40])
        raise RequestError(
            Fault(file.name, what, f"Found: {found}. Needed: {', '.join(columns.values())}.")
        )
    places = {ours: header.index(name) for ours, name in columns.items()}
    faults, rows = RowFaults(file.name), []
    for number, line in enumerate(lines, start=1):
        fields = line.split("\t")
        row = (
            {ours: fields[place].strip() for ours, place in places.items()}
            if len(fields) == len(header)
            else {}
        )
        if wrong := _wrong(fields, len(header), row, columns, task):
            faults.add(number, *wrong)
        else:
            rows.append({**row, "label": task.labels[row["label"]]})
    if faults.n > task.broken:
        raise RequestError(faults.all())
    if not rows:
        raise RequestError(Fault(file.name, "The table has no rows.", FEWER))
    return pd.DataFrame(rows).assign(**({} if "text_b" in columns else {"text_b": ""})), faults.n


def _wrong(
    fields: list[str],
    width: int,
    row: Mapping[str, str],
    columns: Mapping[str, str],
    task: GlueTask,
) -> tuple[str, str] | None:
    """What is wrong with a row and what to do about it; None for a good one."""
    if len(fields) != width:
        return f"It has {len(fields)} fields where {width} are needed.", FEWER
    if blank := [
        name for ours, name in columns.items() if ours in ("text", "text_b") and not row[ours]
    ]:
        return f"{' and '.join(blank)}: the text is empty.", "Fill it, or leave the row out."
    if row["label"] not in task.labels:
        what = f"{columns['label']} is {row['label'][:40]!r}, not a label of {task.name}."
        return what, f"Known: {', '.join(task.labels)}."
    return None
