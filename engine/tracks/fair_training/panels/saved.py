"""What a sparse model saves: nothing where single weights are zero."""

from __future__ import annotations

from dataclasses import replace

from engine.report import phrasing
from engine.report.charts import cost, lookup
from engine.report.charts.panel import Choice, Panel
from engine.store.runs import Run
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.panels.lookup import FILTERS, WEIGHTS


def saved(run: Run, choice: Choice) -> Panel:
    """The cost panel, with what the units of the method mean for it."""
    variant, panel = lookup.variant_of(run, choice), cost.cost(run, choice)
    if variant.get("units") == WEIGHTS:
        share = phrasing.percent(round(float(variant["parameters_cut"]), 3))
        return replace(
            panel, answer=f"{share} of all parameters are zero.", mind=own.NOT_FASTER, more=""
        )
    if variant["variant"] != "dense" and variant.get("units") != FILTERS:
        return replace(panel, answer="Nothing is cut here, so nothing is saved.", mind="", more="")
    if variant["variant"] == "dense":
        return panel
    return replace(panel, caveat=f"{panel.caveat} The model of the first seed.")
