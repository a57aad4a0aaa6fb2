"""A run as it would look with a variant that is predicted and not measured: the same charts, its
marks hollow."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from engine.report.charts.panel import Panel
from engine.report.contract import Ahead
from engine.store.runs import Run

LEAD = "Predicted, not measured:"
WHERE = (
    "A 95 % prediction interval shows where the measured value should lie. The measured value has "
    "an interval of its own, often a wider one."
)


def joined(run: Run, name: str, ahead: Ahead) -> pd.DataFrame:
    """A table of the run with the predicted rows below its own; in `variants` the column
    `predicted` tells them apart."""
    own, rows = run.table(name), ahead.tables[name]
    own = own[
        own["variant"] != ahead.variant
    ]  # tried on validation prompts, or kept and read on another axis
    rows = rows.reindex(columns=own.columns).dropna(
        axis=1, how="all"
    )  # an empty column must not decide a type
    both = pd.concat([own, rows], ignore_index=True)
    return both.assign(predicted=both["variant"] == ahead.variant) if name == "variants" else both


def said(run: Run, found: Panel) -> Panel:
    """What a chart of `run` says of a predicted variant, called a prediction."""
    if not found.has_chart:
        return found
    return replace(
        found,
        answer=_called(found.answer),
        mind=_foretold(found.mind),
        more=_foretold(found.more),
        caveat=f"{found.caveat} Of what is predicted: {WHERE}",
    )


def _called(text: str) -> str:
    return f"{LEAD} {_foretold(text)}"


def _foretold(text: str) -> str:
    return text.replace("95 % interval", "95 % prediction interval")
