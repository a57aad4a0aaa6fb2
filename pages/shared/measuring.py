"""Measuring in place: what is predicted is said, a button measures it, and what came out joins the
audit."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import streamlit as st

from engine.audit.request import Growth
from engine.audit.session import absent
from engine.core import words
from engine.core.files import writable
from engine.core.types import is_level
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.hand_sets import LEAD
from engine.report.tracks import Ahead, Benchmarks, Level, benchmarks_of, track_of
from engine.resident.client import start_takes
from engine.store.runs import default_root
from pages.shared import jobs, panels, roots, state
from pages.shared.cache import KeptRun, made, predicted_at
from pages.shared.controls import beside, button, fold, select
from pages.shared.safe import boundary, caption, escaped

ASK = "measure"
NOTHING = "What was measured so far allows no prediction here. It can be measured."
KNOWN = 60.0
"""Seconds below which what an audit took says nothing: its parts were found."""


def shown_at(run: KeptRun, choice: Choice) -> KeptRun:
    """The run as charts show it at this choice. At a level that nobody measured: with what is
    predicted, which is said here, with the way to know; where nothing can be predicted the page
    ends here."""
    shown, ahead = predicted_at(run, choice)
    if ahead is None and is_level(choice.level, lookup.levels(run, choice.method, choice.axis)):
        return shown
    _offer(run, choice, ahead)
    if ahead is None:
        st.stop()
    return shown


def growth_of(run: KeptRun, choice: Choice, **asked: Any) -> Growth:
    """What is to be measured of a run, on the axis that is read."""
    return Growth(track=track_of(run).name, run=run.id, axis=choice.measured, **asked)


def _offer(run: KeptRun, choice: Choice, ahead: Ahead | None) -> None:
    level = track_of(run).level.say(choice.level)
    with st.container(border=True, key=state.key_of("measuring", "level")):
        said = ahead.said if ahead else f"{level} is not measured. {NOTHING}"
        lead = f"<b>{LEAD}</b> " if ahead else ""
        st.html(f'<p class="pa-answer">{lead}{escaped(said)}</p>')
        growth = growth_of(run, choice, method=choice.method, level=choice.level)
        measure(growth, f"Measure {level}", ahead.seconds if ahead else math.nan, run)


def offer_level(run: KeptRun, choice: Choice) -> None:
    """A level nobody asked for, where variants are trained and nothing can be predicted: what it
    takes, and a job."""
    level, request = track_of(run).level, run.request
    with st.popover(f"Measure another {level.noun}", icon=":material/straighten:"):
        st.markdown(
            "Its models are trained as the others were: same data, methods and seeds."
            f" {_takes(run)}"
        )
        wanted, levels = _wanted(level), list(map(float, request[level.asked]))
        key, is_there = state.key_of("level", run.id), is_level(wanted, levels)
        if st.button(f"Measure {level.say(wanted)}", type="primary", disabled=is_there):
            more = {level.asked: sorted([*levels, wanted]), "title": run.meta["title"]}
            with boundary():
                state.keep(key, jobs.start({**request, **more}))
        if state.kept(key):
            st.caption("When it is finished, it opens as this audit with one level more.")
            jobs.one(state.kept(key))


def _wanted(level: Level) -> float:
    """A level that is typed: a factor, or a share in per cent."""
    title, usual = (level.title, 8.0) if level.is_ratio else (f"{level.title}, %", 40.0)
    typed = float(st.number_input(title, value=usual, step=1.0, key=state.LEVEL))
    return typed if level.is_ratio else typed / 100


def _takes(run: KeptRun) -> str:
    """How long it will take, from what the audit took for all of its levels."""
    spent = sum(run.meta["spent"].values())
    levels = len(run.request[track_of(run).level.asked])
    if spent < KNOWN:
        return "The time is not known: this audit was put together from finished parts."
    one, every = words.duration(spent / levels), words.duration(spent * (1 + 1 / levels))
    return (
        f"About {one} where this store holds the audit's finished parts, up to {every} where it"
        " holds none."
    )


def measure(
    growth: Growth, label: str, seconds: float = math.nan, run: KeptRun | None = None
) -> None:
    """A button that measures; while it is measured, how far it is; at the end the page is drawn
    anew. run: where it is measured again on what that read, which must be there."""
    given = growth.to_dict()
    work = jobs.work_of(ASK, given)
    if work and work.running:
        jobs.watched(work, ("stop", growth.run), "Starting the engine")
        return
    about = "" if math.isnan(seconds) else f" (about {words.duration(seconds + start_takes())})"
    against = list(map(str, absent(run))) if run else []
    if not writable(default_root() / "nothing"):
        said = "cannot be written: nothing that is measured could be kept."
        against.append(f"The store {default_root()} {said}")
    # Asked in a callback: a redraw cannot lose it.
    button(
        f"{label}{about}",
        ("measure", *growth.identity.values()),
        jobs.begin,
        ASK,
        given,
        icon="straighten",
        type="primary",
        disabled=bool(against),
    )
    caption(*against, *(map(str, absent(run, spared=True)) if run else ()))
    jobs.told(work)


def benchmarks(run: KeptRun, choice: Choice) -> None:
    """What each published benchmark says of the chosen variant, and a fold to measure another;
    nothing where there are none."""
    own = benchmarks_of(run)
    if own is None:
        return
    for name in own.names(run):
        draw = partial(_benchmark, run, choice, own, name)
        fold(f"What does {own.known()[name]} say?", state.key_of(state.FOLD, name), draw)
    ask = partial(_ask_benchmark, run, choice, own)
    fold("Measure a benchmark", state.key_of(state.FOLD, "benchmark"), ask)


def _benchmark(run: KeptRun, choice: Choice, own: Benchmarks, name: str) -> None:
    panels.draw(made(run, own.panel, choice, name), state.key_of("benchmark", name))


def _ask_benchmark(run: KeptRun, choice: Choice, own: Benchmarks) -> None:
    """Which, and where its file lies; a button that measures every variant on it."""
    st.markdown(
        "Every reported variant is measured on it, paired with the uncut model. Name the "
        "benchmark's file as its authors publish it. The result becomes one more way to read this "
        "page."
    )
    left, right = beside(2, 5)
    with left:
        name = select("Benchmark", own.known(), state.BENCHMARK)
    with right:
        key = state.key_of(state.BENCHMARK_PATH, name)
        typed = st.text_input(f"Path of {own.wants(name)}", key=key, persist_state="session")
    if path := typed.strip():
        growth = growth_of(run, choice, benchmarks=(f"{name}={path}",))
        measure(growth, f"Measure {own.known()[name]}", run=run)
    else:
        st.caption("Name the file; nothing is uploaded, the path is read on this machine.")


JUDGES = (
    "A Detoxify judge by name, or a folder or hub name of a text classifier with safetensors "
    "weights. You say which of its labels is harm. It reads the texts that this audit holds; none "
    "is drawn again."
)


def other_judges(run: KeptRun, choice: Choice) -> None:
    """What other judges say of an audit's texts: the first chart, the others folded, and below them
    the form to ask one more; nothing where the audit holds no texts."""
    charts = track_of(run).charts.judged
    if not charts or not run.has("texts"):
        return
    first, *more = charts
    panels.draw(made(run, first, choice))
    if run.has("opinions"):
        panels.folded("What each judge says of the groups' names alone", run, choice, more)
    with st.expander("Ask another judge", icon=":material/gavel:"):
        _ask_judge(run, choice)


def _ask_judge(run: KeptRun, choice: Choice) -> None:
    st.markdown(JUDGES)
    left, right = st.columns(2)
    judge = left.text_input("Judge", key=state.JUDGE, placeholder="Folder or hub name").strip()
    label = right.text_input(
        "Its label that is harm", key=state.JUDGE_LABEL, placeholder="Only of a classifier"
    ).strip()
    everywhere = st.toggle(
        "On every axis", key=state.JUDGE_AXES, help="Otherwise on the axis chosen above."
    )
    if judge:
        with boundary():
            roots.refuse_outside({"judge": judge})
            axes = run.request["axes"] if everywhere else (choice.measured,)
            growth = growth_of(run, choice, axes=tuple(axes), judge=judge, label=label)
            measure(growth, "Ask this judge")
