"""Figs. 6.6 and 6.7, Tables 6.2 to 6.4: the task's metric of every procedure at every share of
heads cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from engine.audit.experiments import NAN, Finding, finding
from engine.core import words
from engine.data.texts.glue import GLUE_TASKS
from engine.report.charts import lookup
from engine.store.runs import Run
from engine.tracks.text_classifiers.experiments._experiment import task_of

FULL = "dense"
Printed = Mapping[str, Mapping[str, float]]
"""By arm ("dense" for the full model), then by task."""
NOT_RUN = "this task was not run here"
TICKETS_PRINTED: Printed = {
    "igspf:conductance": {"wnli": 1.0, "rte": 0.3, "cola": 0.1},
    "igspp:conductance": {"mrpc": 0.1, "wnli": 1.0, "rte": 0.3, "sst2": 0.3, "cola": 0.1},
    "one-shot-isp:conductance": {
        "qnli": 0.2,
        "qqp": 0.6,
        "mrpc": 0.3,
        "wnli": 1.0,
        "rte": 0.3,
        "cola": 0.2,
    },
}
"""Table 6.2: the largest sparsity with a winning ticket. Empty cells are left out. Where two
sparsities share a printed cell, the row of values below it tells whose they are."""
TICKET_VALUES: Printed = {
    FULL: {
        "qnli": 0.915,
        "qqp": 0.910,
        "mrpc": 0.842,
        "wnli": 0.394,
        "rte": 0.661,
        "sst2": 0.930,
        "cola": 0.575,
    },
    "igspf:conductance": {"wnli": 0.563, "rte": 0.652, "cola": 0.573},
    "igspp:conductance": {"mrpc": 0.843, "wnli": 0.563, "rte": 0.638, "sst2": 0.925, "cola": 0.586},
    "one-shot-isp:conductance": {
        "qnli": 0.912,
        "qqp": 0.910,
        "mrpc": 0.842,
        "wnli": 0.563,
        "rte": 0.660,
        "cola": 0.588,
    },
}
"""Table 6.2: the metric of the full model, and of each winning ticket (printed in per cent)."""
ONCE_PRINTED: Printed = {
    "once:michel": {
        "mnli": 0.717,
        "qnli": 0.734,
        "qqp": 0.791,
        "sst2": 0.875,
        "mrpc": 0.639,
        "cola": 0.286,
    },
    "once:conductance": {
        "mnli": 0.374,
        "qnli": 0.500,
        "qqp": 0.742,
        "sst2": 0.836,
        "mrpc": 0.317,
        "cola": 0.137,
    },
}
"""Table 6.3: 70 % cut from the fine-tuned model. Michel's row is another author's; the thesis did
not repeat it."""
LTH_PRINTED: Printed = {
    "igspf:conductance": {
        "mnli": 0.776,
        "qnli": 0.877,
        "mrpc": 0.706,
        "sst2": 0.895,
        "cola": 0.261,
    },
    "igspp:conductance": {
        "mnli": 0.769,
        "qnli": 0.866,
        "mrpc": 0.701,
        "sst2": 0.889,
        "cola": 0.334,
    },
}
"""Table 6.4: 80 % cut, weights from the pre-trained model."""


def levels(methods: Sequence[str]) -> Callable[[Run], Iterator[Finding]]:
    """Figs. 6.6 and 6.7: the metric of the full model, and of these arms at every share."""

    def read(run: Run) -> Iterator[Finding]:
        table = lookup.reported(run)
        for variant in table[table["method"].isin((FULL, *methods))].to_dict("records"):
            yield _measured(run, variant)

    return read


def tickets(run: Run) -> Iterator[Finding]:
    """Table 6.2: the largest share with a winning ticket, and the metric there."""
    task, table = task_of(run), run.table("tickets")
    full = _row(run, FULL)
    yield finding(
        "full model", full, _seeds(run), paper=TICKET_VALUES[FULL].get(task, NAN), where="Table 6.2"
    )
    mine = table[(table["axis"] == "") & table["method"].isin(TICKETS_PRINTED)]
    for row in mine.to_dict("records"):
        name = words.method_name(row["method"])
        share, value = TICKETS_PRINTED[row["method"]], TICKET_VALUES[row["method"]]
        about = {"n": float(full.get("n", NAN)), "seeds": row["n_seeds"]}
        yield Finding(
            f"largest share with a winning ticket, {name}",
            share.get(task, NAN),
            "Table 6.2" if task in share else "",
            row["sparsity"],
            **about,
        )
        spread = {"low": row["mean"] - row["std"], "high": row["mean"] + row["std"]}
        yield Finding(
            f"metric there, {name} (mean, one standard deviation)",
            value.get(task, NAN),
            "Table 6.2" if task in value else "",
            row["mean"],
            **spread,
            **about,
        )


def near(printed: Printed, share: float, table: str) -> Callable[[Run], Iterator[Finding]]:
    """Tables 6.3 and 6.4: every printed arm at the run's share nearest to the table's."""

    def read(run: Run) -> Iterator[Finding]:
        task, reported = task_of(run), lookup.reported(run)
        for arm, by_task in printed.items():
            rows = reported[reported["method"] == arm]
            beside: dict[str, Any] = {"paper": by_task.get(task, NAN), "where": ""}
            if task in by_task:
                beside["where"] = f"{table}, {100 * share:g} %"
            if len(rows):
                at = rows.loc[(rows["sparsity"] - share).abs().idxmin()].to_dict()
                yield _measured(run, at, **beside)
            else:
                yield Finding(
                    f"metric, {_arm(arm)}", **beside, differs="this procedure was not run here"
                )

    return read


def absent(printed: Sequence[Printed], table: str) -> Callable[[Sequence[str]], Iterable[Finding]]:
    """What a table prints of tasks that were not run: a row each, without a number of ours."""

    def read(tasks: Sequence[str]) -> Iterator[Finding]:
        for part in printed:
            for arm, by_task in part.items():
                for task in (task for task in tasks if task in by_task):
                    named = "largest share with a ticket" if part is TICKETS_PRINTED else "metric"
                    said = f"{GLUE_TASKS[task].name}: {named}, {_arm(arm)}"
                    yield Finding(said, by_task[task], table, differs=NOT_RUN)

    return read


def _arm(method: str) -> str:
    return "full model" if method == FULL else words.method_name(method)


def _measured(run: Run, variant: Mapping[str, Any], **printed: Any) -> Finding:
    cut = "" if variant["method"] == FULL else f", {100 * variant['sparsity']:g} % cut"
    said = f"{run.meta['data']['metric']}, {_arm(variant['method'])}{cut}"
    return finding(said, _row(run, variant["variant"]), _seeds(run), **printed)


def _row(run: Run, variant: str) -> dict[str, Any]:
    """The task's metric of a variant on all test texts."""
    return lookup.result(run, variant, run.meta["data"]["metric"]) or {}


def _seeds(run: Run) -> float:
    return float(run.meta["request"]["trials"])
