"""Would the head scores of a run come out again?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import POOLED
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.marks import add_points, entry, row_names, silent
from engine.report.charts.panel import Choice, Panel, blank, nothing, plain, wrapped
from engine.report.charts.reliability_parts import (
    GOOD,
    ICC_SAID,
    MANY,
    icc_figure,
    line_at,
    marker,
    reliable_said,
    row_of,
    shown,
)
from engine.report.palette import series_colours
from engine.stats.reliability import SMALL, Repeats, repeats_of, small_effects, spearman_brown
from engine.store.runs import Run
from engine.tracks.language_models.published_scores import PublishedScores

ALL = "all heads"


def by_seed(run: Run, axis: str) -> pd.DataFrame:
    """z_bias of one axis, rows = units, columns = seeds; empty where heads were not ranked."""
    scores = lookup.frame(run, "scores")
    rows = scores[
        (scores["score"] == "z_bias") & (scores["axis"] == axis) & (scores["seed"] != POOLED)
    ]
    return rows.pivot(index="unit", columns="seed", values="value").dropna()


def parts_of(run: Run, choice: Choice, axis: str) -> list[tuple[str, pd.DataFrame]]:
    """Scores by seed of all heads, and of those with small effects where noise lets us say which
    they are."""
    table = by_seed(run, axis)
    if table.shape[1] < 2 or len(table) < 2:
        return []
    dense = lookup.result(run, "dense", f"bias:{choice.reading}", axis)
    small = small_effects(table, SMALL * float(dense["value"])) if dense else None
    found = [(ALL, table)]
    if small is not None and small.sum() >= 2:
        found.append((f"heads below {SMALL:g} of the bias", table[small]))
    return found


def run_repeats(run: Run, choice: Choice) -> Panel:
    """ICC of one seed per axis, over all heads and over those with small effects."""
    question = "If the scores were taken once more, would they come out the same?"
    rows = []
    for axis in run.meta["request"]["axes"]:
        rows += [
            row_of(words.axis_name(axis), name, repeats_of(part))
            for name, part in parts_of(run, choice, axis)
        ]
    rows = [row for row in rows if not math.isnan(row["ICC"])]
    if not rows:
        return nothing(
            "run_repeats",
            question,
            "That takes at least two seeds per head, and heads that were ranked.",
        )
    table = pd.DataFrame(rows)
    whole = table[table["over"] == ALL]
    answer = reliable_said(whole, "axis", "axes")
    note = (
        f"{ICC_SAID} {_seeds_said(table)}, same prompts; 95 % intervals, bootstrap over heads. One "
    )
    note += "strong head alone can lift it, so heads with small effects are shown apart" + _untold(
        table
    )
    return Panel(
        "run_repeats",
        question,
        answer,
        icc_figure(table, choice),
        shown(table),
        note,
        more=_needed(whole.loc[whole["ICC"].idxmin()]),
    )


def seed_scatter(run: Run, choice: Choice) -> Panel:
    """First seed against second, one point per head."""
    question = f"Do two seeds agree on the heads for {words.axis_name(choice.measured)}?"
    table = by_seed(run, choice.measured)
    if table.shape[1] < 2 or len(table) < 2:
        return nothing(
            "seed_scatter",
            question,
            "That takes at least two seeds per head, and heads that were ranked.",
        )
    first, second = table.columns[:2]
    r = table[first].corr(table[second])
    found = repeats_of(table, choice.level or 0.2)
    figure = _scatter(
        choice,
        table[first],
        table[second],
        f"effect on bias, seed {first}",
        f"seed {second}",
        _heads(run, table),
    )
    said = (
        "No correlation: a seed gives every head the same score"
        if math.isnan(r)
        else f"Correlation {phrasing.correlation(r)}"
    )
    answer, more = (
        f"{said} ({phrasing.count(len(table), 'head')}).",
        _overlap_said(found, choice.level or 0.2),
    )
    readable = table.rename(columns=lambda seed: f"seed {seed}").reset_index()
    note = "Same prompts, other random streams. On the dashed line both seeds agree."
    return Panel("seed_scatter", question, answer, figure, readable, note, more=more)


def more_seeds(run: Run, choice: Choice) -> Panel:
    """The Spearman-Brown curve of the measured axis."""
    question = f"How many seeds make the scores for {words.axis_name(choice.measured)} reliable?"
    found = [(name, repeats_of(part)) for name, part in parts_of(run, choice, choice.measured)]
    found = [(name, one) for name, one in found if not math.isnan(one.icc)]
    if not found:
        return nothing(
            "more_seeds",
            question,
            "That takes at least two seeds per head, and heads that were ranked.",
        )
    figure, rows = blank(choice, 320, "seeds per prompt", "reliability of their mean"), []
    steps = np.unique(np.logspace(0, 2, 40).round().astype(int))
    for (name, one), colour, dash in zip(
        found, series_colours(choice.dark), ("solid", "dash"), strict=False
    ):
        values = [spearman_brown(one.icc, int(k)) for k in steps]
        look = {
            "mode": "lines",
            "line": {"color": colour, "dash": dash, "width": 2.5},
            "name": name,
        }
        figure.add_scatter(
            x=steps, y=values, hovertemplate="%{x} seeds: %{y:.2f}<extra></extra>", **look
        )
        rows += [
            {"over": name, "seeds": int(k), "reliability": value}
            for k, value in zip(steps, values, strict=True)
        ]
    line_at(figure, choice, GOOD)
    figure.update_xaxes(type="log", tickvals=[1, 2, 5, 10, 20, 50, 100], range=[0, 2])
    figure.update_yaxes(range=[-0.05, 1.05])
    answer = (
        f"For a reliability of {GOOD:g}:"
        f" {'; '.join(f'{name}: {_needed_of(one)}' for name, one in found)}."
    )
    seeds = phrasing.count(found[0][1].seeds, "seed")
    note = f"Predicted from the measured ICC of one seed (Spearman-Brown). Measured were {seeds}."
    return Panel("more_seeds", question, answer, figure, pd.DataFrame(rows), note)


def _scatter(
    choice: Choice, x: pd.Series, y: pd.Series, x_name: str, y_name: str, names: list[str]
) -> go.Figure:
    figure = blank(choice, 380, x_name, y_name)
    ends = [float(min(x.min(), y.min())), float(max(x.max(), y.max()))]
    silent(
        figure,
        ends,
        ends,
        mode="lines",
        line={"color": choice.theme.soft, "dash": "dash", "width": 1},
    )
    said = "%{text}<br>%{x:.3f} and %{y:.3f}<extra></extra>"
    look = {**marker(choice, 0), "opacity": 0.75}
    add_points(figure, x, y, names, look, showlegend=False, hovertemplate=said)
    return figure


def _heads(run: Run, table: pd.DataFrame) -> list[str]:
    n_heads = int(run.meta["model"]["n_heads"])
    return [words.head_name(unit // n_heads, unit % n_heads) for unit in table.index]


def _overlap_said(found: Repeats, share: float) -> str:
    found_again, overlap = phrasing.percent(found.overlap.share), found.overlap
    return (
        f"Of the {phrasing.percent(share)} with the largest effect, {found_again} come out again "
        f"in another seed. Chance gives {phrasing.percent(overlap.expected)} (up to "
        f"{phrasing.percent(overlap.high)})" + (": no more than chance." if overlap.chance else ".")
    )


def _seeds_said(table: pd.DataFrame) -> str:
    low, high = int(table["seeds"].min()), int(table["seeds"].max())
    return phrasing.count(high, "seed") if low == high else f"{low} to {high} seeds"


def _untold(table: pd.DataFrame) -> str:
    """Names of axes where noise hides which effects are small."""
    told = set(table.loc[table["over"] != ALL, "name"])
    untold = [name for name in dict.fromkeys(table["name"]) if name not in told]
    return f", except where noise hides them ({phrasing.listing(untold)})." if untold else "."


def _needed(row: pd.Series) -> str:
    if row["seeds needed"] <= 1:
        return ""
    start = f"For {row['name']}, with the lowest ICC,"
    if math.isnan(row["seeds needed"]):
        return f"{start} no number of seeds reaches {GOOD:g}: these scores are noise."
    if row["seeds needed"] > MANY:
        return f"{start} {GOOD:g} needs more than {MANY:,} seeds: these scores are noise."
    return (
        f"{start} the mean of {phrasing.count(int(row['seeds needed']), 'seed')} would reach"
        f" {GOOD:g}."
    )


def _needed_of(found: Repeats) -> str:
    if found.needed is None:
        return "no number of seeds is enough"
    return (
        phrasing.count(found.needed, "seed")
        if found.needed <= MANY
        else f"more than {MANY:,} seeds"
    )


# Would published head scores come out again? For all imported models in one picture.


def published(scores: Sequence[PublishedScores], choice: Choice, share: float = 0.2) -> list[Panel]:
    """ICC of one published seed per model and axis, and the overlap of what would be cut. Of
    `choice`: only `dark`."""
    question = "How far can one published seed be trusted?"
    rows = []
    for one in scores:
        for axis, part in one.table.groupby("axis"):
            wide = -part.pivot(index="head", columns="seed", values="bias_after")
            if wide.shape[1] >= 2:
                rows.append(row_of(one.model, words.axis_name(str(axis)), repeats_of(wide, share)))
    rows = [row for row in rows if not math.isnan(row["ICC"])]
    if not rows:
        return [
            nothing(
                "published_repeats", question, "That takes scores of at least two seeds per head."
            )
        ]
    table = pd.DataFrame(rows)
    means = table.groupby("name", sort=False)["ICC"].mean()
    noise = [name for name, value in means.items() if value < 0.1]
    answer = (
        f"In {len(noise)} of {len(means)} models a single seed's scores are almost only noise (mean"
        " ICC below 0.1)"
    )
    answer += f": {phrasing.listing(noise)}. " if noise else ". "
    answer += f"Highest: {means.idxmax()} (mean ICC {phrasing.correlation(means.max())})."
    note = f"{ICC_SAID} Over heads, effects as published; intervals are 95 %, bootstrap over heads."
    first = Panel(
        "published_repeats", question, answer, icc_figure(table, choice), shown(table), note
    )
    return [first, _published_overlap(table, choice, share)]


def _published_overlap(table: pd.DataFrame, choice: Choice, share: float) -> Panel:
    """Selected sets of two seeds, against chance."""
    question = f"Would two seeds cut the same {phrasing.percent(share)} of heads?"
    names = list(dict.fromkeys(table["name"]))
    figure = blank(
        choice, 150 + 46 * len(names), "share of the selected heads found again by another seed"
    )
    for place, (over, part) in enumerate(table.groupby("over", sort=False)):
        y, said = (
            [names.index(name) for name in part["name"]],
            f"%{{x:.2f}}<extra>{plain(over)}</extra>",
        )
        look = {"mode": "markers", "name": plain(over), "marker": marker(choice, place)}
        figure.add_scatter(x=part["overlap"], y=y, hovertemplate=said, **look)
    row_names(figure, [wrapped(name, 18) for name in names])
    _chance_bands(figure, table, choice, names)
    figure.update_xaxes(range=[0, 1])
    means = table.groupby("name", sort=False)["overlap"].mean()
    lucky = int((table["overlap"] <= table["chance high"]).sum())
    least, most, chance = (
        phrasing.percent(float(value))
        for value in (means.min(), means.max(), table["by chance"].mean())
    )
    answer = (
        f"Two seeds agree on {least} ({means.idxmin()}) to {most} ({means.idxmax()}) of the "
        f"heads. Chance gives {chance}. {lucky} of {len(table)} agreements could be chance alone."
    )
    columns = [
        "name",
        "over",
        "overlap",
        "by chance",
        "chance low",
        "chance high",
        "heads",
        "seeds",
    ]
    note = (
        "By effect on bias alone, no head protected. Mean over all pairs of seeds; the grey bars"
        " are where 95 % of "
    )
    note += "random sets of this size agree."
    return Panel("published_overlap", question, answer, figure, table[columns], note)


def _chance_bands(figure: go.Figure, table: pd.DataFrame, choice: Choice, names: list[str]) -> None:
    """Per model, where random sets agree."""
    for at, name in enumerate(names):
        mine = table[table["name"] == name]
        low, high = float(mine["chance low"].min()), float(mine["chance high"].max())
        shape = {
            "type": "rect",
            "x0": low,
            "x1": high,
            "y0": at - 0.3,
            "y1": at + 0.3,
            "layer": "below",
        }
        figure.add_shape(**shape, fillcolor=choice.theme.soft, opacity=0.25, line_width=0)
    mark = {"symbol": "square", "color": choice.theme.soft, "opacity": 0.4, "size": 11}
    entry(
        figure, "random sets (95 %)", mode="markers", marker=mark, showlegend=None, hoverinfo=None
    )
