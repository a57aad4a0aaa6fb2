"""Would the head scores of a run come out again?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from engine.core import words
from engine.core.types import POOLED
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.kinds import diagonal, dots, lines, looks_of, points
from engine.report.charts.panel import Choice, Panel, nothing, plain, wrapped
from engine.report.charts.reliability_parts import (
    GOOD,
    ICC_SAID,
    MANY,
    icc_figure,
    reliable_said,
    repeated,
    row_of,
    shown,
)
from engine.report.schema import hovers, readable
from engine.stats.reliability import SMALL, Repeats, repeats_of, small_effects, spearman_brown
from engine.store.runs import Run, where
from engine.tracks.language_models.evidence import transfer_text
from engine.tracks.language_models.published_scores import PublishedScores

ALL = "all heads"
PLACES = ("at home", "there")
NOT_ELSEWHERE = (
    "No cut of this audit was measured on other prompts. The command transfer measures one on "
    "prompts or a benchmark of your own."
)
TRANSFER_NOTE = (
    "Changes are in per cent of the uncut model's own bias in each place, with Fieller's 95 % "
    "intervals. What arrives is the ratio of the two changes. Random cuts are of as many heads "
    "that are not critical; of their shares, only those with a clear change at home count."
)
TRANSFERRED = (
    "source variant home home_low home_high away away_low away_high arrives arrives_low "
    "arrives_high random random_low random_high n_told n_random p away_detectable"
)
FEW = "That takes at least two seeds per head, and heads that were ranked."


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
    question = "Would the scores come out the same once more?"
    table = repeated(
        (words.axis_name(axis), name, part)
        for axis in run.request["axes"]
        for name, part in parts_of(run, choice, axis)
    )
    if table.empty:
        return nothing("run_repeats", question, FEW)
    whole = table[table["over"] == ALL]
    answer = reliable_said(whole, "axis", "axes")
    low, high = int(table["seeds"].min()), int(table["seeds"].max())
    seeds = phrasing.count(high, "seed") if low == high else f"{low} to {high} seeds"
    note = (
        f"{ICC_SAID} {seeds}, same prompts; 95 % intervals, bootstrap over heads. One strong head"
        " alone can lift it, so heads with small effects are shown apart"
    )
    told = set(table.loc[table["over"] != ALL, "name"])
    if untold := [name for name in dict.fromkeys(table["name"]) if name not in told]:
        note += f", except where noise hides them ({phrasing.listing(map(words.quoted, untold))})"
    return Panel(
        "run_repeats",
        question,
        answer,
        icc_figure(table, choice),
        shown(table),
        f"{note}.",
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
            FEW,
        )
    first, second = table.columns[:2]
    r = table[first].corr(table[second])
    found = repeats_of(table, choice.level or 0.2)
    heads, titles = int(run.model["n_heads"]), (f"seed {first}", f"seed {second}")
    drawn = pd.DataFrame({"unit": table.index, "x": table[first].values, "y": table[second].values})
    hover = hovers(
        drawn,
        "unit x y",
        unit=lambda unit: words.head_name(unit // heads, unit % heads),
        x=titles[0],
        y=titles[1],
    )
    axes = (f"effect on bias, {titles[0]}", titles[1])
    figure = points(choice, drawn.assign(hover=hover), "x", "y", axes, zero="")
    ends = drawn[["x", "y"]].stack()
    diagonal(figure, choice, ends.min(), ends.max())
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
            FEW,
        )
    steps = np.unique(np.logspace(0, 2, 40).round().astype(int))
    rows = [
        {"over": name, "seeds": int(k), "reliability": spearman_brown(one.icc, int(k))}
        for name, one in found
        for k in steps
    ]
    table = pd.DataFrame(rows)
    figure = lines(
        choice,
        table.assign(hover=hovers(table, "over seeds reliability", over=str)),
        "seeds",
        "reliability",
        looks_of(choice, [name for name, _ in found]),
        ("seeds per prompt", "reliability of their mean"),
        by="over",
        named=str,
        height=320,
        level=(GOOD, ""),
        mode="lines",
        ticks="",
    )
    figure.update_xaxes(type="log", tickvals=[1, 2, 5, 10, 20, 50, 100], range=[0, 2])
    figure.update_yaxes(range=[-0.05, 1.05])
    answer = (
        f"To reach a reliability of {GOOD:g},"
        f" {'; '.join(f'{_needed_of(one)} over {name}' for name, one in found)}."
    )
    seeds = phrasing.count(found[0][1].seeds, "seed")
    note = f"Predicted from the measured ICC of one seed (Spearman-Brown). Measured were {seeds}."
    return Panel("more_seeds", question, answer, figure, table, note)


def _overlap_said(found: Repeats, share: float) -> str:
    found_again, overlap = phrasing.percent(found.overlap.share), found.overlap
    return (
        f"Of the {phrasing.percent(share)} with the largest effect, {found_again} come out again "
        f"in another seed. Chance gives {phrasing.percent(overlap.expected)} (up to "
        f"{phrasing.percent(overlap.high)})" + (": no more than chance." if overlap.chance else ".")
    )


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
    most = f"more than {MANY:,} seeds"
    return f"it takes {phrasing.count(found.needed, 'seed') if found.needed <= MANY else most}"


# Would published head scores come out again? For all imported models in one picture.


def published(scores: Sequence[PublishedScores], choice: Choice, share: float = 0.2) -> list[Panel]:
    """ICC of one published seed per model and axis, and the overlap of what would be cut. Of
    `choice`: only `dark`."""
    question = "How far can one published seed be trusted?"
    rows = []
    for one in scores:
        for axis in sorted(one.table["axis"].unique()):
            wide = one.by_seed(axis)
            if wide.shape[1] >= 2:
                rows.append(row_of(one.model, words.axis_name(axis), repeats_of(wide, share)))
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
    by_name = table.groupby("name")
    drawn = table.assign(
        hover=hovers(table, "name over overlap", name=str, over=str, overlap="share found again"),
        null_low=by_name["chance low"].transform("min"),
        null_high=by_name["chance high"].transform("max"),
    )
    figure = dots(
        choice,
        drawn,
        "overlap",
        {name: wrapped(name, 18) for name in table["name"]},
        looks_of(choice, list(dict.fromkeys(table["over"]))),
        "share of the selected heads found again by another seed",
        row="name",
        by="over",
        named=plain,
        bars="-",
        zero=False,
    )
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


def transferred(run: Run, choice: Choice) -> Panel:
    """The change of bias at home and on every other source that a cut was measured on, beside what
    random cuts do there."""
    key, axis = "transferred", words.axis_name(choice.measured)
    question = f"Does a cut chosen here do as much for {axis} on other prompts?"
    rows = lookup.frame(run, "transfer") if run.has("transfer") else pd.DataFrame()
    rows = where(rows, axis=choice.measured) if len(rows) else rows
    if rows.empty:
        return nothing(key, question, NOT_ELSEWHERE)
    mine = where(rows, variant=lookup.variant_of(run, choice)["variant"])
    rows = pd.concat([mine, rows.drop(mine.index)], ignore_index=True)
    called = {
        one["variant"]: lookup.variant_label(run, one)
        for one in lookup.named(run).to_dict("records")
    }
    rows["variant"] = rows["variant"].replace(called)
    told = rows.head(max(1, len(mine))).to_dict("records")
    other = "" if len(mine) else f"Not measured of this cut. Of {told[0]['variant']}: "
    answer = other + transfer_text(*told)
    rows["place"] = rows["source"] + ", " + rows["variant"]
    shown = readable(rows, TRANSFERRED, variant="cut")
    table = pd.concat(
        rows.rename(
            columns={f"{name}{end}": f"change{end}" for end in ("", "_low", "_high")}
        ).assign(where=at)
        for name, at in zip(("home", "away"), PLACES, strict=True)
    )
    table = table.drop(columns=["null_low", "null_high"]).reset_index(drop=True)
    said = hovers(table, "place where change", where=str)
    title = "change of bias, % of the uncut model's"
    labels = {name: wrapped(name, 32) for name in rows["place"]}
    looks = looks_of(choice, PLACES)
    table = table.assign(hover=said)
    figure = dots(choice, table, "change", labels, looks, title, row="place", by="where", named=str)
    return Panel(key, question, answer, figure, shown, TRANSFER_NOTE)
