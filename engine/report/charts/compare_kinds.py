"""Audits of tracks that measure alike, on one axis: every reported model of each in quality and
gap, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.compare import same_items, short_names, titles
from engine.report.charts.kinds import add_series
from engine.report.charts.marks import front_line, heading, silent
from engine.report.charts.panel import Choice, Panel, blank, nothing, wrapped
from engine.report.contract import Measure, Track
from engine.report.schema import hovers, readable
from engine.report.tracks import track_name, track_of
from engine.stats.pareto import front
from engine.store.runs import Run

HEIGHT = 400
QUALITY, GAP = "accuracy", "accuracy_gap"
"""The metrics that these kinds of audit have in common."""
LONG = 14
"""Letters from which on a name of a method leaves room for two beside each other only."""
FRONT_NAMED = 6
SAME_FRONT = (
    "Faint: models of the other audits. Dotted line: front of the cut models of all audits, which"
    " no other beats at both."
)
OWN_FRONTS = (
    "Every chart has its own axes. Dotted line: front of the cut models of that audit alone, which"
    " no other of them beats at both."
)
READ = (
    "Fronts use values alone. Bars are 95 % intervals; models whose bars overlap may not differ. "
    "Models are not equally cut, and each kind counts a cut in its own way. The table says how "
    "much is gone; a smaller cut is easier."
)
OTHER_IMAGES = (
    "Careful: the test images differ, so levels are not on one scale and there is no common front."
)
COLUMNS = "run kind label cut quality quality_low quality_high gap gap_low gap_high n front"


def kin(one: Track, other: Track) -> bool:
    """Whether two kinds of audit are different and measure the same things."""
    same = one.comparison.measures == other.comparison.measures != ""
    return same and one.name != other.name


def are_kin(one: Run, other: Run) -> bool:
    """Whether two audits are of such kinds."""
    return kin(track_of(one), track_of(other))


def kin_of(runs: Sequence[Run]) -> list[Run]:
    """The first run, and of the others those of its kind or kin to it."""
    first = runs[0]
    return [
        run for run in runs if track_name(run.meta) == track_name(first.meta) or are_kin(first, run)
    ]


def compare_kinds(runs: Sequence[Run], choice: Choice) -> Panel:
    """One column per audit. On the same images: one front, the same axes, the others' models in the
    background.

    On different images levels are not on one scale: each audit has its own axes and its own front,
    and nothing of the others is drawn or counted with it.
    """
    called = dict(zip(titles(runs), short_names(runs), strict=True))
    titled, runs = {run.id: name for name, run in zip(called, runs, strict=True)}, kin_of(runs)
    axis = words.axis_name(choice.measured)
    table = points(runs, choice, titled)
    shown = [run for run in runs if titled[run.id] in set(table["run"])]
    same = same_items(shown) if shown else True
    which = "Which cut models" if same else "Which cut models of each audit"
    question = f"{which} are the most accurate at the smallest accuracy gap of {axis}?"
    if len(shown) < 2:
        return nothing(
            "compare_kinds", question, f"Fewer than two of these audits measured {axis}."
        )
    parts = tuple(_column(run, choice, table, titled[run.id], called, same) for run in shown)
    answer = _answer(table, called) if same else _answers(table, called)
    note = f"{SAME_FRONT if same else OWN_FRONTS} {READ}"
    whose = "on the front" if same else "on the front of its audit"
    shown_table = readable(table, COLUMNS, label="model", front=whose, n="images")
    return Panel(
        "compare_kinds", question, answer, None, shown_table, note, parts, own_axes=not same
    )


def points(
    runs: Sequence[Run], choice: Choice, titled: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Every reported model of every audit that measured the axis: quality and gap with intervals,
    whether on a front.

    The front is over all audits where they measured on the same images, else over each alone.
    `titled`: names of runs by id, their titles unless given.
    """
    names = titled or {run.id: name for run, name in zip(runs, titles(runs), strict=True)}
    found = {run.id: _rows(run, names[run.id], choice) for run in runs}
    rows = [row for of_run in found.values() for row in of_run]
    columns = ["is_cut", "run", "kind", "variant", "method", "label", "cut", "quality", "gap", "n"]
    table = pd.DataFrame(rows) if rows else pd.DataFrame(columns=columns)
    if table.empty:
        return table.assign(front=False)
    shown = [run for run in runs if found[run.id]]
    pools = [table] if same_items(shown) else [rows for _, rows in table.groupby("run")]
    return table.assign(front=pd.concat([_on_front(pool) for pool in pools]))


def _on_front(pool: pd.DataFrame) -> pd.Series:
    """Which of the models that compete with each other no other cut one beats at both."""
    quality, gap = (pool[name].where(pool["is_cut"]) for name in ("quality", "gap"))
    return pd.Series(front(-quality, gap), index=pool.index)


def _rows(run: Run, name: str, choice: Choice) -> list[dict[str, Any]]:
    track, found = track_of(run), []
    for variant in lookup.of_axis(run, lookup.reported(run), choice.axis).to_dict("records"):
        quality = lookup.result(run, variant["variant"], QUALITY)
        gap = lookup.result(run, variant["variant"], GAP, choice.measured)
        if quality is None or gap is None or not (_known(quality) and _known(gap)):
            continue
        row = {
            "run": name,
            "kind": track.about,
            "variant": variant["variant"],
            "method": variant["method"],
        }
        row |= {
            "label": phrasing.sentence(lookup.variant_label(run, variant)),
            "cut": lookup.amount(run, variant),
        }
        row |= {f"quality{end}": quality[column] for end, column in _ENDS}
        row |= {f"gap{end}": gap[column] for end, column in _ENDS}
        found.append(
            {
                **row,
                "is_cut": bool(variant["n_cut"]) or bool(variant.get("arm") or ""),
                "n": gap["n"],
            }
        )
    return found


_ENDS = (("", "value"), ("_low", "low"), ("_high", "high"))


def _known(row: dict[str, Any]) -> bool:
    return row["value"] == row["value"]


def _room(table: pd.DataFrame, column: str) -> list[float]:
    """What an axis spans: all values, not the ends of every interval."""
    low, high = float(table[column].min()), float(table[column].max())
    room = 0.12 * (high - low) or 0.02
    return [low - room, high + room]


def _column(
    run: Run, choice: Choice, table: pd.DataFrame, name: str, called: Mapping[str, str], same: bool
) -> go.Figure:
    """The chart of one audit; `same`: all are on the same images, so that the others' models may
    stand behind it."""
    quality, gap = Measure(QUALITY), Measure(GAP)
    mine, room = table[table["run"] == name], 19 * _legend_rows(table)
    beside = table if same else mine
    known = set(mine["method"])
    methods = [
        method for method in ["dense", *track_of(run).order(known - {"dense"})] if method in known
    ]
    figure = blank(choice, HEIGHT + room, quality.title, gap.title)
    others, best = (
        beside[beside["run"] != name],
        beside[beside["front"]].sort_values(["quality", "gap"]),
    )
    faded = {"size": 6, "color": choice.theme.soft, "opacity": 0.35}
    silent(figure, others["quality"], others["gap"], mode="markers", marker=faded)
    front_line(figure, choice, best["quality"], best["gap"])
    seen = "label cut quality gap front"
    said = hovers(mine, seen, label=str, front=lambda best: "on the front" if best else "")
    mine = mine.assign(hover=said)
    for method in methods:
        rows, style = mine[mine["method"] == method], track_of(run).style(method, choice.dark)
        look = {"mode": "markers", "name": lookup.method_label(run, method)}
        ends = "quality gap"
        add_series(figure, rows, rows["quality"], rows["gap"], style, None, ends, **look)
    heading(figure, _headed(name, called), align="left", font={"size": 13})
    lines = max(_headed(one, called).count("<br>") for one in table["run"]) + 1
    figure.update_xaxes(
        range=_room(beside, "quality"), showgrid=True, nticks=6, tickangle=0, automargin=False
    )
    figure.update_yaxes(range=_room(beside, "gap"), nticks=6)
    below = {
        "y": -58 / (HEIGHT - 75),
        "yanchor": "top",
        "font": {"size": 11},
    }  # the same room in every column
    figure.update_layout(legend=below, margin={"t": 14 + 17 * lines, "b": 60 + room})
    return figure


def _headed(name: str, called: Mapping[str, str]) -> str:
    return wrapped(f"{phrasing.sentence(called[name])}: {name}", 42)


def _legend_rows(table: pd.DataFrame) -> int:
    """Rows that the longest legend of all columns takes."""
    found = []
    for _, rows in table.groupby("run"):
        names = [words.method_name(method) for method in rows["method"].unique()]
        found.append(-(-len(names) // (3 if max(map(len, names)) < LONG else 2)))
    return max(found)


def _answer(table: pd.DataFrame, called: Mapping[str, str]) -> str:
    """Which cut models are on the front of all audits together, and how many of each."""
    best = table[table["front"]].sort_values("quality", ascending=False)
    named = [f"{row['label']} ({called[row['run']]})" for row in best.to_dict("records")]
    counts = [
        f"{int((best['run'] == run).sum()) or 'none'} of {called[run]}"
        for run in dict.fromkeys(table["run"])
    ]
    verb = "is" if len(best) == 1 else "are"
    return (
        f"On the same test images. By value, {len(best)} of {int(table['is_cut'].sum())} cut "
        f"models {verb} on the front, {phrasing.listing(counts)}: "
        f"{phrasing.listing(named, FRONT_NAMED)}."
    )


def _answers(table: pd.DataFrame, called: Mapping[str, str]) -> str:
    """Each audit on its own: nothing is counted across different images."""
    told = []
    for run, mine in table.groupby("run", sort=False):
        best = mine[mine["front"]].sort_values("quality", ascending=False)
        images = phrasing.count(int(mine["n"].max()), "image")
        where = (
            f"On its own front, {called[run]} ({images}) has by value {len(best)} of"
            f" {int(mine['is_cut'].sum())}"
        )
        told.append(
            f"{where} cut models:"
            f" {phrasing.listing(map(words.quoted, best['label']), FRONT_NAMED)}."
        )
    return " ".join([OTHER_IMAGES, *told])
