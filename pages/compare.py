"""Compare: two or more audits side by side, what differs between their settings, and whether they
compare at all."""

from __future__ import annotations

import streamlit as st

from engine.report import phrasing
from engine.report.charts import compare
from engine.report.charts.panel import Choice
from engine.report.tracks import track_of
from pages.shared import cache, panels, state
from pages.shared.controls import axis_label, choose, choose_reading
from pages.shared.frame import draw_page, heading, link, need_run, title_of
from pages.shared.safe import caption, escaped, header, plain, visible


def page() -> None:
    heading("compare")
    run = need_run("compare")
    every = [summary for summary in cache.all_runs() if summary.id != run.id]
    kind, name_of = track_of(run).name, cache.track_name_of
    others = [one for one in every if compare.comparable(kind, name_of(one.id))]
    if not others:
        kind = f" of {track_of(run).nouns.about}" if every else ""
        with st.container(border=True):
            st.markdown(
                f"There is only one finished audit{kind}, so there is nothing to compare it with."
            )
            link("new_audit", "Start another audit")
        return
    choice = choose_reading(run, choose(run))
    # Audits with an axis in common come first: one of them is compared unasked.
    others.sort(key=lambda summary: not set(_axes(run)) & set(summary.axes))
    names = {
        summary.id: f"{title_of(summary.title, summary.axes)} ({summary.created[:10]})"
        for summary in others
    }
    picked = st.multiselect(
        plain(f"Compare “{title_of(run.meta['title'])}” with"),
        list(names),
        default=list(names)[:1],
        format_func=names.__getitem__,
        key=state.COMPARED,
        persist_state="session",
        max_selections=4,
    )
    if unlike := len(every) - len(others):
        left = phrasing.count(unlike, "audit")
        st.caption(f"Left out, because they measure something else: {left}.")
    if picked:
        _draw([run, *map(cache.open_run, picked)], choice)
    else:
        st.info("Choose at least one other audit.")


def _axes(run: cache.KeptRun) -> list[str]:
    return list(run.request.get("axes") or ())


def _draw(runs: list[cache.KeptRun], choice: Choice) -> None:
    alike = [runs[0], *(other for other in runs[1:] if choice.axis in _axes(other))]
    if len(alike) < len(runs):
        st.info(plain(_without_the_axis(runs, choice.axis)), icon=":material/info:")
    if len(alike) > 1:
        _charts(alike, choice)
    header("Which settings differ?")
    differing = compare.settings_table(runs)
    if differing.empty:
        st.markdown("None: all audits have the same settings.")
        return
    # A plain table, whose cells wrap: values may be long, and clipped ones tell nothing. It reads
    # Markdown, which names of users must not become.
    shown = differing.map(lambda text: plain(visible(text)))
    st.table(shown, hide_index=True, border="horizontal")
    st.caption("Settings of methods that only one audit has are left out.")


def _charts(runs: list[cache.KeptRun], choice: Choice) -> None:
    """Audits that measured the chosen axis, with what must be known before they are read side by
    side."""
    if warnings := compare.comparability(runs)[1]:
        st.html(f'<p class="pa-warning">{"<br>".join(map(escaped, warnings))}</p>')
    caption(compare.named(runs))
    if len(compare.alike(runs)) > 1:
        panels.draw(compare.compare_runs(runs, choice))
    if any(compare.are_kin(runs[0], other) for other in runs[1:]):
        panels.draw(compare.compare_kinds(runs, choice))


def _without_the_axis(runs: list[cache.KeptRun], axis: str) -> str:
    """Which audits cannot be laid beside the first on this axis, once, and on which they can."""
    others = [other for other in runs[1:] if axis not in _axes(other)]
    titles = [f"“{title_of(other.meta['title'], _axes(other))}”" for other in others]
    said = f"{phrasing.listing(titles)} did not measure {axis_label(axis)}"
    shared = [one for one in _axes(runs[0]) if all(one in _axes(other) for other in runs[1:])]
    if shared:
        axes = phrasing.listing(map(axis_label, shared))
        return f"{said}. All of these audits measured {axes}: choose that above."
    measured = dict.fromkeys(one for run in others for one in _axes(run))
    axes = phrasing.listing(map(axis_label, measured))
    return f"{said}; they measured {axes}. Only settings are compared."


draw_page(page)
