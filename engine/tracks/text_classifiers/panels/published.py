"""Tables 6.2 to 6.4 of the thesis beside this audit, with what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from engine.audit.experiments import differences
from engine.core import words
from engine.data.texts.glue import GLUE_TASKS, key_of_name
from engine.report import phrasing
from engine.report.charts.panel import Choice, Panel
from engine.store.runs import Run
from engine.tracks.text_classifiers import words as own
from engine.tracks.text_classifiers.panels.survival import arm_of, ticket_levels
from engine.tracks.text_classifiers.request import SCORE_TEXTS, THESIS

BERT = "bert-base-uncased"
STANDS_FOR = "sst2"
"""The task that texts which are no GLUE task are laid beside."""
ACHLATIS = "achlatis"
"""The work that the thesis compares itself with; its scores are not among ours."""
FULL_62 = {
    "QNLI": (91.5, 0.06),
    "QQP": (91.0, 0.07),
    "MRPC": (84.2, 1.2),
    "WNLI": (39.4, 0.8),
    "RTE": (66.1, 1.2),
    "SST-2": (93.0, 0.3),
    "CoLA": (57.5, 0.9),
}
"""The full model in Table 6.2: mean and deviation over seeds, in per cent."""
CELLS_62 = {
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
Empty cells are left out. Where two sparsities share a printed cell, the row of values below it
tells whose they are."""
TASKS_63 = ("MNLI", "QNLI", "QQP", "SST-2", "MRPC", "CoLA")
CELLS_63 = {
    "alg61:michel": (0.717, 0.734, 0.791, 0.875, 0.639, 0.286),
    f"alg61:{ACHLATIS}": (0.732, 0.787, 0.811, 0.878, 0.730, 0.387),
    "alg61:conductance": (0.374, 0.500, 0.742, 0.836, 0.317, 0.137),
}
"""70 % of heads cut from the fine-tuned model by Algorithm 6.1, nothing trained again. Michel's row
is another author's; the thesis did not repeat it."""
TASKS_64 = ("MNLI", "QNLI", "MRPC", "SST-2", "CoLA")
CELLS_64 = {
    "igspf:michel": (0.817, 0.820, 0.773, 0.903, 0.329),
    f"igspf:{ACHLATIS}": (0.824, 0.880, 0.783, 0.918, 0.435),
    "igspf:conductance": (0.776, 0.877, 0.706, 0.895, 0.261),
    "igspp:conductance": (0.769, 0.866, 0.701, 0.889, 0.334),
}
"""80 % of heads cut, trained again from the pre-trained weights."""


def printed() -> pd.DataFrame:
    """Every cell, table by table: table, task, method, sparsity, value with its deviation over
    seeds and the full model's value (NaN where none is printed), as shares."""
    cells: list[tuple[Any, ...]] = [
        (
            "6.2",
            task,
            f"{procedure}:conductance",
            share,
            mean / 100,
            std / 100,
            FULL_62[task][0] / 100,
        )
        for procedure, tasks in CELLS_62.items()
        for task, (share, mean, std) in tasks.items()
    ]
    for table, names, rows, share in (
        ("6.3", TASKS_63, CELLS_63, 0.7),
        ("6.4", TASKS_64, CELLS_64, 0.8),
    ):
        cells += [
            (table, task, method, share, value, None, None)
            for method, values in rows.items()
            for task, value in zip(names, values, strict=True)
        ]
    columns = ["table", "task", "method", "sparsity", "value", "std", "full"]
    return pd.DataFrame(cells, columns=columns).round({"value": 4, "full": 4})


def thesis_tables(run: Run, choice: Choice) -> Panel:
    """Every printed cell; beside those of this audit's task, procedure, score and share what came
    out here."""
    question = "What does the thesis print, and what came out here?"
    table, levels = printed(), ticket_levels(run)
    is_mine = table["task"].map(key_of_name) == key_of_name(run.data["name"])
    ours = levels.reindex(columns=["method", "sparsity", "mean", "std", "full_mean"])
    ours = ours.round({"sparsity": 9}).astype({"sparsity": float})
    both = table.merge(ours, how="left", on=["method", "sparsity"], suffixes=("", "_here"))
    here = both[["mean", "std_here", "full_mean"]].where(is_mine)
    shown = table.assign(method=table["method"].map(_named)).set_axis(TITLES, axis=1)
    shown = pd.concat([shown, here.set_axis(TITLES_HERE, axis=1)], axis=1)
    return Panel("thesis_tables", question, _answer(run, shown), None, shown, _differs(run))


TITLES = ["table", "task", "method", "share cut", "thesis", "deviation", "full model"]
TITLES_HERE = ["here", "deviation here", "full model here"]


def _named(method: str) -> str:
    procedure, score = arm_of(method)
    is_other = score == ACHLATIS
    return (
        f"{own.procedure_name(procedure)} by Achlatis' score"
        if is_other
        else words.method_name(method)
    )


def _answer(run: Run, table: pd.DataFrame) -> str:
    """How many cells can be held against each other, and how far apart they are."""
    both, name = table[table["here"].notna()], run.data["name"]
    if both.empty:
        known = key_of_name(name) in set(table["task"].map(key_of_name))
        why = "no arm of it has a printed share" if known else f"{name} is none of its tasks"
        return f"None of {len(table)} printed numbers can be compared with this audit: {why}."
    apart = (both["here"] - both["thesis"]).abs()
    return (
        f"{len(both)} of {len(table)} printed numbers can be compared; they are "
        f"{phrasing.number(float(apart.median()))} apart in the median, "
        f"{phrasing.number(float(apart.max()))} at most."
    )


def _differs(run: Run) -> str:
    unlike = unlike_thesis(run, list(GLUE_TASKS))
    return (
        f"{own.THESIS} Here: {unlike}. Table 6.3 does not name its procedure; it is read as"
        " Algorithm 6.1."
    )


def unlike_thesis(run: Run, tasks: Sequence[str]) -> str:
    """What a run does not share with the thesis, which shows these tasks (keys of GLUE_TASKS)."""
    meta, request, name = run.meta, run.request, run.data["name"]
    near = next(task for task in (key_of_name(name), STANDS_FOR, tasks[0]) if task in tasks)
    task = GLUE_TASKS[near].name
    paper: Mapping[str, object] = {
        "model": BERT,
        "task": task,
        "seeds": 3,
        "training texts a score reads": SCORE_TEXTS,
        "epochs": THESIS["epochs"],
    }
    here = {
        "model": meta["model"]["name"],
        "task": task if key_of_name(name) == near else name,
        "seeds": request["trials"],
        "training texts a score reads": request["score_texts"],
        "epochs": request["tune"].get("epochs"),
    }
    return differences(paper, here)
