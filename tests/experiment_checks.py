"""What must hold for the experiments of every track."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from engine.audit.experiments import COLUMNS, Experiment, ExperimentAsk, experiments
from engine.audit.tracks import track_of_request
from engine.store.runs import Run

QUICK = ExperimentAsk(quick=True)


def of_paper(paper: str) -> dict[str, Experiment]:
    return {name: one for name, one in experiments().items() if one.paper == paper}


def without_words(request: Any) -> Any:
    """The request without what changes no number."""
    return replace(
        request, title="", **({"experiment": ""} if hasattr(request, "experiment") else {})
    )


def check_quick_requests(found: dict[str, Experiment]) -> None:
    """Every quick request holds up; equal ones are checked once."""
    requests: list[Any] = []
    for one in found.values():
        for request in one.requests(QUICK):
            if without_words(request) not in requests:
                requests.append(without_words(request))
    for request in requests:
        track_of_request(request).part("validate")(request)


def check_reading(one: Experiment, runs: Sequence[Run], ask: ExperimentAsk = QUICK) -> Any:
    """The table has every column, and every number of ours what it was measured on; the charts are
    drawn."""
    table = one.table(runs, ask)
    assert tuple(table.columns) == COLUMNS and len(table)
    ours = table[table["ours"].notna()]
    assert len(ours) and ours["seeds"].notna().all()
    ends = ours[ours["low"].notna()]
    assert (ends["low"] <= ends["ours"] + 1e-9).all() and (
        ends["ours"] <= ends["high"] + 1e-9
    ).all()
    assert table.loc[table["paper"].notna(), "where"].ne("").all()
    assert all(panel.question and panel.said for panel in one.panels(runs, ask))
    return table
