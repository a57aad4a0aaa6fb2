"""Is a subnetwork universal? Masks of every task fine-tuned on every task, beside random masks, in
words and drawn."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import Values
from engine.report import phrasing
from engine.report.charts.kinds import dots, entry, title
from engine.report.charts.panel import Choice, Panel, plain, wrapped
from engine.report.palette import series_styles
from engine.report.schema import hovers, readable

ENOUGH = 19
"""Random masks from which a rank among them can be as rare as .05."""
QUESTION = "If heads are cut for one task, can the rest be trained on other tasks?"
MATCHING = (
    "Matching: the full model's mean is no higher than the masks' mean plus their standard"
    " deviation."
)
FEW = "seeds or texts"
COLUMNS = (
    "mask task metric mean std full_mean full_std delta delta_low delta_high word percentile p"
    " n_random n_seeds n"
)


def universal_panel(table: pd.DataFrame, found: Mapping[str, bool | None], choice: Choice) -> Panel:
    """A column per task, a row per mask: its change against the task's full model. table: as
    `universal` gives it;
    found: by mask, whether it is matching on every task (None: nothing can be said)."""
    parts = tuple(_figure(choice, table, str(task)) for task in dict.fromkeys(table["task"]))
    bars = "Bars: 95 % intervals over seeds and test texts, of each mask alone."
    note = f"{bars} {few_masks(table)}".strip()
    first, *rest = verdicts(table, found)
    heads = {"mask": "masks of", "task": "fine-tuned on", "word": "ticket", "mean": "mean of seeds"}
    shown = readable(ranked(table), COLUMNS, **heads, n_random="random masks", n="texts")
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
        f"No rank among {phrasing.count(many, 'random mask')}: with {ENOUGH} or more, a rank can "
        "be as rare as .05."
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


def line_of(row: Values) -> str:
    """E.g. "masks of remarks on topics: accuracy 0.912 ± 0.004, full model 0.931 ± 0.002; change
    −0.019, …; no"."""
    among = f"; {among_said(row)}" if among_said(row) else ""
    word = f"; {row['word']}" if row["word"] else ""
    told = f"{_levels(row)}; change {phrasing.change(row, few=FEW)}{word}{among}"
    return f"  {mask_said(row['mask'])} on {row['task']}: {row['metric']} {told} ({_counts(row)})"


def mask_said(mask: str) -> str:
    return f"mask {mask}" if _is_random(mask) else f"masks of {mask}"


def among_said(row: Values) -> str:
    """Where it stands among the random masks; "" where these are too few."""
    if row["n_random"] < ENOUGH:
        return ""
    return (
        f"percentile {100 * row['percentile']:.0f} of {row['n_random']} random masks, p ="
        f" {row['p']:.2g}"
    )


def _is_random(mask: str) -> bool:
    return mask.startswith("random ")


def _levels(row: Values) -> str:
    return (
        f"{row['mean']:.3f} ± {row['std']:.3f}, full model {row['full_mean']:.3f} ±"
        f" {row['full_std']:.3f}"
    )


def _counts(row: Values) -> str:
    return f"{row['n_seeds']} seeds, {row['n']:.0f} texts"


SYMBOLS = {"winning": "circle", "matching": "circle", "no": "circle-open", "": "x-thin-open"}


def _figure(choice: Choice, table: pd.DataFrame, task: str) -> go.Figure:
    """One task: rows of the tasks' own masks with intervals, then all random ones in one row."""
    mine = ranked(table[table["task"] == task]).reset_index(drop=True)
    chance = mine["mask"].map(_is_random)
    own = mine.loc[~chance, "mask"]
    rows = {mask: wrapped(mask_said(mask), 18) for mask in own}
    if chance.any():
        rows["random"] = wrapped(phrasing.count(int(chance.sum()), "random mask"), 18)
    said = hovers(
        mine, "mask delta mean std full_mean full_std percentile p n_seeds n", mask=mask_said
    )
    drawn = mine.assign(
        hover=said,
        row=mine["mask"].mask(chance, "random"),
        kind=chance.map({True: "random", False: ""}),
        symbol=mine["word"].map(SYMBOLS),
        delta_low=mine["delta_low"].mask(chance),
        delta_high=mine["delta_high"].mask(chance),
    )
    styles = series_styles(choice.dark)
    looks, name = {"": styles[0], "random": styles[5]}, words.metric_name(mine["metric"].iloc[0])
    about = f"change in {name}"
    figure = dots(choice, drawn, "delta", rows, looks, about, row="row", by="kind", apart=0)
    for word, told in (("winning", "matching"), ("no", "not matching"), ("", "not told")):
        if (table["word"] == word).any():
            dot = {"symbol": SYMBOLS[word], "color": styles[0].colour, "size": 11}
            entry(figure, told, mode="markers", marker=dot)
    title(figure, f"fine-tuned on {plain(task)}")
    figure.update_layout(legend_y=1.14, height=figure.layout.height + 40)
    return figure
