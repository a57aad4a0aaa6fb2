"""The eight GLUE tasks: their columns, classes and metrics, in the TSV files and on the hub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.core.errors import Fault, RequestError, unknown
from engine.data.splits import CLASS
from engine.data.texts.readers.base import LENGTH, TextInfo

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
