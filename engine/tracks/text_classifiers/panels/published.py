"""Tables 6.2 to 6.4 of the thesis beside this audit, with what differs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

from engine.core import words
from engine.core.ids import at_level
from engine.data.texts.glue import key_of_name
from engine.report import phrasing
from engine.report.charts.panel import Choice, Panel
from engine.store.runs import Run
from engine.tracks.text_classifiers import words as own
from engine.tracks.text_classifiers.panels.lookup import arm_of, ticket_levels

MODEL, TEXTS, SEEDS = "bert-base-uncased (12 x 12 heads, 110 M parameters)", 2000, 3


POINTS = 100
"""Table 6.2 is in per cent, the others are shares."""


ACHLATIS = "achlatis"
"""The work that the thesis compares itself with; its scores are not among ours."""


@dataclass(frozen=True)
class Printed:
    """One cell: value and its deviation over seeds (None where none is printed), shares; full: the
    full model's."""

    table: str
    task: str
    method: str
    sparsity: float
    value: float
    std: float | None = None
    full: float | None = None
    full_std: float | None = None


_TASKS_62 = ("QNLI", "QQP", "MRPC", "WNLI", "RTE", "SST-2", "CoLA")


_FULL_62 = (
    (91.5, 0.06),
    (91.0, 0.07),
    (84.2, 1.2),
    (39.4, 0.8),
    (66.1, 1.2),
    (93.0, 0.3),
    (57.5, 0.9),
)


_CELLS_62 = {
    "igspf": {"WNLI": (1.0, 56.3, 0.0), "RTE": (0.3, 65.2, 2.2), "CoLA": (0.1, 57.3, 1.4)},
    "igspp": {
        "MRPC": (0.1, 84.3, 1.1),
        "WNLI": (1.0, 56.3, 0.0),
        "RTE": (0.3, 63.8, 3.3),
        "SST-2": (0.3, 92.5, 0.4),
        "CoLA": (0.1, 58.6, 0.3),
    },
    "one-shot-isp": {
        "QNLI": (0.2, 91.2, 0.2),
        "QQP": (0.6, 91.0, 0.05),
        "MRPC": (0.3, 84.2, 0.3),
        "WNLI": (1.0, 56.3, 0.0),
        "RTE": (0.3, 66.0, 1.6),
        "CoLA": (0.2, 58.8, 0.9),
    },
}
"""Winning tickets by conductance: procedure -> task -> share cut, mean and deviation in per cent.
"""


_TASKS_63 = ("MNLI", "QNLI", "QQP", "SST-2", "MRPC", "CoLA")


_CELLS_63 = {
    "alg61:michel": (0.717, 0.734, 0.791, 0.875, 0.639, 0.286),
    f"alg61:{ACHLATIS}": (0.732, 0.787, 0.811, 0.878, 0.730, 0.387),
    "alg61:conductance": (0.374, 0.500, 0.742, 0.836, 0.317, 0.137),
}
"""70 % of heads cut, nothing trained again."""


_TASKS_64 = ("MNLI", "QNLI", "MRPC", "SST-2", "CoLA")


_CELLS_64 = {
    "igspf:michel": (0.817, 0.820, 0.773, 0.903, 0.329),
    f"igspf:{ACHLATIS}": (0.824, 0.880, 0.783, 0.918, 0.435),
    "igspf:conductance": (0.776, 0.877, 0.706, 0.895, 0.261),
    "igspp:conductance": (0.769, 0.866, 0.701, 0.889, 0.334),
}
"""80 % of heads cut, trained again from the pre-trained weights."""


def full_models() -> dict[str, float]:
    """Table 6.2: the full model's metric by key of the task."""
    return {
        key_of_name(task): round(mean / POINTS, 4)
        for task, (mean, _) in zip(_TASKS_62, _FULL_62, strict=True)
    }


def printed() -> list[Printed]:
    """Every cell, table by table."""
    full = dict(zip(_TASKS_62, _FULL_62, strict=True))
    found = [
        Printed(
            "6.2",
            task,
            f"{procedure}:conductance",
            share,
            mean / POINTS,
            std / POINTS,
            *(value / POINTS for value in full[task]),
        )
        for procedure, cells in _CELLS_62.items()
        for task, (share, mean, std) in cells.items()
    ]
    for table, tasks, cells, share in (
        ("6.3", _TASKS_63, _CELLS_63, 0.7),
        ("6.4", _TASKS_64, _CELLS_64, 0.8),
    ):
        found += [
            Printed(table, task, method, share, value)
            for method, values in cells.items()
            for task, value in zip(tasks, values, strict=True)
        ]
    return found


def thesis_tables(run: Run, choice: Choice) -> Panel:
    """Every printed cell; beside those of this audit's task, procedure, score and share what came
    out here."""
    question = "What does the thesis print, and what came out here?"
    levels = ticket_levels(run)
    table = pd.DataFrame([_row(run, levels, cell) for cell in printed()])
    return Panel("thesis_tables", question, _answer(run, table), None, table, _differs(run))


def _row(run: Run, levels: pd.DataFrame, cell: Printed) -> dict[str, Any]:
    here = _here(run, levels, cell)
    return {
        "table": cell.table,
        "task": cell.task,
        "method": _named(cell.method),
        "share cut": cell.sparsity,
        "thesis": cell.value,
        "deviation": cell.std,
        "full model": cell.full,
        "here": here.get("mean", math.nan),
        "deviation here": here.get("std", math.nan),
        "full model here": here.get("full_mean", math.nan),
    }


def _named(method: str) -> str:
    procedure, score = arm_of(method)
    return (
        f"{own.procedure_name(procedure)} by Achlatis' score"
        if score == ACHLATIS
        else words.method_name(method)
    )


def _here(run: Run, levels: pd.DataFrame, cell: Printed) -> dict[str, Any]:
    """The row of ticket_levels for the same task, arm and share; empty where this audit has
    none."""
    if levels.empty or _task(run) != _plain(cell.task):
        return {}
    rows = levels[(levels["method"] == cell.method) & at_level(levels["sparsity"], cell.sparsity)]
    return {} if rows.empty else rows.iloc[0].to_dict()


def _task(run: Run) -> str:
    return _plain(str(run.meta["data"]["name"]))


def _plain(name: str) -> str:
    return name.replace("-", "").casefold()


def _answer(run: Run, table: pd.DataFrame) -> str:
    """How many cells can be held against each other, and how far apart they are."""
    both = table[table["here"].notna()]
    if both.empty:
        known = _task(run) in {_plain(task) for task in table["task"]}
        why = (
            "no arm of it has a printed share"
            if known
            else f"{run.meta['data']['name']} is none of its tasks"
        )
        return f"None of {len(table)} printed numbers can be compared with this audit: {why}."
    apart = (both["here"] - both["thesis"]).abs()
    return (
        f"{len(both)} of {len(table)} printed numbers can be compared; they are "
        f"{phrasing.number(float(apart.median()))} apart in the median, "
        f"{phrasing.number(float(apart.max()))} at most."
    )


def _differs(run: Run) -> str:
    """What differs from the thesis' setting."""
    model, request = run.meta["model"], run.meta["request"]
    found = [
        f"model {model['name']} ({model['n_layers']} x {model['n_heads']} heads) instead of {MODEL}"
    ]
    if request["score_texts"] != TEXTS:
        found.append(f"{request['score_texts']} scored texts instead of {TEXTS}")
    if request["trials"] != SEEDS:
        found.append(f"{phrasing.count(request['trials'], 'seed')} instead of {SEEDS}")
    tune = request.get("tune") or {}
    if tune and (tune.get("epochs"), tune.get("rate"), tune.get("batch")) != (3, 2e-5, 32):
        found.append("another fine-tuning than its Table 6.1")
    return (
        f"{own.THESIS} Here: {'; '.join(found)}. Table 6.3 does not name its procedure; it is read"
        " as Algorithm 6.1."
    )
