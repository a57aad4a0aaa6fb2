"""Is a subnetwork universal? Masks of every task fine-tuned on every task, beside random masks, in
words and drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts.columns import CHANGE, Column, readable, titled
from engine.report.charts.marks import add_points, bars_of, dot, entry, hover, row_names, title
from engine.report.charts.panel import Choice, Panel, blank, plain, wrapped
from engine.report.palette import series_styles

ENOUGH = 19
"""Random masks from which a rank among them can be as rare as .05."""
QUESTION = (
    "Do heads that are cut for one task leave a subnetwork that other tasks can be trained on?"
)
MATCHING = (
    "Matching: the full model's mean is no higher than the masks' mean plus their standard"
    " deviation."
)
FEW = "seeds or texts"
COLUMNS = (
    *titled(mask="masks of", task="fine-tuned on"),
    Column("metric", "metric", words.metric_name),
    *titled(
        mean="mean of seeds",
        std="standard deviation",
        full_mean="full model",
        full_std="its standard deviation",
    ),
    *CHANGE,
    *titled(
        word="ticket",
        percentile="percentile",
        p="p",
        n_random="random masks",
        n_seeds="seeds",
        n="texts",
    ),
)


def universal_panel(table: pd.DataFrame, found: Mapping[str, bool | None], choice: Choice) -> Panel:
    """A column per task, a row per mask: its change against the task's full model. table: as
    `universal` gives it;
    found: by mask, whether it is matching on every task (None: nothing can be said)."""
    parts = tuple(_figure(choice, table, str(task)) for task in dict.fromkeys(table["task"]))
    bars = "Bars: 95 % intervals over seeds and test texts, of each mask alone."
    note = f"{bars} {few_masks(table)}".strip()
    first, *rest = verdicts(table, found)
    shown = readable(ranked(table), COLUMNS)
    return Panel("universal", QUESTION, first, None, shown, note, parts, more=" ".join(rest))


def ranked(table: pd.DataFrame) -> pd.DataFrame:
    """The table without percentiles and p-values among so few random masks that they say
    nothing."""
    few = table["n_random"] < ENOUGH
    return table.assign(percentile=table["percentile"].mask(few), p=table["p"].mask(few))


def few_masks(table: pd.DataFrame) -> str:
    """Why no rank is told; "" where one is, or where no random masks were asked for."""
    many = int(table["n_random"].max())
    if not 0 < many < ENOUGH:
        return ""
    return (
        f"No rank among {phrasing.count(many, 'random mask')}: from {ENOUGH} on, one can be as rare"
        " as .05."
    )


def verdicts(table: pd.DataFrame, found: Mapping[str, bool | None]) -> list[str]:
    """Which masks are universal, of the tasks' own and of the random ones."""
    tasks = list(dict.fromkeys(table["task"]))
    if any(one is None for one in found.values()):
        doubts = table[table["doubt"] != ""].drop_duplicates("task")
        why = [f"{row.task}: {row.doubt}" for row in doubts.itertuples()] or [
            "There are fewer than three seeds."
        ]
        return [*why, "So nothing is called universal."]
    lines = [
        f"Masks of {task} are {'matching' if found[task] else 'not matching'} on every task "
        f"({phrasing.listing(tasks)}): {'universal' if found[task] else 'not universal'}."
        for task in tasks
    ]
    chance = [holds for name, holds in found.items() if name not in tasks]
    if chance:
        many = sum(map(bool, chance))
        verb = "matches" if many == 1 else "match"
        lines.append(
            f"Of {phrasing.count(len(chance), 'random mask')} of as many heads, {many} {verb} on"
            " every task."
        )
    return [*lines, MATCHING]


def line_of(row: Mapping[str, Any]) -> str:
    """E.g. "masks of remarks on topics: accuracy 0.912 ± 0.004, full model 0.931 ± 0.002; change
    −0.019, …; no"."""
    among = f"; {among_said(row)}" if among_said(row) else ""
    word = f"; {row['word']}" if row["word"] else ""
    told = f"{_levels(row)}; change {phrasing.change(row, few=FEW)}{word}{among}"
    return f"  {mask_said(row['mask'])} on {row['task']}: {row['metric']} {told} ({_counts(row)})"


def mask_said(mask: str) -> str:
    return f"mask {mask}" if _is_random(mask) else f"masks of {mask}"


def among_said(row: Mapping[str, Any]) -> str:
    """Where it stands among the random masks; "" where these are too few."""
    if row["n_random"] < ENOUGH:
        return ""
    return (
        f"percentile {100 * row['percentile']:.0f} of {row['n_random']} random masks, p ="
        f" {row['p']:.2g}"
    )


def _is_random(mask: str) -> bool:
    return mask.startswith("random ")


def _levels(row: Mapping[str, Any]) -> str:
    return (
        f"{row['mean']:.3f} ± {row['std']:.3f}, full model {row['full_mean']:.3f} ±"
        f" {row['full_std']:.3f}"
    )


def _counts(row: Mapping[str, Any]) -> str:
    return f"{row['n_seeds']} seeds, {row['n']:.0f} texts"


def _figure(choice: Choice, table: pd.DataFrame, task: str) -> go.Figure:
    """One task: rows of the tasks' own masks with intervals, then all random ones in one row."""
    mine = table[table["task"] == task].assign(chance=lambda rows: rows["mask"].map(_is_random))
    own, chance = mine[~mine["chance"]], mine[mine["chance"]]
    names = [mask_said(mask) for mask in own["mask"]]
    names += [phrasing.count(len(chance), "random mask")] if len(chance) else []
    figure = blank(
        choice, 150 + 54 * len(names), f"change in {words.metric_name(own['metric'].iloc[0])}"
    )
    figure.add_vline(x=0, line={"color": choice.theme.ink, "width": 1})
    style = series_styles(choice.dark)[0]
    for place, (_, row) in enumerate(own.iterrows()):
        one = own.loc[[row.name]]
        error = bars_of(one, style.colour, 1.8, "delta", "delta_low", "delta_high")
        add_points(
            figure,
            one["delta"],
            [place],
            [_hover(row)],
            _dot(choice, row),
            error_x=error,
            showlegend=False,
        )
    for _, row in chance.iterrows():
        add_points(
            figure,
            [row["delta"]],
            [len(own)],
            [_hover(row)],
            _dot(choice, row, 8),
            showlegend=False,
        )
    for word, said in (("winning", "matching"), ("no", "not matching"), ("", "not told")):
        if (table["word"] == word).any():
            entry(figure, said, mode="markers", marker=_dot(choice, {"word": word, "mask": ""}))
    title(figure, f"fine-tuned on {plain(task)}")
    row_names(figure, [wrapped(name, 18) for name in names])
    figure.update_xaxes(nticks=6)
    figure.update_layout(legend_y=1.14)
    return figure


def _dot(choice: Choice, row: Mapping[str, Any], size: float = 11) -> dict[str, Any]:
    """Filled where the masks match, open where not, a cross where nothing is said."""
    symbol = {"no": "circle-open", "": "x-thin-open"}.get(row["word"], "circle")
    return dot(series_styles(choice.dark)[5 if _is_random(row["mask"]) else 0], size, 1.6, symbol)


def _hover(row: Mapping[str, Any]) -> str:
    lines = (_levels(row), f"change {phrasing.change(row, few=FEW)}", among_said(row), _counts(row))
    return hover(plain(f"{mask_said(row['mask'])} on {row['task']}"), *lines)
