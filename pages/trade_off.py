"""Trade-off: quality against harm for every variant; a point opens its variant."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from engine.report.charts import lookup, pareto
from engine.report.charts.panel import Choice
from engine.report.contract import Measure
from engine.report.tracks import track_of
from pages.shared import measuring, panels, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import capital, choose, choose_reading, segmented, select, show_on
from pages.shared.frame import begin_app, boundary, heading, need_run
from pages.shared.measuring import shown_at


def page() -> None:
    heading("trade_off")
    measured = need_run()
    choice, views = choose(measured, ahead=True), track_of(measured).views
    run = shown_at(measured, choice)
    with st.container(horizontal=True, gap="medium"):
        split = segmented("Measured on", list(views), state.SPLIT, lambda name: views[name].label)
        choice = choose_reading(run, choice)
    panel = made(run, pareto.pareto, choice, split=split)
    clicked = panels.draw(panel, state.PARETO_CHART, selectable=True)
    if panels.fresh(state.PARETO_CHART, clicked):
        state.put_later(state.VARIANT, str(clicked))
        st.rerun()
    _one_variant(run, choice, split)
    shown, level = track_of(run).overview, track_of(run).level
    along = [(run, make, choice) for make in (shown.beside[1], shown.right)]
    if weighed := track_of(measured).weighed(measured):
        panels.fold(
            "Against other ways to make it smaller", [(run, make, choice) for make in weighed]
        )
    panels.fold(f"How it goes along the {level.noun}", along)
    measuring.folds(run, choice)


def _one_variant(run: KeptRun, choice: Choice, split: str) -> None:
    rows = {
        row["variant"]: row
        for row in made(run, pareto.variants_of, choice, split).to_dict("records")
    }
    st.header("What is behind one point?", anchor=False)
    picked = select("Variant", list(rows), state.VARIANT, lambda name: _label(run, rows[name]))
    row = rows[picked]
    st.markdown(track_of(run).instead(run, row) or f"Cut: {lookup.amount(run, row)}.")
    panels.table(_numbers(run, picked, choice, split), decimals=3)
    if row["chosen"] and st.button("Open in the summary", icon=":material/dashboard:"):
        show_on("summary", run, row)


def _label(run: KeptRun, row: dict) -> str:
    track = track_of(run)
    return capital(f"{lookup.variant_label(run, row)}{track.mark(row)}{track.draw(row)}")


def _numbers(run: KeptRun, variant: str, choice: Choice, split: str) -> pd.DataFrame:
    track = track_of(run)
    rows = []
    for measure in track.details(choice.reading):
        row = lookup.measured(run, variant, measure, choice, track.views[split].split)
        if row is not None:
            rows.append(_line(measure, row))
    return pd.DataFrame(rows)


def _line(measure: Measure, row: dict) -> dict[str, object]:
    return {
        "Measure": capital(measure.word.name),
        "Value": row["value"],
        "Low": row["low"],
        "High": row["high"],
        "Change": row["delta"],
        "Change low": row["delta_low"],
        "Change high": row["delta_high"],
        "n": int(row["n"]),
    }


begin_app()
with boundary():
    page()
