"""Would the head scores come out again? Of a run, and of published scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine import words
from engine.data.published import PublishedScores
from engine.export import say
from engine.export.palette import series_colours
from engine.export.panels import lookup
from engine.export.panels.base import Choice, Panel, blank, nothing, plain, wrapped
from engine.metrics.reliability import SMALL, Repeats, repeats_of, spearman_brown
from engine.store.runs import Run
from engine.types import POOLED

GOOD = 0.8
"""From here on one seed counts as reliable (Koo & Li 2016: good is .75 to .9)."""
MANY = 1000
"""More seeds than this nobody draws."""
ICC_SAID = "ICC(C,1): 1 = every seed gives the same scores, 0 = seeds share nothing (McGraw & Wong 1996)."


def by_seed(run: Run, axis: str) -> pd.DataFrame:
    """z_bias of one axis, rows = units, columns = seeds; empty where heads were not ranked."""
    scores = lookup.frame(run, "scores")
    rows = scores[(scores["score"] == "z_bias") & (scores["axis"] == axis) & (scores["seed"] != POOLED)]
    return rows.pivot(index="unit", columns="seed", values="value").dropna()


def small_heads(run: Run, choice: Choice, axis: str) -> np.ndarray:
    """Units whose pooled effect is below a tenth of the dense bias."""
    scores = lookup.frame(run, "scores")
    rows = scores[(scores["score"] == "z_bias") & (scores["axis"] == axis) & (scores["seed"] == POOLED)]
    dense = lookup.result(run, "dense", f"bias:{choice.reading}", axis)
    limit = SMALL * float(dense["value"]) if dense else math.nan
    return rows.loc[rows["value"].abs() < limit, "unit"].to_numpy()


def run_repeats(run: Run, choice: Choice) -> Panel:
    """ICC of one seed per axis, over all heads and over those with small effects."""
    question = "If the scores were taken once more, would they come out the same?"
    rows = []
    for axis in run.meta["request"]["axes"]:
        table = by_seed(run, axis)
        small = table[table.index.isin(small_heads(run, choice, axis))]
        for name, part in (("all heads", table), (f"heads below {SMALL:g} of the bias", small)):
            if part.shape[1] >= 2 and len(part) >= 2:
                rows.append(_row(words.axis_name(axis), name, repeats_of(part)))
    if not rows:
        return nothing("run_repeats", question, "That takes at least two seeds per head, and heads that were ranked.")
    table = pd.DataFrame(rows)
    whole = table[table["over"] == "all heads"]
    good = int((whole["ICC"] >= GOOD).sum())
    worst = whole.loc[whole["ICC"].idxmin()]
    answer = (
        f"On {good} of {len(whole)} axes a single seed is reliable (ICC at least {GOOD:g}); "
        f"lowest: {worst['name']}, ICC {_r(worst['ICC'])} ({_r(worst['low'])} to {_r(worst['high'])}). {_needed(worst)}"
    )
    note = (
        f"{ICC_SAID} {int(table['seeds'].max())} seeds, same prompts. One strong head alone can lift it, so heads with "
    )
    note += "small effects are shown apart. Intervals are 95 % (F distribution)."
    return Panel("run_repeats", question, answer, icc_figure(table, choice), _shown(table), note)


def seed_scatter(run: Run, choice: Choice) -> Panel:
    """First seed against second, one point per head."""
    question = f"Do two seeds agree on the heads for {words.axis_name(choice.measured)}?"
    table = by_seed(run, choice.measured)
    if table.shape[1] < 2:
        return nothing("seed_scatter", question, "That takes at least two seeds per head, and heads that were ranked.")
    first, second = table.columns[:2]
    r = float(np.corrcoef(table[first], table[second])[0, 1])
    found = repeats_of(table, choice.sparsity or 0.2)
    figure = _scatter(
        choice, table[first], table[second], f"effect on bias, seed {first}", f"seed {second}", _heads(run, table)
    )
    answer = f"Correlation {_r(r)} over {len(table)} heads. {_overlap_said(found, choice.sparsity or 0.2)}"
    readable = table.rename(columns=lambda seed: f"seed {seed}").reset_index()
    note = "Same prompts, other random streams. On the dashed line both seeds agree."
    return Panel("seed_scatter", question, answer, figure, readable, note)


def more_seeds(run: Run, choice: Choice) -> Panel:
    """The Spearman-Brown curve of the measured axis."""
    question = f"How many seeds make the scores for {words.axis_name(choice.measured)} reliable?"
    table = by_seed(run, choice.measured)
    if table.shape[1] < 2:
        return nothing("more_seeds", question, "That takes at least two seeds per head, and heads that were ranked.")
    small = table[table.index.isin(small_heads(run, choice, choice.measured))]
    parts = [("all heads", table), (f"heads below {SMALL:g} of the bias", small)]
    found = [(name, repeats_of(part)) for name, part in parts if len(part) >= 2]
    figure, rows = blank(choice, 320, "seeds per prompt", "reliability of their mean"), []
    steps = np.unique(np.logspace(0, 2, 40).round().astype(int))
    for (name, one), colour, dash in zip(found, series_colours(choice.dark), ("solid", "dash"), strict=False):
        values = [spearman_brown(one.icc, int(k)) for k in steps]
        figure.add_trace(
            go.Scatter(
                x=steps,
                y=values,
                mode="lines",
                name=name,
                line={"color": colour, "dash": dash, "width": 2.5},
                hovertemplate="%{x} seeds: %{y:.2f}<extra></extra>",
            )
        )
        rows += [{"over": name, "seeds": int(k), "reliability": value} for k, value in zip(steps, values, strict=True)]
    _line(figure, choice, GOOD)
    figure.update_xaxes(type="log", tickvals=[1, 2, 5, 10, 20, 50, 100], range=[0, 2])
    figure.update_yaxes(range=[-0.05, 1.05])
    said = [f"{name}: {_needed_of(one)}" for name, one in found]
    note = "Predicted from the measured ICC of one seed (Spearman-Brown). Measured were "
    return Panel(
        "more_seeds",
        question,
        f"For a reliability of {GOOD:g}: {'; '.join(said)}.",
        figure,
        pd.DataFrame(rows),
        f"{note}{say.count(found[0][1].seeds, 'seed')}.",
    )


def additivity(run: Run, choice: Choice) -> Panel:
    """Sum of single effects against the measured change, along the slider."""
    axis = words.axis_name(choice.measured)
    question = f"Do single-head effects on {axis} add up when several heads are cut?"
    scores = lookup.frame(run, "scores")
    mine = scores[(scores["score"] == "z_bias") & (scores["axis"] == choice.measured) & (scores["seed"] == POOLED)]
    single = mine.set_index("unit")["value"]
    rows = []
    for sparsity in lookup.sparsities(run, choice.method, choice.axis):
        variant = lookup.variant_of(
            run, Choice(choice.method, choice.axis, sparsity, choice.measured_axis, choice.reading)
        )
        row = lookup.bias(run, variant["variant"], choice)
        if sparsity > 0 and row is not None and math.isfinite(row["delta"]):
            predicted = -float(single.reindex(lookup.cut_units(variant)).sum(min_count=1))
            rows.append(
                {
                    "sparsity": sparsity,
                    "heads cut": int(variant["n_cut"]),
                    "predicted change": predicted,
                    "measured change": row["delta"],
                    "low": row["delta_low"],
                    "high": row["delta_high"],
                }
            )
    table = pd.DataFrame(rows)
    if table.empty or table["predicted change"].isna().all():
        return nothing(
            "additivity", question, "That takes a pruned variant of this method, and heads that were ranked."
        )
    figure = _additivity_figure(choice, table)
    last = table.iloc[-1]
    inside = int(((table["predicted change"] >= table["low"]) & (table["predicted change"] <= table["high"])).sum())
    measured = f"{say.signed(last['measured change'])} ({say.span(last['low'], last['high'])})"
    answer = (
        f"At {say.percent(last['sparsity'])} the single effects add up to {say.signed(last['predicted change'])}, "
        f"measured was {measured}. The sum lies inside the measured interval at {inside} of {len(table)} sparsities."
    )
    note = (
        "Single effects come from validation prompts, measured changes from test prompts. Heads chosen for large "
        "effects look larger than they are, and heads that do the same work replace each other: both make the sum "
        "too large."
    )
    return Panel("additivity", question, answer, figure, table, note)


def run_panels(run: Run, choice: Choice) -> list[Panel]:
    """Everything about the reliability of a run, in reading order."""
    return [run_repeats(run, choice), seed_scatter(run, choice), more_seeds(run, choice), additivity(run, choice)]


# --- published scores


def published(scores: Sequence[PublishedScores], choice: Choice, share: float = 0.2) -> list[Panel]:
    """ICC of one published seed per model and axis, and the overlap of what would be cut. Of `choice`: only `dark`."""
    question = "How far can one published seed be trusted?"
    rows = []
    for one in scores:
        for axis, part in one.table.groupby("axis"):
            wide = -part.pivot(index="head", columns="seed", values="bias_after")
            if wide.shape[1] >= 2:
                rows.append(_row(one.model, words.axis_name(str(axis)), repeats_of(wide, share)))
    if not rows:
        return [nothing("published_repeats", question, "That takes scores of at least two seeds per head.")]
    table = pd.DataFrame(rows)
    means = table.groupby("name", sort=False)["ICC"].mean()
    noise = [name for name, value in means.items() if value < 0.1]
    answer = f"In {len(noise)} of {len(means)} models a single seed's scores are almost only noise (mean ICC below 0.1)"
    answer += f": {say.listing(noise)}. " if noise else ". "
    answer += f"Highest: {means.idxmax()} (mean ICC {_r(means.max())})."
    note = f"{ICC_SAID} Over heads, effects as published; intervals are 95 % (F distribution)."
    first = Panel("published_repeats", question, answer, icc_figure(table, choice), _shown(table), note)
    return [first, _published_overlap(table, choice, share)]


def _published_overlap(table: pd.DataFrame, choice: Choice, share: float) -> Panel:
    """Selected sets of two seeds, against chance."""
    question = f"Would two seeds cut the same {say.percent(share)} of heads?"
    figure = blank(
        choice, 150 + 46 * table["name"].nunique(), "share of the selected heads found again by another seed"
    )
    names = list(dict.fromkeys(table["name"]))
    for place, (over, part) in enumerate(table.groupby("over", sort=False)):
        figure.add_trace(
            go.Scatter(
                x=part["overlap"],
                y=[names.index(name) for name in part["name"]],
                mode="markers",
                name=plain(over),
                marker=_marker(choice, place),
                hovertemplate="%{x:.2f}<extra>" + plain(over) + "</extra>",
            )
        )
    _names_on_y(figure, names)
    figure.add_vline(
        x=share,
        line={"color": choice.theme.soft, "dash": "dot", "width": 1.5},
        annotation_text="chance",
        annotation_position="top right",
    )
    figure.update_xaxes(range=[0, 1])
    means = table.groupby("name", sort=False)["overlap"].mean()
    answer = (
        f"Two seeds agree on {say.percent(float(means.min()))} ({means.idxmin()}) to {say.percent(float(means.max()))} "
        f"({means.idxmax()}) of the heads, where chance gives {say.percent(float(table['by chance'].mean()))}."
    )
    columns = ["name", "over", "overlap", "by chance", "heads", "seeds"]
    note = "By effect on bias alone, no head protected. Mean over all pairs of seeds."
    return Panel("published_overlap", question, answer, figure, table[columns], note)


# --- parts


def _row(name: str, over: str, found: Repeats) -> dict[str, Any]:
    return {
        "name": name,
        "over": over,
        "ICC": found.icc,
        "low": found.low,
        "high": found.high,
        "ICC of the mean": found.icc_mean,
        "seeds needed": math.nan if found.needed is None else found.needed,
        "overlap": found.overlap.share,
        "by chance": found.overlap.expected,
        "heads": found.units,
        "seeds": found.seeds,
    }


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    return table.rename(columns={"seeds needed": f"seeds needed for {GOOD:g}"})


def icc_figure(table: pd.DataFrame, choice: Choice) -> go.Figure:
    """Dots with intervals: one row per name, one colour and symbol per `over`."""
    names = list(dict.fromkeys(table["name"]))
    several = table["over"].nunique()
    figure = blank(choice, 110 + max(34, 13 * several + 12) * len(names), "ICC(C,1) of one seed")
    for place, (over, part) in enumerate(table.groupby("over", sort=False)):
        shift = [_shift(table, name, over, several) for name in part["name"]]
        x, low, high = part["ICC"], part["low"], part["high"]
        error = {
            "type": "data",
            "symmetric": False,
            "array": (high - x).clip(lower=0),
            "arrayminus": (x - low).clip(lower=0),
            "width": 0,
            "thickness": 1.5,
            "color": _marker(choice, place)["color"],
        }
        texts = [
            f"<b>{plain(row.name)}</b>, {plain(over)}<br>ICC {_r(row.ICC)} ({_r(row.low)} to {_r(row.high)})"
            for row in part.drop(columns="name").assign(name=part["name"]).itertuples(index=False)
        ]
        figure.add_trace(
            go.Scatter(
                x=x,
                y=[names.index(name) + by for name, by in zip(part["name"], shift, strict=True)],
                mode="markers",
                name=plain(over),
                error_x=error,
                marker=_marker(choice, place),
                text=texts,
                hovertemplate="%{text}<extra></extra>",
            )
        )
    _names_on_y(figure, names)
    for at, dash in ((0.0, "solid"), (GOOD, "dot")):
        figure.add_vline(x=at, line={"color": choice.theme.soft, "dash": dash, "width": 1})
    figure.update_xaxes(range=[min(-0.1, float(np.nanmin(table["low"])) - 0.02), 1.02])
    return figure


def _shift(table: pd.DataFrame, name: str, over: str, several: int) -> float:
    """Where a dot stands within its name's row, so that the dots of a name lie around its label."""
    mine = table.loc[table["name"] == name, "over"].tolist()
    return (mine.index(over) - (len(mine) - 1) / 2) * 0.7 / max(several, 1)


def _names_on_y(figure: go.Figure, names: list[str]) -> None:
    figure.update_yaxes(
        tickvals=list(range(len(names))),
        ticktext=[wrapped(name, 18) for name in names],
        showgrid=False,
        range=[len(names) - 0.4, -0.6],
    )


def _marker(choice: Choice, place: int) -> dict[str, Any]:
    symbols = ("circle", "diamond", "square", "triangle-up", "x", "star")
    return {
        "color": series_colours(choice.dark)[place % 5],
        "symbol": symbols[place % len(symbols)],
        "size": 9,
    }


def _line(figure: go.Figure, choice: Choice, at: float) -> None:
    figure.add_hline(y=at, line={"color": choice.theme.soft, "dash": "dot", "width": 1.5})


def _scatter(choice: Choice, x: pd.Series, y: pd.Series, x_name: str, y_name: str, names: list[str]) -> go.Figure:
    figure = blank(choice, 380, x_name, y_name)
    ends = [float(min(x.min(), y.min())), float(max(x.max(), y.max()))]
    figure.add_trace(
        go.Scatter(
            x=ends,
            y=ends,
            mode="lines",
            line={"color": choice.theme.soft, "dash": "dash", "width": 1},
            hoverinfo="skip",
            showlegend=False,
        )
    )
    figure.add_trace(
        go.Scatter(
            x=x,
            y=y,
            mode="markers",
            text=names,
            showlegend=False,
            marker={**_marker(choice, 0), "opacity": 0.75},
            hovertemplate="%{text}<br>%{x:.3f} and %{y:.3f}<extra></extra>",
        )
    )
    return figure


def _additivity_figure(choice: Choice, table: pd.DataFrame) -> go.Figure:
    figure = blank(choice, 340, "share of heads cut", "change of bias")
    x = [100 * value for value in table["sparsity"]]
    error = {
        "type": "data",
        "symmetric": False,
        "array": table["high"] - table["measured change"],
        "arrayminus": table["measured change"] - table["low"],
        "width": 4,
        "thickness": 1.5,
    }
    for place, (name, column, dash) in enumerate(
        (
            ("measured, with 95 % interval", "measured change", "solid"),
            ("sum of single effects", "predicted change", "dash"),
        )
    ):
        figure.add_trace(
            go.Scatter(
                x=x,
                y=table[column],
                mode="lines+markers",
                name=name,
                marker=_marker(choice, place),
                line={"color": _marker(choice, place)["color"], "dash": dash, "width": 2},
                error_y=error if place == 0 else None,
                hovertemplate="%{x:.0f} %: %{y:.3f}<extra></extra>",
            )
        )
    _line(figure, choice, 0.0)
    figure.update_xaxes(ticksuffix=" %")
    return figure


def _heads(run: Run, table: pd.DataFrame) -> list[str]:
    n_heads = int(run.meta["model"]["n_heads"])
    return [words.head_name(unit // n_heads, unit % n_heads) for unit in table.index]


def _overlap_said(found: Repeats, share: float) -> str:
    return (
        f"Of the {say.percent(share)} with the largest effect, {say.percent(found.overlap.share)} come out again in "
        f"another seed; chance gives {say.percent(found.overlap.expected)}."
    )


def _needed(row: pd.Series) -> str:
    if math.isnan(row["seeds needed"]):
        return f"No number of seeds makes that {GOOD:g}: these scores are noise."
    if row["seeds needed"] > MANY:
        return f"There, more than {MANY:,} seeds would be needed for {GOOD:g}: these scores are noise."
    return f"There, {say.count(int(row['seeds needed']), 'seed')} would make the mean reach {GOOD:g}."


def _needed_of(found: Repeats) -> str:
    if found.needed is None:
        return "no number of seeds is enough"
    return say.count(found.needed, "seed") if found.needed <= MANY else f"more than {MANY:,} seeds"


def _r(value: float) -> str:
    return say.number(float("nan")) if math.isnan(value) else f"{value:.2f}".replace("-", say.MINUS)
