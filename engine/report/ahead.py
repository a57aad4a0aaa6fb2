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
    """A table of the run with the predicted rows below its own; in `variants` the column `predicted` tells them
    apart."""
    own, rows = run.table(name), ahead.tables[name]
    rows = rows.reindex(columns=own.columns).dropna(axis=1, how="all")  # an empty column must not decide a type
    both = pd.concat([own, rows], ignore_index=True)
    return both.assign(predicted=both["variant"] == ahead.variant) if name == "variants" else both


def said(found: Panel | Headline) -> Panel | Headline:
    """What a chart or a headline says of a predicted variant, called a prediction."""
    if isinstance(found, Panel):
        return replace(found, answer=f"{LEAD} {found.answer}") if found.has_chart else found
    return replace(found, sentence=f"{LEAD} {found.sentence}")
