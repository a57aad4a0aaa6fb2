"""A run as it would look with a variant that is predicted and not measured: the same charts, its marks hollow."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from engine.report.charts.headline import Headline
from engine.report.charts.panel import Panel
from engine.report.contract import Ahead
from engine.store.runs import Run

LEAD = "Predicted, not measured:"


def joined(run: Run, name: str, ahead: Ahead) -> pd.DataFrame:
    """A table of the run with the predicted rows below its own; column `predicted` tells them apart."""
    own, more = run.table(name), ahead.tables.get(name)
    if more is None:
        return own
    columns = [*own.columns, *([] if "predicted" in own else ["predicted"])]
    rows = more.reindex(columns=columns).assign(predicted=True)
    kept = rows.dropna(axis=1, how="all").columns  # an all-empty column must not decide the type of the whole
    return pd.concat([own.assign(predicted=False), rows[kept]], ignore_index=True).reindex(columns=columns)


def said(found: Panel | Headline) -> Panel | Headline:
    """What a chart or a headline says of a predicted variant, called a prediction."""
    if isinstance(found, Panel):
        return replace(found, answer=f"{LEAD} {found.answer}") if found.has_chart else found
    return replace(found, sentence=f"{LEAD} {found.sentence}")
