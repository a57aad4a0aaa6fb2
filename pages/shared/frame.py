"""Around every page: configuration, style, navigation, the run and what must be known about it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING

import streamlit as st
from streamlit.errors import StreamlitPageNotFoundError
from streamlit.runtime.pages_manager import PagesManager

from engine.core import words
from engine.core.errors import PruneAuditError
from engine.core.files import ASSETS, PROJECT
from engine.core.types import AXES, Values
from engine.report import phrasing
from engine.report.charts.panel import Choice
from engine.report.measured import notes_in_words
from engine.report.tracks import Track, question, track_of, tracks
from engine.store.runs import Run
from pages.shared import cache, state, welcome
from pages.shared.controls import button, choose, is_dark
from pages.shared.navigation import (
    FIRST,
    WORKSPACE,
    Tab,
    draw_tabs,
    entry_of,
    offered,
    shown,
    sorted_in,
)
from pages.shared.safe import boundary, escaped, header, plain, visible

if TYPE_CHECKING:
    from engine.audit.jobs import JobState

PAGES = PROJECT / "pages"
SCRIPTS = ("history.js", "names.js", "save.js")
"""Files of assets/ that run in the browser: what Streamlit has no way to say."""
ABOUT = (
    "**PruneAudit**: if we cut these parts of a model, who pays, and how sure are we? Runs on this"
    " machine only."
)
_FRAMED: ContextVar[bool] = ContextVar("framed", default=False)
"""True while app.py runs a page: the frame is drawn already."""
_SEEN: ContextVar[dict[str, cache.KeptRun] | None] = ContextVar("seen", default=None)
"""Runs by id that were looked for while app.py runs a page: its parts ask for the same one."""


def begin_app() -> None:
    """Once per script run, from the first caller: app.py, or a page opened by a cold link or on its
    own."""
    if PagesManager.uses_pages_directory:
        # A deep link before app.py ever ran makes Streamlit list pages/ itself and skip app.py.
        # Announce our pages and start over: from now on app.py comes first.
        # First the configuration: else the page's icon becomes the favicon, which the browser
        # fetches from the internet.
        _configure()
        navigation()
        st.rerun()
    if _FRAMED.get():
        return
    state.leave_page()
    state.settle()
    if state.reclaim():
        st.rerun()
    _configure()
    st.html(ASSETS / "style.css")
    st.html(_colours())
    script = "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS)
    st.html(f"<script>{script}</script>", unsafe_allow_javascript=True)
    st.logo(str(ASSETS / "logo.svg"), size="large")
    if page := state.take(state.GO_TO):
        state.leave_page(at_once=True)
        turn_to(page)
    with boundary():
        _choose_run()
        welcome.subject_line(current_run())
        if page := welcome.tour_line(current_run()):
            turn_to(page)
    with boundary():
        live_strip()


def draw_page(page: Callable[[], None]) -> None:
    """The frame, and in it a page."""
    begin_app()
    with boundary():
        page()


def tabbed(page: str, tabs: Sequence[Tab] = ()) -> None:
    """A page of nothing but tabs: these, or those that the track of the chosen run names."""
    run, choice = opened(page)
    draw_tabs(page, run, choice, tabs or offered(page, run))


def _configure() -> None:
    logo = str(ASSETS / "logo.svg")
    st.set_page_config(
        page_title="PruneAudit", page_icon=logo, layout="wide", menu_items={"About": ABOUT}
    )


COLOURS = {
    "light": "--pa-ring: #00629b; --pa-caption: #525c66; --pa-good: #0a7a52; --pa-bad: #b34700;"
    " --pa-fault: #b3152b; --pa-on-primary: #ffffff;",
    # Streamlit writes white on every primary button, which is too bright a ground for it here.
    "dark": "--pa-ring: #6cc0f0; --pa-caption: #b3bcc5; --pa-good: #4cd1a0; --pa-bad: #ff9a57;"
    " --pa-fault: #ff8a80; --pa-on-primary: var(--pa-paper);",
}


def _colours() -> str:
    """The theme's colours for the style sheet; Streamlit tells its own to components only."""
    theme = "dark" if is_dark() else "light"
    paper = st.get_option(f"theme.{theme}.backgroundColor")
    return f"<style>:root {{ {COLOURS[theme]} --pa-paper: {paper}; }}</style>"


def run_page() -> None:
    """Run the page of the address, below the frame that begin_app drew."""
    page = navigation()
    if page.url_path:
        welcome.leave()
    framed, seen = _FRAMED.set(True), _SEEN.set({})
    try:
        page.run()
    finally:
        _FRAMED.reset(framed)
        _SEEN.reset(seen)


def navigation() -> st.Page:
    """The pages found in pages/, by section; those that the chosen audit has nothing for are not
    listed, but open by their links and say so."""
    run = None
    with contextlib.suppress(PruneAuditError):  # the page says why it cannot be read
        run = current_run()
    found = sorted(path.stem for path in PAGES.glob("[!_]*.py"))
    sections = {
        title: [_page(name, shown(name, run), run) for name in names]
        for title, names in sorted_in(found).items()
    }
    # Streamlit gives the first page no address but "/": its name leads on to it, with parameters.
    by_name = st.Page(
        lambda: turn_to(FIRST, st.query_params.to_dict()),
        title=entry_of(FIRST).title,
        url_path=FIRST,
        visibility="hidden",
    )
    sections[WORKSPACE].append(by_name)
    return st.navigation(sections, expanded=True)


def _page(name: str, is_shown: bool, run: cache.KeptRun | None = None) -> st.Page:
    entry, is_first = entry_of(name, run), name == FIRST
    return st.Page(
        PAGES / f"{name}.py",
        title=entry.title + (jobs_badge() if name == "jobs" else ""),
        icon=f":material/{entry.icon}:",
        default=is_first,
        url_path="" if is_first else name,
        visibility="visible" if is_shown else "hidden",
    )


def _choose_run() -> None:
    """The run that the address or the reader asked for, else the first; its id goes into the
    address."""
    summaries = {summary.id: summary for summary in cache.all_runs()}
    if not summaries:
        return
    welcome.notice()
    wanted = state.wanted_run()
    if wanted not in (None, state.kept(state.DELETED), *summaries):
        st.warning(
            "The link names an audit that is not here. Another one is shown.",
            icon=":material/link_off:",
        )
    state.remember_run(wanted if wanted in summaries else next(iter(summaries)))


def current_run() -> cache.KeptRun | None:
    """The chosen run, None when there is none."""
    run_id, seen = state.kept(state.RUN), _SEEN.get()
    if seen and run_id in seen:
        return seen[run_id]
    if run_id not in {summary.id for summary in cache.all_runs()}:
        return None
    found = cache.open_run(run_id)
    if seen is not None:
        seen[run_id] = found
    return found


def heading(page: str, notes: bool = True) -> None:
    """The page's title: in plain words, the question it answers; beside it what must be known about
    the run."""
    run = current_run()
    warnings = cache.made(run, notes_in_words) if run and notes else ()
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
    ):
        st.title(question(page, run), anchor=False, width="stretch")
        if warnings:
            label = phrasing.count(len(warnings), "note")
            with st.popover(
                label,
                icon=":material/info:",
                help="What must be known about this audit",
                width="content",
            ):
                for warning in warnings:
                    st.text(visible(warning))
                link("measured", "How it was measured")


def title_of(title: str, axes: Sequence[str] = AXES) -> str:
    """A run's or job's title with axes in words."""
    return words.title_said(title, axes)


def need_run(page: str) -> cache.KeptRun:
    """The chosen run; a page without one ends here, saying what to do. So does one that only other
    kinds of audit have."""
    run = current_run()
    if run is None:
        with st.container(border=True):
            header("Nothing to show yet")
            st.markdown("This page reads a finished audit and there is none. Start one.")
            link("new_audit", "New audit")
        return st.stop()
    owners = [track for track in tracks().values() if page in track.screens.pages]
    if owners and track_of(run) not in owners:
        _elsewhere(run, owners[0])
    return run


def opened(page: str, ahead: bool = False) -> tuple[cache.KeptRun, Choice]:
    """The page's title, the chosen run and what is chosen of it; `ahead`: levels nobody measured
    are offered too."""
    heading(page)
    run = need_run(page)
    return run, choose(run, ahead)


def _elsewhere(run: cache.KeptRun, owner: Track) -> None:
    """The page belongs to another kind of audit: say so, and where this one is shown instead."""
    mine = track_of(run)
    with st.container(border=True):
        header(f"This page is about {owner.nouns.about}")
        st.markdown(
            plain(
                f"The chosen audit is about {mine.nouns.about}. Choose another one above, or go on"
                " with it:"
            )
        )
        link(mine.screens.pages[0], f"See its {mine.nouns.many}")
        link("summary", "Back to its summary")
    st.stop()


def link(page: str, label: str, **parameters: str) -> None:
    """A link to another page; silent where a page runs on its own and has no siblings."""
    with contextlib.suppress(st.errors.StreamlitAPIException, KeyError):
        icon = f":material/{entry_of(page).icon}:"
        st.page_link(
            PAGES / f"{page}.py",
            label=label,
            icon=icon,
            query_params=parameters or None,
        )


def show_on(page: str, run: Run, variant: Values) -> None:
    """Open a page with this variant chosen. A link's parameters would lose against what the session
    remembers."""
    level = track_of(run).level
    chosen = {level.key: round(float(variant[level.column]), 9)}
    if variant["variant"] != "dense":
        chosen[state.METHOD] = variant["method"]
    if variant.get("target_axis"):
        chosen[state.AXIS] = variant["target_axis"]
    for key, value in chosen.items():
        state.put_later(key, state.keep(key, value))
    turn_to(page)


def leave() -> None:
    """First in a fragment whose callbacks use `state.go`: Streamlit turns pages from a whole script
    run only."""
    if state.kept(state.GO_TO):
        st.rerun(scope="app")


def turn_to(page: str, parameters: Mapping[str, str] | None = None) -> None:
    """Open another page, with nothing in the address but `parameters` and the run; nothing happens
    where a page runs on its own.

    Streamlit refuses to forget an address that widgets are bound to, but not to write another one.
    """
    with contextlib.suppress(StreamlitPageNotFoundError):
        st.switch_page(
            PAGES / f"{page}.py",
            query_params={**state.run_named(), **(parameters or {})},
        )


# A line on every page about audits under way, and the way to the result of one that has ended.

EVERY = 3.0
"""Seconds between two looks. Without a job there is no fragment, and no look but the one when a
page is drawn."""
MOVING = ("queued", "running")
MOST = 3
"""Jobs that are named; the page about jobs has all."""


def live_strip() -> None:
    """Drawn with the frame."""
    if _here():
        _redrawn(state.page_drawn())


def jobs_badge() -> str:
    """What the navigation adds to "Jobs": how many run or wait; "" for none."""
    number = sum(job.status in MOVING for job in cache.jobs())
    return f" ({number})" if number else ""


def _here() -> list[JobState]:
    """Jobs that move, and those that ended since this session saw them move and were not
    dismissed."""
    found = cache.jobs()
    moving = [job.job_id for job in found if job.status in MOVING]
    watched = state.keep(
        state.WATCHED, list(dict.fromkeys([*state.kept(state.WATCHED, []), *moving]))
    )
    return [job for job in found if job.job_id in watched]


def _redrawn(page: str) -> None:
    """The strip, redrawn by the clock. Its fragment has the page's name: a look that the browser
    asks for on a page that was left meanwhile must not be taken for one of the new page."""

    def look() -> None:
        _live()

    look.__qualname__ = f"strip on {page}"
    st.fragment(look, run_every=EVERY)()


def _live() -> None:
    if state.kept(state.GO_TO):
        st.rerun(scope="app")
    with boundary():
        here = _here()
        moving = [job.job_id for job in here if job.status in MOVING]
        if state.kept(state.MOVED, moving) != moving:
            state.keep(state.MOVED, moving)
            # Something began or ended: the navigation counts it, lists have one more.
            st.rerun(scope="app")
        state.keep(state.MOVED, moving)
        with st.container(key=state.LIVE, gap="xxsmall"):
            for job in here[:MOST]:
                _line(job)
            if len(here) > MOST:
                st.html(f'<p class="pa-live">and {len(here) - MOST} more, on the page Jobs</p>')


def _line(job: JobState) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        title = escaped(words.title_said(job.title, words.AXES))
        st.html(f'<p class="pa-live" role="status">{title}: {_said(job)}</p>', width="content")
        if job.status == "done" and job.run_id:
            button("Open result", ("strip", job.job_id, "open"), _open, job)
        if job.status not in MOVING:
            key = ("strip", job.job_id, "away")
            button("Dismiss", key, _dismiss, job.job_id, type="tertiary")


def _said(job: JobState) -> str:
    """Where a job stands, in a few words."""
    if job.status == "queued":
        return "waiting"
    if job.status != "running":
        return {"done": "finished", "interrupted": "was interrupted"}.get(
            job.status, escaped(job.status)
        )
    share = f" {min(100, round(100 * job.done / job.total))} %" if job.total else ""
    left = f", about {words.duration(job.eta)} left" if job.eta is not None else ""
    return escaped(f"running{share}{left}")


def _open(job: JobState) -> None:
    _dismiss(job.job_id)
    state.open_run(str(job.run_id))


def _dismiss(job_id: str) -> None:
    state.keep(state.WATCHED, [one for one in state.kept(state.WATCHED, []) if one != job_id])
