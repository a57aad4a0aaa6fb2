"""Trade-off: quality against harm for every variant; a point opens its variant."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from engine.report.charts import lookup, pareto
from engine.report.charts.panel import Choice
from engine.report.tracks import track_of
from pages.shared import panels, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import button, capital, choose_reading, line, segmented, select
from pages.shared.frame import draw_page, opened, show_on
from pages.shared.measuring import benchmarks, shown_at
from pages.shared.safe import header


def page() -> None:
    measured, choice = opened("trade_off", ahead=True)
    track = track_of(measured)
    run = shown_at(measured, choice)
    with line():
        views = {name: view.label for name, view in track.front.views.items()}
        split = segmented("Measured on", views, state.SPLIT)
        choice = choose_reading(run, choice)
    panel = made(run, pareto.pareto, choice, split=split)
    clicked = panels.draw(panel, state.PARETO_CHART, selectable=True)
    if panels.fresh(state.PARETO_CHART, clicked):
        state.put_later(state.VARIANT, str(clicked))
        st.rerun()
    _one_variant(run, choice, split)
    if weighed := track.ways.weighed(measured):
        panels.folded("Against other ways to make it smaller", run, choice, weighed)
    along = (track.charts.harm, track.charts.quality)
    panels.folded(f"How it goes along the {track.level.noun}", run, choice, along)
    benchmarks(run, choice)


def _one_variant(run: KeptRun, choice: Choice, split: str) -> None:
    track, table = track_of(run), made(run, pareto.variants_of, choice, split)
    rows = {row["variant"]: row for row in table.to_dict("records")}
    named = {
        name: capital(f"{lookup.variant_label(run, row)}{track.variants.mark(row)}")
        for name, row in rows.items()
    }
    header("What is behind one point?")
    state.follow(state.VARIANT, lookup.variant_of(run, choice)["variant"], named)
    picked = select("Variant", named, state.VARIANT)
    row = rows[picked]
    st.markdown(track.ways.instead(row) or f"Cut: {lookup.amount(run, row)}.")
    panels.table(_numbers(run, picked, choice, split), decimals=3)
    if row["chosen"] and button("Open in the summary", ("open", "variant"), icon="dashboard"):
        show_on("summary", run, row)


COLUMNS = {
    "Value": "value",
    "Low": "low",
    "High": "high",
    "Change": "delta",
    "Change low": "delta_low",
    "Change high": "delta_high",
}


def _numbers(run: KeptRun, variant: str, choice: Choice, split: str) -> pd.DataFrame:
    track, rows = track_of(run), []
    for measure in track.readings.details(choice.reading):
        row = lookup.measured(run, variant, measure, choice, track.front.views[split].split)
        if row is not None:
            numbers = {title: row[name] for title, name in COLUMNS.items()}
            rows.append({"Measure": capital(measure.word.name), **numbers, "n": int(row["n"])})
    return pd.DataFrame(rows)


draw_page(page)
