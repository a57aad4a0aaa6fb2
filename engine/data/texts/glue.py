"""The eight GLUE tasks: their columns, classes and metrics, in the TSV files and on the hub."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.errors import Fault, RequestError, unknown
from engine.data.sources import CLASS
from engine.data.tables import RowFaults, text_of
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
        raise RequestError(Fault(f"data {name}", what, fix))
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
GLUE_TASKS: dict[str, GlueTask] = {task.key: task for task in _ALL}
"""By name in small letters without the hyphen."""
DEV_IS_TEST = (
    "GLUE's development texts are the test split here: the labels of its own test texts are not"
    " public."
)


def left_out(broken: int, file: str) -> str:
    """A note on rows that are damaged in the published task too."""
    return f"{broken} damaged rows of {file} were left out; the published file has some too."


# A folder of one GLUE task, named after it: train.tsv and dev.tsv (MNLI: dev_matched.tsv) as
# GLUE hands them out.


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


# GLUE tasks from the hub ("glue:rte"): the parquet files of nyu-mll/glue, downloaded once.


REPOSITORY = "nyu-mll/glue"
PREFIX = "glue:"


class GlueHub(TextReader):
    """The hub's files have no sources (CoLA) and no genres (MNLI): the groups are length and
    class."""

    name = f"a GLUE task from the hub, such as {PREFIX}rte"

    def recognises(self, source: str, path: Path) -> bool:
        return source.strip().casefold().startswith(PREFIX)

    def look(self, source: str, path: Path) -> TextInfo:
        task = _glue_hub_task(source)
        return task.info(
            task.n, (), f"{DEV_IS_TEST} Downloaded from the hub ({REPOSITORY}) on first use."
        )

    def read(self, source: str, path: Path, wanted: Wanted) -> Listing:
        task = _glue_hub_task(source)
        files = {"train": _fetched(task, "train"), "test": _fetched(task, task.hub_dev)}
        parts, faults, notes = [], list[Fault](), [DEV_IS_TEST, f"From the hub: {REPOSITORY}."]
        for split, file in files.items():
            try:
                part, broken = _glue_hub_table(file, f"{task.key}/{file.name}", task)
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


def _glue_hub_task(source: str) -> GlueTask:
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


def _glue_hub_table(file: Path, name: str, task: GlueTask) -> tuple[pd.DataFrame, int]:
    """One file's rows, columns label, text, text_b, and how many damaged ones were left out.
    RequestError."""
    import pyarrow
    import pyarrow.parquet

    columns = _glue_hub_columns(task)
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
        zip(*(raw[column] for column in _glue_hub_columns(task)), strict=True), start=1
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


def _glue_hub_columns(task: GlueTask) -> list[str]:
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
