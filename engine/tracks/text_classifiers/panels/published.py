"""Tables 6.2 to 6.4 of the thesis beside this audit, with what differs."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from engine.core import words
from engine.core.ids import at_level
from engine.report import phrasing
from engine.report.charts.panel import Choice, Panel
from engine.store.runs import Run
from engine.tracks.text_classifiers import words as own
from engine.tracks.text_classifiers.panels.lookup import arm_of, ticket_levels
from engine.tracks.text_classifiers.thesis import ACHLATIS, Printed, printed

MODEL, TEXTS, SEEDS = "bert-base-uncased (12 x 12 heads, 110 M parameters)", 2000, 3


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
        return f"Of {len(table)} printed numbers none can be held against this audit: {why}."
    apart = (both["here"] - both["thesis"]).abs()
    return (
        f"{len(both)} of {len(table)} printed numbers have one here; they are"
        f" {phrasing.number(float(apart.median()))} apart in the median,"
        f" {phrasing.number(float(apart.max()))} at most."
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
