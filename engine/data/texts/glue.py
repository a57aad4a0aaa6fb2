"""The eight GLUE tasks: their columns, classes and metrics, read from TSV files or from the hub."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.errors import Fault, RequestError, chosen, each, refusal
from engine.core.types import Values
from engine.data.sources import CLASS
from engine.data.tables import RowFaults, tab_rows
from engine.data.texts.load import LENGTH, Listing, TextInfo, TextReader, Wanted

ENTAILMENT = ("not_entailment", "entailment")
REGRESSION = "stsb"


@dataclass(frozen=True)
class GlueTask:
    """One task. `texts`, `hub_texts`: columns of the first and, for pairs, the second text; on the
    hub the same where none are said.

    `classes`: in the order of their labels here. `is_numbered`: whether the TSV writes these labels
    and not the classes' names. `hub_classes`: in order of the hub's integers (the hub's RTE and
    QNLI have entailment first). `header`: columns of a TSV that does not name them. `broken`:
    damaged rows the published TSVs themselves have; so many are left out and counted.
    """

    name: str
    label: str
    texts: tuple[str, ...]
    classes: tuple[str, ...]
    is_numbered: bool = True
    hub_texts: tuple[str, ...] = ()
    hub_classes: tuple[str, ...] = ()
    metric: str = "accuracy"
    group: str = ""
    header: tuple[str, ...] = ()
    dev: str = "dev"
    hub_dev: str = "validation"
    broken: int = 0

    @property
    def on_hub(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Columns of its texts, and its classes, as the hub has them."""
        return self.hub_texts or self.texts, self.hub_classes or self.classes

    @property
    def labels(self) -> dict[str, str]:
        """What the TSV writes -> class."""
        return {str(at) if self.is_numbered else one: one for at, one in enumerate(self.classes)}

    def info(self, groups: tuple[str, ...], note: str) -> TextInfo:
        """What the form must know: columns are fixed; `groups` are those its source has beside
        length and class."""
        axes = (*groups, LENGTH, CLASS)
        return TextInfo(self.name, axes, axes[:1], note=note)


def hub_order(name: str, classes: Sequence[str]) -> str:
    """A sentence on the order in which the hub numbers a task's classes; "" for what is no GLUE
    task."""
    task = GLUE_TASKS.get(key_of_name(name))
    if task is None or set(classes) != set(task.classes):
        return ""
    return (
        f"The hub numbers them {','.join(task.on_hub[1])}; so do models that were fine-tuned on"
        f" its {task.name}."
    )


def task_of(name: str) -> GlueTask:
    """The task of a name. RequestError for any other, and for the one task without classes."""
    key = key_of_name(name)
    if key == REGRESSION:
        what = (
            "STS-B is a regression: its labels are numbers from 0 to 5, and PruneAudit audits"
            " classifiers."
        )
        fix = "Give it as a CSV whose labels you put into classes, such as similar and different."
        raise refusal(f"data {name}", what, fix)
    return chosen("data, GLUE task", key, GLUE_TASKS)


def key_of_name(name: str) -> str:
    """A task's name as its key: SST-2, sst2 and Sst-2 are one."""
    return name.casefold().replace("-", "")


_PAIR = ("sentence1", "sentence2")
_QUESTIONS = ("question1", "question2")
_TASKS = (
    GlueTask(
        "CoLA",
        "label",
        ("sentence",),
        ("unacceptable", "acceptable"),
        metric="matthews",
        group="source",
        header=("source", "label", "star", "sentence"),
    ),
    GlueTask("SST-2", "label", ("sentence",), ("negative", "positive")),
    GlueTask(
        "MRPC",
        "Quality",
        ("#1 String", "#2 String"),
        ("not_equivalent", "equivalent"),
        hub_texts=_PAIR,
    ),
    GlueTask("QQP", "is_duplicate", _QUESTIONS, ("not_duplicate", "duplicate"), broken=50),
    GlueTask(
        "QNLI",
        "label",
        ("question", "sentence"),
        ENTAILMENT,
        is_numbered=False,
        hub_classes=ENTAILMENT[::-1],
    ),
    GlueTask(
        "MNLI",
        "gold_label",
        _PAIR,
        ("contradiction", "entailment", "neutral"),
        is_numbered=False,
        hub_texts=("premise", "hypothesis"),
        hub_classes=("entailment", "neutral", "contradiction"),
        group="genre",
        dev="dev_matched",
        hub_dev="validation_matched",
    ),
    GlueTask("RTE", "label", _PAIR, ENTAILMENT, is_numbered=False, hub_classes=ENTAILMENT[::-1]),
    GlueTask("WNLI", "label", _PAIR, ENTAILMENT),
)
GLUE_TASKS = {key_of_name(task.name): task for task in _TASKS}
"""By name in small letters without the hyphen."""
DEV_IS_TEST = (
    "GLUE's development texts are the test split here: the labels of its own test texts are not"
    " public."
)


Part = tuple[pd.DataFrame, tuple[str, ...]]
"""Columns text, perhaps text_b, label (a class) and groups of one file; and notes."""


def _part(
    task: GlueTask,
    faults: RowFaults,
    rows: Iterable[tuple[int, Values]],
    texts: Sequence[str],
    label: str,
    labels: Mapping[Any, str],
    groups: Sequence[str] = (),
    fix: str = "",
) -> Part:
    """One file. `texts`, `label`, `groups`: its columns; `labels`: what is written -> class; `fix`:
    what to do about any row, where rows cannot be mended.

    RequestError with all faults where more rows are damaged than in the published task.
    """
    found = []
    for number, cells in rows:
        if blank := [name for name in texts if not cells[name]]:
            what = f"{' and '.join(blank)}: the text is empty."
            faults.add(number, what, fix or "Fill it, or leave the row out.")
        elif cells[label] not in labels:
            what = f"{label} is {str(cells[label])[:40]!r}, not a label of {task.name}."
            faults.add(number, what, fix or f"Known: {', '.join(labels)}.")
        else:
            own = zip(("text", "text_b"), (cells[name] for name in texts), strict=False)
            row = {group: cells[group] for group in groups} | dict(own)
            found.append({**row, "label": labels[cells[label]]})
    if len(faults) > task.broken:
        raise RequestError(faults.all())
    if not found:
        raise refusal(faults.file, "The table has no rows.", "Fetch the file again.")
    what = f"{len(faults)} damaged rows of {Path(faults.file).name} were left out;"
    note = f"{what} the published file has some too."
    return pd.DataFrame(found), (note,) if faults else ()


class _Glue(TextReader):
    """A GLUE task with its development texts as test split."""

    @abstractmethod
    def task(self) -> GlueTask:
        """The task that is meant. RequestError where there is no such task."""

    @abstractmethod
    def files(self, task: GlueTask) -> dict[str, Path]:
        """The file of each split. RequestError naming all that are absent."""

    @abstractmethod
    def part(self, task: GlueTask, file: Path, groups: Sequence[str]) -> Part:
        """What one file holds."""

    def read(self, wanted: Wanted) -> Listing:
        task = self.task()
        groups = [group for group in wanted.groups if group not in (LENGTH, CLASS)]
        files = self.files(task)
        found = each(lambda file: self.part(task, file, groups), files.values())
        parts = [table.assign(split=split) for (table, _), split in zip(found, files, strict=True)]
        table = pd.concat(parts, ignore_index=True)
        notes = dict.fromkeys([DEV_IS_TEST, *(note for _, said in found for note in said)])
        whole = table if "text_b" in table else table.assign(text_b="")
        return Listing(task.name, whole, task.classes, task.metric, tuple(notes))


AGAIN = "Fetch the file again: it must be as GLUE hands it out, without quotation."


class GlueTsv(_Glue):
    """A folder of one task, named after it: train.tsv and dev.tsv (MNLI: dev_matched.tsv) as GLUE
    hands them out. Fields end at tabs, rows at line feeds; quotation marks are part of the text."""

    name = (
        "a GLUE task's folder with train.tsv and dev.tsv"
        f" ({', '.join(task.name for task in GLUE_TASKS.values())})"
    )

    def recognises(self) -> bool:
        return self.path.is_dir() and key_of_name(self.path.resolve().name) in (
            *GLUE_TASKS,
            REGRESSION,
        )

    def look(self) -> TextInfo:
        task = self.task()
        self.files(task)
        return task.info((task.group,) if task.group else (), DEV_IS_TEST)

    def task(self) -> GlueTask:
        return task_of(self.path.resolve().name)

    def files(self, task: GlueTask) -> dict[str, Path]:
        files = {"train": self.path / "train.tsv", "test": self.path / f"{task.dev}.tsv"}
        fix = f"{task.name} needs {' and '.join(file.name for file in files.values())}."
        absent = [file for file in files.values() if not file.is_file()]
        if absent:
            raise RequestError([Fault(str(file), "There is no such file.", fix) for file in absent])
        return files

    def part(self, task: GlueTask, file: Path, groups: Sequence[str]) -> Part:
        faults, columns = RowFaults(file.name), [*task.texts, task.label, *groups]
        rows = tab_rows(file, columns, faults, AGAIN, task.header)
        return _part(task, faults, rows, task.texts, task.label, task.labels, groups)


REPOSITORY = "nyu-mll/glue"
PREFIX = "glue:"


class GlueHub(_Glue):
    """The parquet files of nyu-mll/glue, downloaded once. They have no sources (CoLA) and no genres
    (MNLI): the groups are length and class."""

    name = f"a GLUE task from the hub, such as {PREFIX}rte"

    def recognises(self) -> bool:
        return self.source.casefold().startswith(PREFIX)

    def look(self) -> TextInfo:
        task = self.task()
        note = f"{DEV_IS_TEST} Downloaded from the hub ({REPOSITORY}) on first use."
        return task.info((), note)

    def task(self) -> GlueTask:
        return task_of(self.source[len(PREFIX) :])

    def files(self, task: GlueTask) -> dict[str, Path]:
        return {"train": _fetched(task, "train"), "test": _fetched(task, task.hub_dev)}

    def part(self, task: GlueTask, file: Path, groups: Sequence[str]) -> Part:
        name, (texts, classes) = f"{key_of_name(task.name)}/{file.name}", task.on_hub
        rows = enumerate(_rows_of(file, name, texts, classes), start=1)
        fix = f"Delete {file} and try again, or give the task as a folder of TSV files."
        labels = dict(enumerate(classes))
        table, notes = _part(task, RowFaults(name), rows, texts, "label", labels, fix=fix)
        return table, (f"From the hub: {REPOSITORY}.", *notes)


def _fetched(task: GlueTask, split: str) -> Path:
    """One of the hub's files: as downloaded before, else downloaded. Raises RequestError where
    there is neither."""
    from huggingface_hub import hf_hub_download

    name = f"{key_of_name(task.name)}/{split}-00000-of-00001.parquet"
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
        raise refusal(f"data {PREFIX}{key_of_name(task.name)}", what, fix) from error


def _rows_of(
    file: Path, name: str, texts: Sequence[str], classes: tuple[str, ...]
) -> Iterator[Values]:
    """Labels (integers) and stripped texts of one file of the hub. RequestError where it is not
    this task's, or damaged."""
    import pyarrow
    import pyarrow.parquet

    columns, again = ["label", *texts], f"Delete {file}, so that it is downloaded again."
    try:
        schema = pyarrow.parquet.read_schema(file)
        if absent := [column for column in columns if column not in schema.names]:
            what = f"Columns missing: {', '.join(absent)}."
            raise refusal(name, what, f"Found: {', '.join(schema.names[:40])}.")
        if not pyarrow.types.is_integer(schema.field("label").type):
            raise refusal(name, "Its labels are not whole numbers.", again)
        rows = pyarrow.parquet.read_table(file, columns=columns).to_pylist()
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        what = f"It is not a parquet file, or is damaged ({type(error).__name__})."
        raise refusal(name, what, again) from error
    names = _class_names(schema.metadata or {})
    if names not in ((), classes):
        what = f"Its classes are {', '.join(names)[:200]}; expected {', '.join(classes)}."
        raise refusal(name, what, "Give the task as a folder of TSV files.")
    for row in rows:
        yield row | {text: str(row[text] or "").strip() for text in texts}


def _class_names(metadata: Mapping[bytes, bytes]) -> tuple[str, ...]:
    """Names of the label's integers as the hub's data sets library writes them into the file; ()
    where it did not."""
    try:
        label = json.loads(metadata[b"huggingface"])["info"]["features"]["label"]
        return tuple(map(str, label["names"]))
    except (KeyError, TypeError, ValueError):
        return ()
