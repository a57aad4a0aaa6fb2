"""The eight GLUE tasks: their columns, classes and metrics, read from TSV files or from the hub."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.errors import Fault, RequestError, each, refusal, unknown
from engine.core.types import Values
from engine.data.sources import CLASS
from engine.data.tables import RowFaults, tab_rows
from engine.data.texts.load import LENGTH, Listing, TextInfo, TextReader, Wanted

ENTAILMENT = ("not_entailment", "entailment")
KIND = "GLUE"
REGRESSION = "stsb"


@dataclass(frozen=True)
class GlueTask:
    """One task. `texts`, `hub_texts`: columns of the first and, for pairs, the second text.

    `classes`: in the order of their labels here. `labels`: what the TSV writes -> class.
    `hub_classes`: in order of the hub's integers (the hub's RTE and QNLI have entailment first).
    `header`: columns of a TSV that does not name them. `broken`: damaged rows the published TSVs
    themselves have; so many are left out and counted. `n`: texts on the hub.
    """

    name: str
    texts: tuple[str, ...]
    label: str
    classes: tuple[str, ...]
    labels: Mapping[str, str]
    hub_texts: tuple[str, ...]
    hub_classes: tuple[str, ...]
    n: int
    metric: str = "accuracy"
    group: str = ""
    header: tuple[str, ...] = ()
    dev: str = "dev"
    hub_dev: str = "validation"
    broken: int = 0
    key: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", key_of_name(self.name))

    def info(self, n: int, groups: tuple[str, ...], note: str) -> TextInfo:
        """What the form must know: columns are fixed; `groups` are those its source has beside
        length and class."""
        axes = (*groups, LENGTH, CLASS)
        return TextInfo(
            self.name, KIND, (), ("label",), axes, "label", "text", axes[:1], self.metric, n, note
        )


def hub_order(name: str, classes: Sequence[str]) -> str:
    """A sentence on the order in which the hub numbers a task's classes; "" for what is no GLUE
    task."""
    task = GLUE_TASKS.get(key_of_name(name))
    if task is None or set(classes) != set(task.classes):
        return ""
    return (
        f"The hub numbers them {','.join(task.hub_classes)}; so do models that were fine-tuned on"
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
    if key not in GLUE_TASKS:
        raise RequestError(unknown("data, GLUE task", name[:80], GLUE_TASKS))
    return GLUE_TASKS[key]


def key_of_name(name: str) -> str:
    """A task's name as its key: SST-2, sst2 and Sst-2 are one."""
    return name.casefold().replace("-", "")


def _numbered(classes: tuple[str, ...]) -> dict[str, str]:
    return {str(place): name for place, name in enumerate(classes)}


def _itself(classes: tuple[str, ...]) -> dict[str, str]:
    return {name: name for name in classes}


_ACCEPTABLE = ("unacceptable", "acceptable")
_SENTIMENT = ("negative", "positive")
_EQUIVALENT = ("not_equivalent", "equivalent")
_DUPLICATE = ("not_duplicate", "duplicate")
_INFERENCE = ("contradiction", "entailment", "neutral")
_PAIR = ("sentence1", "sentence2")

_ALL = (
    GlueTask(
        "CoLA",
        ("sentence",),
        "label",
        _ACCEPTABLE,
        _numbered(_ACCEPTABLE),
        ("sentence",),
        _ACCEPTABLE,
        9594,
        metric="matthews",
        group="source",
        header=("source", "label", "star", "sentence"),
    ),
    GlueTask(
        "SST-2",
        ("sentence",),
        "label",
        _SENTIMENT,
        _numbered(_SENTIMENT),
        ("sentence",),
        _SENTIMENT,
        68221,
    ),
    GlueTask(
        "MRPC",
        ("#1 String", "#2 String"),
        "Quality",
        _EQUIVALENT,
        _numbered(_EQUIVALENT),
        _PAIR,
        _EQUIVALENT,
        4076,
    ),
    GlueTask(
        "QQP",
        ("question1", "question2"),
        "is_duplicate",
        _DUPLICATE,
        _numbered(_DUPLICATE),
        ("question1", "question2"),
        _DUPLICATE,
        404276,
        broken=50,
    ),
    GlueTask(
        "QNLI",
        ("question", "sentence"),
        "label",
        ENTAILMENT,
        _itself(ENTAILMENT),
        ("question", "sentence"),
        ENTAILMENT[::-1],
        110206,
    ),
    GlueTask(
        "MNLI",
        _PAIR,
        "gold_label",
        _INFERENCE,
        _itself(_INFERENCE),
        ("premise", "hypothesis"),
        ("entailment", "neutral", "contradiction"),
        402517,
        group="genre",
        dev="dev_matched",
        hub_dev="validation_matched",
    ),
    GlueTask("RTE", _PAIR, "label", ENTAILMENT, _itself(ENTAILMENT), _PAIR, ENTAILMENT[::-1], 2767),
    GlueTask("WNLI", _PAIR, "label", ENTAILMENT, _numbered(ENTAILMENT), _PAIR, ENTAILMENT, 706),
)
GLUE_TASKS = {task.key: task for task in _ALL}
"""By name in small letters without the hyphen."""
DEV_IS_TEST = (
    "GLUE's development texts are the test split here: the labels of its own test texts are not"
    " public."
)


def _sound(
    rows: Sequence[Values], faults: RowFaults, task: GlueTask
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The rows of one file as a table, and a note on damaged ones that were left out.

    RequestError with all faults where more rows are damaged than in the published task.
    """
    if faults.n > task.broken:
        raise RequestError(faults.all())
    if not rows:
        raise refusal(faults.file, "The table has no rows.", "Fetch the file again.")
    what = f"{faults.n} damaged rows of {Path(faults.file).name} were left out;"
    note = f"{what} the published file has some too."
    return pd.DataFrame(rows), (note,) if faults.n else ()


class _Glue(TextReader):
    """A GLUE task with its development texts as test split."""

    @abstractmethod
    def task(self, source: str, path: Path) -> GlueTask:
        """The task that is meant. RequestError where there is no such task."""

    @abstractmethod
    def files(self, task: GlueTask, path: Path) -> dict[str, Path]:
        """The file of each split. RequestError naming all that are absent."""

    @abstractmethod
    def table(
        self, task: GlueTask, file: Path, groups: Sequence[str]
    ) -> tuple[pd.DataFrame, tuple[str, ...]]:
        """Columns text, perhaps text_b, label (a class) and `groups` of one file; and notes."""

    def read(self, source: str, path: Path, wanted: Wanted) -> Listing:
        task = self.task(source, path)
        groups = [group for group in wanted.groups if group not in (LENGTH, CLASS)]
        files = self.files(task, path)
        found = each(lambda file: self.table(task, file, groups), files.values())
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

    def recognises(self, source: str, path: Path) -> bool:
        return path.is_dir() and key_of_name(path.resolve().name) in (*GLUE_TASKS, REGRESSION)

    def look(self, source: str, path: Path) -> TextInfo:
        task = self.task(source, path)
        n = sum(_lines(file) - (not task.header) for file in self.files(task, path).values())
        return task.info(n, (task.group,) if task.group else (), DEV_IS_TEST)

    def task(self, source: str, path: Path) -> GlueTask:
        return task_of(path.resolve().name)

    def files(self, task: GlueTask, path: Path) -> dict[str, Path]:
        files = {"train": path / "train.tsv", "test": path / f"{task.dev}.tsv"}
        fix = f"{task.name} needs {' and '.join(file.name for file in files.values())}."
        absent = [file for file in files.values() if not file.is_file()]
        if absent:
            raise RequestError([Fault(str(file), "There is no such file.", fix) for file in absent])
        return files

    def table(
        self, task: GlueTask, file: Path, groups: Sequence[str]
    ) -> tuple[pd.DataFrame, tuple[str, ...]]:
        texts = dict(zip(("text", "text_b"), task.texts, strict=False))
        columns = texts | {"label": task.label} | {group: group for group in groups}
        faults, rows = RowFaults(file.name), []
        for number, cells in tab_rows(file, list(columns.values()), faults, AGAIN, task.header):
            label = cells[task.label]
            if blank := [name for name in task.texts if not cells[name]]:
                what = f"{' and '.join(blank)}: the text is empty."
                faults.add(number, what, "Fill it, or leave the row out.")
            elif label not in task.labels:
                what = f"{task.label} is {label[:40]!r}, not a label of {task.name}."
                faults.add(number, what, f"Known: {', '.join(task.labels)}.")
            else:
                row = {ours: cells[theirs] for ours, theirs in columns.items()}
                rows.append({**row, "label": task.labels[label]})
        return _sound(rows, faults, task)


def _lines(file: Path) -> int:
    """Lines of a file, the last one with or without its line feed."""
    count, last = 0, b"\n"
    with file.open("rb") as open_file:
        while block := open_file.read(2**20):
            count, last = count + block.count(b"\n"), block[-1:]
    return count + (last != b"\n")


REPOSITORY = "nyu-mll/glue"
PREFIX = "glue:"


class GlueHub(_Glue):
    """The parquet files of nyu-mll/glue, downloaded once. They have no sources (CoLA) and no genres
    (MNLI): the groups are length and class."""

    name = f"a GLUE task from the hub, such as {PREFIX}rte"

    def recognises(self, source: str, path: Path) -> bool:
        return source.strip().casefold().startswith(PREFIX)

    def look(self, source: str, path: Path) -> TextInfo:
        task = self.task(source, path)
        note = f"{DEV_IS_TEST} Downloaded from the hub ({REPOSITORY}) on first use."
        return task.info(task.n, (), note)

    def task(self, source: str, path: Path) -> GlueTask:
        return task_of(source.strip()[len(PREFIX) :])

    def files(self, task: GlueTask, path: Path) -> dict[str, Path]:
        return {"train": _fetched(task, "train"), "test": _fetched(task, task.hub_dev)}

    def table(
        self, task: GlueTask, file: Path, groups: Sequence[str]
    ) -> tuple[pd.DataFrame, tuple[str, ...]]:
        name = f"{task.key}/{file.name}"
        raw, faults, rows = _columns_of(file, name, task), RowFaults(name), []
        for number, (label, *given) in enumerate(zip(*raw.values(), strict=True), start=1):
            texts = [str(text or "").strip() for text in given]
            if label not in range(len(task.hub_classes)):
                what = f"label is {str(label)[:40]!r}, not a label of {task.name}."
                faults.add(number, what, "Give the task as a folder of TSV files.")
            elif not all(texts):
                what = f"A text is empty ({', '.join(task.hub_texts)})."
                faults.add(number, what, "Delete the file and try again.")
            else:
                row = {"label": task.hub_classes[label]}
                rows.append(row | dict(zip(("text", "text_b"), texts, strict=False)))
        table, notes = _sound(rows, faults, task)
        return table, (f"From the hub: {REPOSITORY}.", *notes)


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
        raise refusal(f"data {PREFIX}{task.key}", what, fix) from error


def _columns_of(file: Path, name: str, task: GlueTask) -> dict[str, list[Any]]:
    """Labels (integers) and texts of one file of the hub, by column. RequestError where it is not
    this task's, or damaged."""
    import pyarrow
    import pyarrow.parquet

    columns = ["label", *task.hub_texts]
    try:
        schema = pyarrow.parquet.read_schema(file)
        if absent := [column for column in columns if column not in schema.names]:
            what = f"Columns missing: {', '.join(absent)}."
            raise refusal(name, what, f"Found: {', '.join(schema.names[:40])}.")
        if not pyarrow.types.is_integer(schema.field("label").type):
            fix = f"Delete {file} and try again."
            raise refusal(name, "Its labels are not whole numbers.", fix)
        raw = pyarrow.parquet.read_table(file, columns=columns).to_pydict()
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        what = f"It is not a parquet file, or is damaged ({type(error).__name__})."
        fix = f"Delete {file}, so that it is downloaded again."
        raise refusal(name, what, fix) from error
    names = _class_names(schema.metadata or {})
    if names not in ((), task.hub_classes):
        what = f"Its classes are {', '.join(names)[:200]}; expected {', '.join(task.hub_classes)}."
        raise refusal(name, what, "Give the task as a folder of TSV files.")
    return {column: raw[column] for column in columns}


def _class_names(metadata: Mapping[bytes, bytes]) -> tuple[str, ...]:
    """Names of the label's integers as the hub's data sets library writes them into the file; ()
    where it did not."""
    try:
        label = json.loads(metadata[b"huggingface"])["info"]["features"]["label"]
        return tuple(map(str, label["names"]))
    except (KeyError, TypeError, ValueError):
        return ()
