"""Draws a Panel: question, answer in a sentence, chart; behind "How measured" method, caveat, table
and files."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st

from engine.core.types import Values
from engine.report.bundle import for_screens, for_spreadsheets
from engine.report.charts import lookup
from engine.report.charts import panel as base
from engine.report.charts.panel import Choice, Panel
from engine.report.tracks import terms_of
from engine.report.verdict import RULE, Fact, Verdict
from pages.shared import state
from pages.shared.cache import MEMORY, Call, KeptRun, made, ready
from pages.shared.controls import capital, fold, grid
from pages.shared.frame import current_run
from pages.shared.safe import Marker, escaped, header, plain, unbroken, visible

ROWS = 400
"""Rows of a table that is sent with its chart."""
Make = Callable[..., Panel]
"""(run, choice, **options) -> a panel."""
CONFIG: dict[str, Any] = {
    **base.CONFIG,
    "scrollZoom": False,
    "modeBarButtons": [["toImage"]],
}


def draw(panel: Panel, key: str = "", selectable: bool = False) -> Any:
    """Draw one panel; with `selectable`, return the customdata of the clicked point (None when
    nothing is selected).

    In a container of its own: a panel without a chart must not move the ones below, or the browser
    draws them anew.
    """
    key = key or panel.key
    with st.container(gap="small"):
        marker = _say(panel)
        chart = st.container()
        _measured(panel, key, marker)
        with chart:
            return _chart(panel, key, selectable) if panel.has_chart else None


def show(
    run: KeptRun,
    choice: Choice,
    *rows: Make | tuple[Make, ...],
    options: Mapping[Make, Values] | None = None,
) -> None:
    """Panels below each other, those of a tuple side by side (below each other on a narrow screen).
    What the page will need when the slider moves is made ahead. `options`: those of some of them.
    """
    makes = [row if isinstance(row, tuple) else (row,) for row in rows]
    given = options or {}
    for row in makes:
        places = st.columns(len(row), gap="large") if len(row) > 1 else [st.container()]
        for place, make in zip(places, row, strict=True):
            with place:
                draw(made(run, make, choice, **given.get(make, {})))
    look_ahead(run, [make for row in makes for make in row], choice, given)


def shows(*rows: Make | tuple[Make, ...]) -> Callable[[KeptRun, Choice], None]:
    """What draws a tab of nothing but these panels."""
    return lambda run, choice: show(run, choice, *rows)


def draw_folded(panel: Panel, key: str) -> None:
    """Question and answer at once, the chart on demand: every chart on screen costs time when the
    slider moves."""
    with st.container(gap="small"):
        _measured(panel, key, _say(panel), with_chart=True)


def draw_chart(panel: Panel, key: str, alone: bool = False) -> None:
    """Question and chart beside a verdict that says its answer already. The answer stands behind
    "How measured", and nowhere where the chart is `alone`, for a fold of the same page has the
    rest.
    """
    with st.container(gap="small"):
        header(plain(panel.question))
        if not panel.has_chart:
            _paragraphs(_marker(), (panel.answer, "pa-answer"), (panel.mind, "pa-mind"))
            return
        _chart(panel, key, False)
        if not alone:
            more = " ".join(filter(None, (panel.answer, panel.mind, panel.more)))
            _measured(replace(panel, more=more), key, _marker())


def folded(title: str, run: KeptRun, choice: Choice, makes: Sequence[Make]) -> None:
    """Panels below each other behind a title."""

    def draw_all() -> None:
        for make in makes:
            draw(made(run, make, choice), make.__name__)

    fold(title, state.key_of(state.FOLD, title), draw_all)


def card(panel: Panel, key: str, first: Sequence[str] = ()) -> None:
    """A panel that is read beside others: answer, chart, what its table says in two columns of
    text, its caveat.

    With `first`, facts of other names are folded away.
    """
    marker = _say(panel)
    if panel.has_chart:
        _chart(panel, key, False)
    is_first = panel.table.iloc[:, 0].isin(first or panel.table.iloc[:, 0])
    facts(panel.table[is_first], marker)
    _measured(replace(panel, table=panel.table.iloc[:0]), key, marker, rest=panel.table[~is_first])


def facts(table: pd.DataFrame, marker: Marker | None = None) -> None:
    """What a table of two columns of text says, as a list of names and what is known of them."""
    marker = marker or Marker()
    rows = (
        f"<dt>{escaped(name)}</dt><dd>{marker.marked(str(text))}</dd>"
        for name, text in table.to_numpy()
    )
    st.html(f'<dl class="pa-facts">{"".join(rows)}</dl>')


def listed(told: Sequence[str]) -> None:
    """Sentences as a list, terms explained."""
    marker = _marker()
    st.html(
        f'<ul class="pa-list">{"".join(f"<li>{marker.marked(text)}</li>" for text in told)}</ul>'
    )


def _marker() -> Marker:
    """What explains the words of the chosen audit's track."""
    run = current_run()
    return Marker(terms_of(run) if run else None)


def _say(panel: Panel) -> Marker:
    """The question, the answer in a sentence, and what must be kept in mind with it; what has
    explained their words."""
    marker = _marker()
    header(plain(panel.question))
    _paragraphs(marker, (panel.answer, "pa-answer"), (panel.mind, "pa-mind"))
    return marker


def _paragraphs(marker: Marker, *lines: tuple[str, str]) -> None:
    """Sentences of a panel, each with the class of its look; nothing where there are none."""
    told = "".join(f'<p class="{name}">{marker.marked(text)}</p>' for text, name in lines if text)
    if told:
        st.html(told)


def _parts(panel: Panel, key: str, selectable: bool) -> Any:
    """The columns of a figure as charts of their own: a narrow screen puts them below each other.

    With `selectable`, the item clicked last of all of them, None while nothing new was clicked.
    """
    clicked = None
    beside = len(panel.parts) if len(panel.parts) < 4 else 2 if len(panel.parts) == 4 else 3
    for place, (column, part) in enumerate(grid(panel.parts, beside, "small")):
        with column:
            mine = state.key_of(key, place)
            found = _chart(replace(panel, figure=part, parts=()), mine, selectable)
        if selectable and fresh(mine, found):
            clicked = found
    return clicked


def _chart(panel: Panel, key: str, selectable: bool) -> Any:
    """Streamlit is told the question as the chart's name: the browser draws a chart anew whenever
    that changes. One that is the same at every step of the slider shall stay. Its answer lies
    before it, from where assets/names.js makes it the name of the chart."""
    if panel.parts:
        return _parts(panel, key, selectable)
    st.html(
        f'<span class="pa-alt" data-answer="{escaped(panel.answer)}" data-file="{panel.key}"'
        f' data-table="{_csv(panel)}"></span>'
    )
    more: dict[str, Any] = {"on_select": "rerun", "selection_mode": "points"} if selectable else {}
    event = st.plotly_chart(
        ready(panel.figure),
        width="stretch",
        theme=None,
        key=key,
        config=dict(CONFIG),
        alt=panel.question,
        **more,
    )
    return selected(event) if selectable else None


def _csv(panel: Panel) -> str:
    """The chart's table as an attribute of HTML; "" for one so large that the fold alone has it."""
    if not _has_table(panel) or len(panel.table) > ROWS:
        return ""
    return html.escape(visible(for_spreadsheets(panel.table).to_csv(index=False)))


def selected(event: Any) -> Any:
    """First item of the customdata of the first selected point, None when nothing is selected."""
    points = (event or {}).get("selection", {}).get("points", [])
    data = points[0].get("customdata") if points else None
    if isinstance(data, dict):
        data = list(data.values())
    return data[0] if isinstance(data, (list, tuple)) and data else data


def fresh(key: str, clicked: Any) -> bool:
    """Whether this click is a new one: a selection stays in the chart on every later redraw."""
    if clicked == state.kept(key):
        return False
    state.keep(key, clicked)
    return clicked is not None


def _measured(
    panel: Panel,
    key: str,
    marker: Marker,
    with_chart: bool = False,
    rest: pd.DataFrame | None = None,
) -> None:
    """Everything else behind one quiet control: what more the data say, method and caveat, table
    and files, and facts of the `rest`; drawn when it is opened."""
    if not (panel.more or panel.caveat or (with_chart and panel.has_chart) or _has_table(panel)):
        return
    label = "Chart and how measured" if with_chart and panel.has_chart else "How measured"
    label = label if rest is None or rest.empty else "More, and how measured"
    with st.expander(
        label, type="compact", key=state.key_of("measured", key), on_change="rerun"
    ) as box:
        if not box.open:
            return
        if with_chart and panel.has_chart:
            _chart(panel, key, False)
        if rest is not None:
            facts(rest, marker)
        _paragraphs(marker, (panel.more, "pa-more"), (panel.caveat, "pa-caveat"))
        if _has_table(panel):
            table(panel.table)
            with st.container(horizontal=True):
                _files(panel, key)


def _has_table(panel: Panel) -> bool:
    return panel.table is not None and not panel.table.empty


def _files(panel: Panel, key: str) -> None:
    content, name = for_spreadsheets(panel.table).to_csv(index=False).encode(), f"{panel.key}.csv"
    st.download_button(
        "Table (CSV)", content, name, "text/csv", key=state.key_of("csv", key), on_click="ignore"
    )
    if panel.has_chart:
        name, key = f"{panel.key}.html", state.key_of("html", key)
        st.download_button(
            "Chart (HTML)", lambda: _html(panel), name, "text/html", key=key, on_click="ignore"
        )


def table(frame: pd.DataFrame, decimals: int | None = None) -> None:
    """A table; numbers to four digits, or to so many decimals that they align."""
    form = "%.4g" if decimals is None else f"%.{decimals}f"
    frame = for_screens(frame).rename(columns=_column_name)
    numeric = frame.select_dtypes("number").columns
    columns = {
        name: st.column_config.NumberColumn(format=form)
        for name in numeric
        if not pd.api.types.is_integer_dtype(frame[name])
    }
    st.dataframe(frame, hide_index=True, width="stretch", column_config=columns, placeholder="")


def _column_name(name: object) -> str:
    """Capitalised, but for symbols: n, p, q."""
    text = str(name)
    return text if len(text.split(" ")[0]) == 1 else capital(text)


def _html(panel: Panel) -> bytes:
    from engine.report.figures import figure_html

    return figure_html(panel)


def verdict(said: Verdict) -> None:
    """What was audited, the verdict, whether that is a lot, and what else belongs to it; three
    numbers, what the cut costs, and what can be recommended."""
    lines = (
        ("pa-audited", said.audited),
        ("pa-lead", said.sentence),
        ("pa-answer", said.meaning),
        ("pa-mind", said.more),
    )
    st.html("".join(f'<p class="{name}">{unbroken(text)}</p>' for name, text in lines if text))
    cards = "".join(_card(fact, said.predicted) for fact in said.numbers)
    rows = [("Cost", said.cost, "")]
    if said.advice.said:
        rows.append(("Advice", said.advice.said, RULE))
    facts = "".join(
        f'<dt title="{escaped(help)}">{name}</dt><dd title="{escaped(help)}">{unbroken(text)}</dd>'
        for name, text, help in rows
    )
    st.html(
        f'<div class="pa-told"><div class="pa-cards pa-three">{cards}</div>'
        f'<dl class="pa-facts">{facts}</dl></div>'
    )


def _card(fact: Fact, predicted: bool) -> str:
    """A number, what it was, and whether that is better, in words and not only in colour."""
    change = ""
    if fact.was:
        kind = f"{fact.kind}, predicted" if predicted else fact.kind
        tone = "" if predicted else {"better": "pa-good", "worse": "pa-bad"}.get(fact.kind, "")
        change = (
            f'<div class="pa-line">was {escaped(fact.was)}: <b'
            f' class="{tone}">{escaped(kind)}</b></div>'
        )
    return (
        f'<div class="pa-card" title="{escaped(fact.help)}"><div'
        f' class="pa-label">{escaped(capital(fact.name))}</div><div'
        f' class="pa-value">{escaped(fact.value)}</div>{change}</div>'
    )


def look_ahead(
    run: KeptRun,
    makes: Sequence[Callable[..., Any]],
    choice: Choice,
    options: Mapping[Callable[..., Any], Values] | None = None,
) -> None:
    """Prepare what the page will need when the slider moves, for the nearest finished level first.
    `options`: those with which it calls some of them."""
    levels = [
        level for level in lookup.levels(run, choice.method, choice.axis) if level != choice.level
    ]
    levels.sort(key=lambda level: abs(level - choice.level))
    given = {make: tuple(sorted(more.items())) for make, more in (options or {}).items()}
    MEMORY.prepare(
        [
            Call(run, make, (replace(choice, level=level),), given.get(make, ()))
            for level in levels
            for make in makes
        ]
    )
