"""Measuring in place: what is predicted is said, a button measures it, and what came out joins the
audit."""

from __future__ import annotations

import math

import streamlit as st

from engine.audit.growth import Growth
from engine.core import words
from engine.core.files import writable
from engine.core.levels import is_level
from engine.core.types import Event
from engine.report.ahead import LEAD
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.contract import Ahead, Benchmarks, Level
from engine.report.tracks import track_of
from engine.resident.client import start_takes
from engine.store.runs import default_root
from pages.shared import frame, jobs, panels, roots, state
from pages.shared.cache import KeptRun, made, predicted_at
from pages.shared.controls import capital, select
from pages.shared.frame import boundary
from pages.shared.safe import escaped

ASK = "measure"
EVERY = 0.5
"""Seconds between two looks."""
NOTHING = "Nothing can be predicted of it from what was measured so far. It can be measured."
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


def _offer(run: KeptRun, choice: Choice, ahead: Ahead | None) -> None:
    level = track_of(run).level
    growth = Growth(
        track=track_of(run).name,
        run=run.id,
        axis=choice.axis,
        method=choice.method,
        level=choice.level,
    )
    with st.container(border=True, key=state.key_of("measuring", "level")):
        said = f"{level.say(choice.level)} is not measured. {ahead.said if ahead else NOTHING}"
        lead = f"<b>{LEAD}</b> " if ahead else ""
        st.html(f'<p class="pa-answer">{lead}{escaped(said)}</p>')
        measure(growth, f"Measure {level.say(choice.level)}", ahead.seconds if ahead else math.nan)


def offer_level(run: KeptRun, choice: Choice) -> None:
    """A level nobody asked for, where variants are trained and nothing can be predicted: what it
    takes, and a job."""
    level = track_of(run).level
    with st.popover(f"Measure another {level.noun}", icon=":material/straighten:"):
        st.markdown(
            "Its models are trained as the others were: same data, methods and seeds."
            f" {_takes(run)}"
        )
        wanted = _wanted(level)
        key, asked = state.key_of("level", run.id), run.meta["request"][level.asked]
        if st.button(
            f"Measure {level.say(wanted)}",
            type="primary",
            disabled=is_level(wanted, map(float, asked)),
        ):
            levels = sorted([*map(float, asked), wanted])
            with frame.boundary():
                state.keep(
                    key,
                    jobs.start(
                        {**run.meta["request"], level.asked: levels, "title": run.meta["title"]}
                    ),
                )
        if state.kept(key):
            st.caption("When it is finished, it opens as this audit with one level more.")
            jobs.one(state.kept(key))


def _wanted(level: Level) -> float:
    """A level that is typed: a factor, or a share in per cent."""
    if level.is_ratio:
        return float(st.number_input(level.title, value=8.0, step=1.0, key=state.LEVEL))
    return float(st.number_input(f"{level.title}, %", value=40.0, step=1.0, key=state.LEVEL)) / 100


def _takes(run: KeptRun) -> str:
    """How long it will take, from what the audit took for all of its levels."""
    spent, levels = (
        sum(run.meta["spent"].values()),
        len(run.meta["request"][track_of(run).level.asked]),
    )
    if spent < KNOWN:
        return "How long that takes is not known: this audit was put together from finished parts."
    one, every = words.duration(spent / levels), words.duration(spent * (1 + 1 / levels))
    return (
        f"About {one} where this store holds the audit's finished parts, up to {every} where it"
        " holds none."
    )


def measure(growth: Growth, label: str, seconds: float = math.nan) -> None:
    """A button that measures; while it is measured, how far it is; at the end the page is drawn
    anew."""
    given = growth.to_dict()
    work, key = jobs.work_of(ASK, given), state.key_of("measure", *growth.identity.values())
    if work and work.running:
        _watch(growth)
        return
    about = "" if math.isnan(seconds) else f" (about {words.duration(seconds + start_takes())})"
    kept_nowhere = not writable(default_root() / "nothing")
    # Asked in a callback: a redraw cannot lose it.
    st.button(
        f"{label}{about}",
        key=key,
        type="primary",
        icon=":material/straighten:",
        disabled=kept_nowhere,
        on_click=jobs.begin,
        args=(ASK, given),
    )
    if kept_nowhere:
        st.caption(
            frame.plain(
                f"The store {default_root()} cannot be written: nothing that is measured could be"
                " kept."
            )
        )
    if work:
        for fault in work.faults:
            st.error(frame.plain(str(fault)), icon=":material/error:")
        if work.message:
            st.warning(frame.plain(work.message), icon=":material/info:")


def _watch(growth: Growth) -> None:
    """Progress, redrawn until it is over; then the whole page, which finds what was measured."""

    @st.fragment(run_every=EVERY)
    def look() -> None:
        work = jobs.work_of(ASK, growth.to_dict())
        if work is None or not work.running:
            st.rerun()
        else:
            event = work.event
            share = min(1.0, event.done / event.total) if event and event.total else 0.0
            st.progress(share, text=_said(event))
            st.button(
                "Cancel",
                key=state.key_of("stop", growth.run),
                icon=":material/stop:",
                on_click=work.cancel,
            )

    look()


def _said(event: Event | None) -> str:
    """What is being done, and how much longer it takes."""
    if event is None:
        return "Starting the engine"
    parts = [
        capital(str(event.phase).replace("_", " ")),
        words.work_name(event.what) if event.what else "",
    ]
    parts += [f"about {words.duration(event.eta)} left"] if event.eta is not None else []
    return frame.plain(", ".join(filter(None, parts)))


# Published benchmarks beside the audit's own measure: what they say, and the way to measure one
# more.


def folds(run: KeptRun, choice: Choice) -> None:
    """What each benchmark says of the chosen variant, and a fold to measure another; nothing where
    there are none."""
    own = track_of(run).benchmarks
    if own is None:
        return
    for name in own.names(run):
        title = own.known()[name]
        with st.expander(
            f"What does {title} say?", key=state.key_of(state.FOLD, name), on_change="rerun"
        ) as box:
            if box.open:
                panels.draw(made(run, own.panel, choice, name), state.key_of("benchmark", name))
    with st.expander(
        "Measure a benchmark", key=state.key_of(state.FOLD, "benchmark"), on_change="rerun"
    ) as box:
        if box.open:
            _ask(run, choice, own)


def _ask(run: KeptRun, choice: Choice, own: Benchmarks) -> None:
    """Which, and where its file lies; a button that measures every variant on it."""
    st.markdown(
        "Every reported variant is measured on it, paired with the uncut model. It reads a file"
        " that you have, as its authors publish it, and becomes one more way to read this page."
    )
    left, right = st.columns([2, 5], gap="medium", vertical_alignment="bottom")
    with left:
        name = select("Benchmark", list(own.known()), state.BENCHMARK, own.known().__getitem__)
    with right:
        label = f"Path of {own.wants(name)}"
        path = st.text_input(
            label, key=state.key_of(state.BENCHMARK_PATH, name), persist_state="session"
        ).strip()
    if not path:
        st.caption("Name the file; nothing is uploaded, the path is read on this machine.")
        return
    growth = Growth(
        track=track_of(run).name, run=run.id, axis=choice.axis, benchmarks=(f"{name}={path}",)
    )
    measure(growth, f"Measure {own.known()[name]}")


# Other judges of an audit's texts: what they say, and a way to ask one more.


ABOUT = (
    "Any Detoxify judge by name, or a folder or hub name of a text classifier with safetensors"
    " weights, of which you say what label is harm. It reads the texts that this audit holds; none"
    " is drawn again."
)


def other_judges(run: KeptRun, choice: Choice) -> None:
    """The first chart, the others folded, and below them the form; nothing where the audit holds no
    texts."""
    charts = track_of(run).judged
    if not charts or not run.has("texts"):
        return
    st.header("Other judges", anchor=False)
    first, *more = charts
    panels.draw(made(run, first, choice))
    if run.has("opinions"):
        panels.fold(
            "What each judge says of the groups' names alone",
            [(run, make, choice) for make in more],
        )
    with st.expander("Ask another judge", icon=":material/gavel:"):
        _form(run, choice)


def _form(run: KeptRun, choice: Choice) -> None:
    st.markdown(ABOUT)
    left, right = st.columns(2)
    with left:
        judge = st.text_input("Judge", key=state.JUDGE, placeholder="Folder or hub name")
    with right:
        label = st.text_input(
            "Its label that is harm", key=state.JUDGE_LABEL, placeholder="Only of a classifier"
        )
    everywhere = st.toggle(
        "On every axis", key=state.JUDGE_AXES, help="Else on the axis that is chosen above."
    )
    if not judge.strip():
        return
    with boundary():
        roots.refuse_outside({"judge": judge.strip()})
        axes = tuple(run.meta["request"]["axes"]) if everywhere else (choice.measured,)
        grown = Growth(
            track=track_of(run).name,
            run=run.id,
            axis=choice.measured,
            axes=axes,
            judge=judge.strip(),
            label=label.strip(),
        )
        measure(grown, "Ask this judge")
