"""GLUE tasks from the hub ("glue:rte"): the parquet files of nyu-mll/glue, downloaded once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.data.tables import RowFaults
from engine.data.texts.readers.base import Listing, TextInfo, TextReader, Wanted
from engine.data.texts.readers.glue_tasks import DEV_IS_TEST, GlueTask, left_out, task_of

REPOSITORY = "nyu-mll/glue"
PREFIX = "glue:"


class GlueHub(TextReader):
    """The hub's files have no sources (CoLA) and no genres (MNLI): the groups are length and
    class."""

    name = f"a GLUE task from the hub, such as {PREFIX}rte"

    def recognises(self, source: str, path: Path) -> bool:
        return source.strip().casefold().startswith(PREFIX)

    def look(self, source: str, path: Path) -> TextInfo:
        task = _task(source)
        return task.info(
            task.n, (), f"{DEV_IS_TEST} Downloaded from the hub ({REPOSITORY}) on first use."
        )

    def read(self, source: str, path: Path, wanted: Wanted) -> Listing:
        task = _task(source)
        files = {"train": _fetched(task, "train"), "test": _fetched(task, task.hub_dev)}
        parts, faults, notes = [], list[Fault](), [DEV_IS_TEST, f"From the hub: {REPOSITORY}."]
        for split, file in files.items():
            try:
                part, broken = _table(file, f"{task.key}/{file.name}", task)
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


def _task(source: str) -> GlueTask:
    return task_of(source.strip()[len(PREFIX) :])


def _fetched(task: GlueTask, split: str) -> Path:
    """One of the hub's files: as downloaded before, else downloaded. Raises RequestError where
    there is neither."""
    from huggingface_hub import hf_hub_download

    name = f"{task.key}/{split}-00000-of-00001.parquet"
    try:
        return Path(hf_hub_download(REPOSITORY, name, repo_type="dataset", local_files_only=True))
    except OSError:
        pass  # not there yet
    try:
        return Path(hf_hub_download(REPOSITORY, name, repo_type="dataset"))
    except Exception as error:  # the hub's client lets errors of several network libraries through
        what = (
            f"{name} was not downloaded before, and the hub does not hand it out now"
            f" ({type(error).__name__})."
        )
        fix = f"Check the network, or give a folder {task.name} with train.tsv and {task.dev}.tsv."
        raise RequestError(Fault(f"data {PREFIX}{task.key}", what, fix)) from error


def _table(file: Path, name: str, task: GlueTask) -> tuple[pd.DataFrame, int]:
    """One file's rows, columns label, text, text_b, and how many damaged ones were left out.
    RequestError."""
    import pyarrow
    import pyarrow.parquet

    columns = _columns(task)
    try:
        schema = pyarrow.parquet.read_schema(file)
        if absent := [column for column in columns if column not in schema.names]:
            what = f"Columns missing: {', '.join(absent)}."
            raise RequestError(Fault(name, what, f"Found: {', '.join(schema.names[:40])}."))
        if not pyarrow.types.is_integer(schema.field("label").type):
            raise RequestError(
                Fault(name, "Its labels are not whole numbers.", f"Delete {file} and try again.")
            )
        raw = pyarrow.parquet.read_table(file, columns=columns).to_pydict()
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        what = f"It is not a parquet file, or is damaged ({type(error).__name__})."
        raise RequestError(
            Fault(name, what, f"Delete {file}, so that it is downloaded again.")
        ) from error
    names = _class_names(schema.metadata or {})
    if names not in ((), task.hub_classes):
        what = f"Its classes are {', '.join(names)[:200]}; expected {', '.join(task.hub_classes)}."
        raise RequestError(Fault(name, what, "Give the task as a folder of TSV files."))
    return _checked(raw, name, task)


def _checked(raw: dict[str, list[Any]], name: str, task: GlueTask) -> tuple[pd.DataFrame, int]:
    """The good rows, columns label, text, text_b, and how many were left out.

    RequestError with all faults where more rows are damaged than in the published task.
    """
    faults, rows, classes = RowFaults(name), [], dict(enumerate(task.hub_classes))
    for number, (label, *found) in enumerate(
        zip(*(raw[column] for column in _columns(task)), strict=True), start=1
    ):
        texts = [str(text or "").strip() for text in found]
        if label not in classes:
            what = f"label is {str(label)[:40]!r}, not a label of {task.name}."
            faults.add(number, what, "Give the task as a folder of TSV files.")
        elif not all(texts):
            faults.add(
                number,
                f"A text is empty ({', '.join(task.hub_texts)}).",
                "Delete the file and try again.",
            )
        else:
            rows.append((classes[label], texts[0], texts[1] if len(texts) > 1 else ""))
    if faults.n > task.broken or not rows:
        raise RequestError(
            faults.all() or Fault(name, "The table has no rows.", "Delete the file and try again.")
        )
    return pd.DataFrame(rows, columns=["label", "text", "text_b"]), faults.n


def _columns(task: GlueTask) -> list[str]:
    return ["label", *task.hub_texts]


def _class_names(metadata: dict[bytes, bytes]) -> tuple[str, ...]:
    """Names of the label's integers as the hub's data sets library writes them into the file; ()
    where it did not."""
    try:
        return tuple(
            map(str, json.loads(metadata[b"huggingface"])["info"]["features"]["label"]["names"])
        )
    except (KeyError, TypeError, ValueError):
        return ()
