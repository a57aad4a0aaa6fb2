"""Is it which filters BiFP keeps, or how many in each layer? BiFP minus controls in its own
widths."""

from __future__ import annotations

import pandas as pd

from engine.core import words
from engine.core.ids import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import trials_said
from engine.report.charts.columns import readable
from engine.report.charts.differences import direction
from engine.report.charts.panel import Choice, Panel, nothing
from engine.report.contract import Measure
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.panels.differences import COLUMNS, difference_figure
from engine.tracks.fair_training.panels.lookup import CONTROLS, FOUND, images_read, stated

QUESTION = "Is it which filters BiFP keeps, or how many in each layer?"
MEASURES = ("accuracy", "accuracy_gap", "tpr_gap", "degradation_gap")


def widths(run: Run, choice: Choice) -> Panel:
    """BiFP-str minus each control: a row per control, a column per measure."""
    table = against(run, choice)
    if table.empty:
        return nothing("fair_widths", QUESTION, own.NO_CONTROLS)
    order = list(dict.fromkeys(table["method"]))
    measures = [
        Measure(name, few=track_of(run).items) for name in MEASURES if name in set(table["metric"])
    ]
    parts = tuple(difference_figure(run, choice, table, measure, order) for measure in measures)
    at = lookup.level_of(run, choice)
    note = (
        f"{words.method_name(FOUND)} minus each control at {phrasing.percent(at)}, same test"
        f" images, {trials_said(run)}; controls keep as many filters of every layer as it kept in"
        " that seed, so their FLOPs are equal, and are trained as P&F. Draws of one seed are"
        " averaged before seeds are compared. Filled points: claimed (q of at most .05). A"
        " difference that is not told apart is no proof of equality."
        f" {own.INTERVALS_SEEDS}{images_read(run, [FOUND, *order], at)}"
    )
    answer, more = _found(run, choice)
    return Panel(
        "fair_widths",
        QUESTION,
        answer,
        None,
        readable(table, COLUMNS),
        note,
        parts,
        True,
        more=more,
    )


def against(run: Run, choice: Choice) -> pd.DataFrame:
    """BiFP-str minus its controls at the chosen sparsity, a row per control and measure; empty
    where there are none."""
    if not run.has("arm_differences"):
        return pd.DataFrame()
    table = lookup.frame(run, "arm_differences")
    here = (
        (table["base"] == FOUND)
        & table["method"].isin(CONTROLS)
        & (table["group"] == "")
        & table["value"].notna()
    )
    rows = table[here & at_level(table["sparsity"], lookup.level_of(run, choice))]
    rows = rows[
        (rows["axis"] == choice.measured) | ((rows["axis"] == "") & (rows["metric"] == "accuracy"))
    ]
    rows = rows[rows["metric"].isin(MEASURES)]
    return rows.assign(value=-rows["value"], low=-rows["high"], high=-rows["low"]).reset_index(
        drop=True
    )


def _found(run: Run, choice: Choice) -> tuple[str, str]:
    """The verdict in a sentence, and every difference; two empty texts without controls."""
    table, name = against(run, choice), words.method_name(FOUND)
    if table.empty:
        return "", ""
    parts, apart = [], []
    for control, rows in table.groupby("method", sort=False):
        said = [
            f"{Measure(row['metric']).name} {stated(Measure(row['metric']), row)}"
            for row in rows.to_dict("records")
        ]
        parts.append(f"against {words.method_name(str(control))}, {phrasing.listing(said)}")
        apart += [
            row["metric"] for row in rows.to_dict("records") if direction(row) in ("fell", "rose")
        ]
    found = f"{name}'s own filters, {'; '.join(parts)}."
    if not apart:
        return (
            f"Nothing is told apart: here {name} found layer widths, not filters that others lack.",
            found,
        )
    what = phrasing.listing([words.metric_name(metric) for metric in dict.fromkeys(apart)])
    return f"For {what} it matters which filters stay, not only how many of each layer.", found
