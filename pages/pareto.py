"""Pareto: perplexity against bias for every method, sparsity and γ; a point opens its variant."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from engine import words
from engine.export.panels import lookup, pareto
from engine.export.panels.base import Choice
from pages.shared import panels, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import capital, choose, segmented, select
from pages.shared.frame import begin_app, boundary, heading, need_run, turn_to

SPLITS = {"test": "Test prompts (reported)", "validation": "Validation prompts (every γ tried)"}
SHOWN = ("perplexity", "gap", "worst_group", "best_group", "toxicity", "toxic_share")


def page() -> None:
    heading(words.PAGES["pareto"])
    run = need_run()
    choice = choose(run)
    split = segmented("Measured on", list(SPLITS), state.SPLIT, SPLITS.get)
    panel = made(run, pareto.pareto, choice, split=split)
    clicked = panels.draw(panel, state.PARETO_CHART, selectable=True)
    if panels.fresh(state.PARETO_CHART, clicked):
        state.put_later(state.VARIANT, str(clicked))
        st.rerun()
    _one_variant(run, choice, split)


def _one_variant(run: KeptRun, choice: Choice, split: str) -> None:
    variants = run.table("variants")
    mine = lookup.of_axis(run, variants, choice.axis)
    if split == lookup.REPORTED:
        mine = mine[mine["chosen"].astype(bool)]
    rows = {row["variant"]: row for row in mine.to_dict("records")}
    st.subheader("What is behind one point?", anchor=False)
    picked = select("Variant", list(rows), state.VARIANT, lambda name: _label(rows[name]))
    row = rows[picked]
    st.markdown(f"Cut: {lookup.amount(run, row)}.")
    panels.table(_numbers(run, picked, choice, split), decimals=3)
    if row["chosen"] and st.button("Open in the overview", icon=":material/dashboard:"):
        if picked != "dense":
            state.keep(state.METHOD, row["method"])
        state.keep(state.SPARSITY, round(float(row["sparsity"]), 9))
        turn_to("overview")


def _label(row: dict) -> str:
    text = lookup.variant_label(row)
    if not pd.isna(row["gamma"]):
        text += f", γ = {row['gamma']:g}"
    if row["seed"] >= 0:
        text += f", draw {row['seed']}"
    return capital(text)


def _numbers(run: KeptRun, variant: str, choice: Choice, split: str) -> pd.DataFrame:
    rows = []
    for metric in (f"bias:{choice.reading}", *SHOWN):
        axis = "" if metric == "perplexity" else choice.measured
        row = lookup.result(run, variant, metric, axis, split)
        if row is not None:
            rows.append(_line(metric, row))
    return pd.DataFrame(rows)


def _line(metric: str, row: dict) -> dict[str, object]:
    return {
        "Measure": capital(words.metric_name(metric)),
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
