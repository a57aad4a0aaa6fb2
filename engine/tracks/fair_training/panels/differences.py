"""At the same share cut, is BiFP's gap smaller, and is it as accurate? BiFP minus every other
method, both together."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import Values, at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.cost import MAX_Q, direction
from engine.report.charts.kinds import dots, front_line, heading, lines, remark
from engine.report.charts.lookup import trials_said
from engine.report.charts.panel import Choice, Panel, nothing, wrapped
from engine.report.schema import hovers, readable
from engine.report.tracks import Measure, track_of
from engine.store.runs import Run, where
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.panels.curve import (
    CONTROLS,
    FOUND,
    bifp_of,
    flops_said,
    images_read,
    not_the_fair_axis,
    share_said,
    stated,
    styles,
)

GAP_SAID = {
    "fell": "clearly smaller than",
    "rose": "clearly larger than",
    "open": "not clearly different from",
}
ACCURACY_SAID = {
    "open": ", at an accuracy that does not clearly differ",
    "rose": ", at a clearly higher accuracy",
    "fell": ", but at a clearly lower accuracy",
}
"""BiFP's gap and accuracy against another method's."""
COLUMNS = "base method sparsity axis metric value low high p q n n_trials"


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    return readable(
        table.assign(axis=table["axis"].map(lambda axis: axis or "all images")),
        COLUMNS,
        method="against",
        value="difference",
        n="images",
        n_trials="seeds",
    )


def bifp_against(run: Run, choice: Choice) -> Panel:
    """BiFP minus each other method at the chosen sparsity: a row per method, a column per
    measure."""
    base, gap = bifp_of(run, choice), _gap(run, choice)
    question = f"At the same share cut, is BiFP's {gap.name} smaller, and is it as accurate?"
    if not base:
        return nothing(
            "bifp_against", question, "This audit has no BiFP to compare the others with."
        )
    table = differences(run, choice, base, gap)
    at, name = lookup.level_of(run, choice), words.method_name(base)
    said = phrasing.percent(at)
    if table.empty:
        why = (
            f"Nothing is compared with {name} at {said} here: no gap was measured, or no other "
            "method was trained."
        )
        return nothing("bifp_against", question, why)
    accuracy = Measure("accuracy", few="images")
    order = list(dict.fromkeys(table["method"]))
    parts = (
        difference_figure(run, choice, table, gap, order, f"← smaller gap with {name}"),
        difference_figure(run, choice, table, accuracy, order, f"more accurate with {name} →"),
    )
    note = (
        f"{name} minus the other method at {said}, same test images (n = "
        f"{int(table['n'].max()):,}), {trials_said(run)} each. {own.INTERVALS_SEEDS} Filled "
        f"points: claimed, q (false discovery rate) of at most {MAX_Q:g}; open points: the "
        f"interval includes zero, or q is larger. {own.EQUAL_ACCURACY} BiFP-str is compared with "
        "all methods, BiFP-uns with those that cut weights. "
        f"{share_said(run)}{flops_said(run, [base, *order], at)}"
        f"{images_read(run, [base, *order], at)}"
    )
    note += "" if set(CONTROLS) & set(order) else f" {own.NO_CONTROLS}"
    answer, more = _answer(run, choice, table, name, gap, at)
    mind, shown = not_the_fair_axis(run, choice).strip(), _shown(table)
    return Panel(
        "bifp_against", question, answer, None, shown, note, parts, True, mind=mind, more=more
    )


def differences(run: Run, choice: Choice, base: str, gap: Measure) -> pd.DataFrame:
    """BiFP minus the other: one row per method and measure at the chosen sparsity, the largest gap
    first."""
    rows = _turned(run, choice, base)
    gaps = where(rows, axis=choice.measured, metric=gap.metric)
    turned = pd.concat([gaps, where(rows, axis="", metric="accuracy")], ignore_index=True)
    both = [name for name, part in turned.groupby("method") if part["metric"].nunique() == 2]
    turned = turned[turned["method"].isin(both)]
    first = (
        turned[turned["metric"] == gap.metric]
        .sort_values("value", kind="stable")["method"]
        .tolist()
    )
    place = {name: index for index, name in enumerate(first)}
    return turned.assign(_place=turned["method"].map(place)).sort_values(
        ["_place", "metric"], ignore_index=True
    )


def _turned(run: Run, choice: Choice, base: str) -> pd.DataFrame:
    """Rows of arm_differences at the chosen sparsity, as the base minus the other method."""
    table = lookup.table(run, "arm_differences", f"{COLUMNS} group")
    rows = table[at_level(table["sparsity"], lookup.level_of(run, choice))]
    rows = where(rows, base=base, group="").dropna(subset="value")
    return rows.assign(value=-rows["value"], low=-rows["high"], high=-rows["low"])


def _gap(run: Run, choice: Choice) -> Measure:
    """The gap the choice reads by, where methods are compared by it."""
    metric = lookup.reading(run, choice).harm.metric
    return Measure(
        metric if metric in ("accuracy_gap", "degradation_gap") else "accuracy_gap",
        few="images",
    )


def difference_figure(
    run: Run,
    choice: Choice,
    table: pd.DataFrame,
    measure: Measure,
    order: list[str],
    good: str = "",
) -> go.Figure:
    """One measure: a point with its interval per method, in this order; good: what an end of the
    axis means."""
    mine, names = table[table["metric"] == measure.metric], map(words.method_name, order)
    clear = [direction(row) in ("rose", "fell") for row in mine.to_dict("records")]
    said = hovers(mine, "method value q n", value=f"difference of {measure.name}")
    symbols = np.where(clear, "circle", "circle-open")
    rows = dict(zip(order, [wrapped(name, 20) for name in names], strict=True))
    figure = dots(
        choice,
        mine.assign(hover=said, symbol=symbols),
        "value",
        rows,
        styles(run, choice, order),
        f"difference of {measure.name}",
        at=choice.method,
        apart=0,
    )
    heading(figure, phrasing.sentence(measure.name))
    end = {"x": 0, "xanchor": "left"} if good.startswith("←") else {"x": 1, "xanchor": "right"}
    if good:
        remark(figure, choice, good, **end, xref="paper", y=0, yref="paper", yanchor="bottom")
    figure.update_layout(margin={"t": 30})
    return figure


def _answer(
    run: Run, choice: Choice, table: pd.DataFrame, name: str, gap: Measure, at: float
) -> tuple[str, str]:
    """How many methods have a clearly larger gap and how many cannot be told apart; then which, and
    whether that holds at no lower accuracy."""
    wide = [
        table[table["metric"] == metric].set_index("method") for metric in (gap.metric, "accuracy")
    ]
    kinds = {
        method: tuple(_kind(direction(rows.loc[method].to_dict())) for rows in wide)
        for method in dict.fromkeys(table["method"])
    }
    parts = []
    for (of_gap, start), (of_accuracy, end) in itertools.product(
        GAP_SAID.items(), ACCURACY_SAID.items()
    ):
        mine = [
            words.method_name(method)
            for method, pair in kinds.items()
            if pair == (of_gap, of_accuracy)
        ]
        if mine:
            parts.append(f"{start} that of {phrasing.listing(mine, len(own.METHODS))}{end}")
    start = (
        f"At {phrasing.percent(at)}, {name}'s {gap.name} of {words.axis_name(choice.measured)} is"
    )
    of = [of_gap for of_gap, _ in kinds.values()]
    counts = [f"{GAP_SAID[kind]} that of {of.count(kind)}" for kind in GAP_SAID if of.count(kind)]
    others = phrasing.count(len(kinds), "other method")
    return (
        f"{start} {phrasing.listing([f'{counts[0]} of {others}', *counts[1:]])}.",
        f"{'. '.join(map(phrasing.sentence, parts))}.",
    )


def _kind(of: str) -> str:
    """Clear either way, or open."""
    return of if of in ("fell", "rose") else "open"


# Is it which filters BiFP keeps, or how many in each layer? BiFP minus controls in its own
# widths.


QUESTION = "Is it which filters BiFP keeps, or how many in each layer?"
MEASURES = ("accuracy", "accuracy_gap", "tpr_gap", "degradation_gap")


def widths(run: Run, choice: Choice) -> Panel:
    """BiFP-str minus each control: a row per control, a column per measure."""
    table = against(run, choice)
    if table.empty:
        return nothing("fair_widths", QUESTION, own.NO_CONTROLS)
    order = list(dict.fromkeys(table["method"]))
    measures = [Measure(name, few="images") for name in MEASURES if name in set(table["metric"])]
    parts = tuple(difference_figure(run, choice, table, measure, order) for measure in measures)
    at = lookup.level_of(run, choice)
    note = (
        f"{words.method_name(FOUND)} minus each control at {phrasing.percent(at)}, same test "
        f"images, {trials_said(run)}. Controls keep as many filters of every layer as it kept in "
        "that seed, so their FLOPs are equal; they are trained as P&F. Draws of one seed are "
        "averaged before seeds are compared. Filled points: claimed (q of at most .05). A "
        "difference that is not clear does not prove equality. "
        f"{own.INTERVALS_SEEDS}{images_read(run, [FOUND, *order], at)}"
    )
    answer, more = _found(run, choice)
    return Panel(
        "fair_widths",
        QUESTION,
        answer,
        None,
        _shown(table),
        note,
        parts,
        True,
        more=more,
    )


def against(run: Run, choice: Choice) -> pd.DataFrame:
    """BiFP-str minus its controls at the chosen sparsity, a row per control and measure; empty
    where there are none."""
    rows = _turned(run, choice, FOUND)
    whole = (rows["axis"] == "") & (rows["metric"] == "accuracy")
    mine = rows["method"].isin(CONTROLS) & rows["metric"].isin(MEASURES)
    return rows[mine & (whole | (rows["axis"] == choice.measured))].reset_index(drop=True)


def _found(run: Run, choice: Choice) -> tuple[str, str]:
    """The verdict in a sentence, and every difference; two empty texts without controls."""
    table, name = against(run, choice), words.method_name(FOUND)
    if table.empty:
        return "", ""
    parts, apart = [], []
    for control, rows in table.groupby("method", sort=False):
        said = [
            f"{Measure(row['metric']).name} {stated(Measure(row['metric']), row)}"
            for row in rows.to_dict("records")
        ]
        parts.append(f"minus {words.method_name(str(control))}: {phrasing.listing(said)}")
        apart += [
            row["metric"] for row in rows.to_dict("records") if direction(row) in ("fell", "rose")
        ]
    found = f"{name}'s own filters {'; '.join(parts)}."
    if not apart:
        return (
            f"Nothing clearly differs: here {name} found layer widths, not better filters.",
            found,
        )
    what = phrasing.listing([words.metric_name(metric) for metric in dict.fromkeys(apart)])
    return (
        f"{phrasing.sentence(what)}: which filters stay matters, not only how many per layer.",
        found,
    )


# What more fairness costs in accuracy: the trade-off over λ at one sparsity, and the area it
# covers (Fig. 5).


TRADEOFF_QUESTION = "How much accuracy does more fairness cost, and who offers the better choice?"
ABSENT = (
    "This audit has no sweep over λ. Ask for one under “Trade-off over λ” on the page “New audit”,"
    " or with --tradeoff on the command line."
)
GAPS = {"gap": "accuracy gap", "degradation": "degradation gap"}
HEIGHT = 380
TRADEOFF_COLUMNS = (
    "method strength sparsity accuracy accuracy_low accuracy_high gap gap_low gap_high degradation"
    " degradation_low degradation_high on_front n_trials volume volume_low volume_high"
)


def has_tradeoff(run: Run, choice: Choice) -> bool:
    return not points(run, choice).empty


def tradeoff(run: Run, choice: Choice) -> Panel:
    """A line of λ per method in accuracy and gap, and the hypervolume of each."""
    table = points(run, choice)
    if table.empty:
        return nothing("fair_tradeoff", TRADEOFF_QUESTION, ABSENT)
    gap, volumes = _tradeoff_gap(run, choice), _volumes(run, choice)
    parts = [
        _curve(run, choice, table, gap),
        *([_bars(run, choice, volumes)] if len(volumes) else []),
    ]
    share = float(table["sparsity"].iat[0])
    at = phrasing.percent(share)
    note = (
        f"All at {at} cut, {phrasing.count(int(table['n_trials'].max()), 'seed')} per point, test "
        f"images. {own.INTERVALS_SEEDS} Dotted line: the front, points that no other beats at "
        f"both by their values.{_reference_said(volumes)} Points of one line differ in λ only, so "
        "read the line, not the single point. Pareto also has the methods without a "
        f"sweep.{flops_said(run, list(table['method'].unique()), share)}"
    )
    (answer, more), shown = (
        _tradeoff_answer(run, choice, table, volumes, gap),
        readable(_with_volumes(table, volumes), TRADEOFF_COLUMNS, n_trials="seeds"),
    )
    mind = not_the_fair_axis(run, choice).strip()
    return Panel(
        "fair_tradeoff",
        TRADEOFF_QUESTION,
        answer,
        None,
        shown,
        note,
        tuple(parts),
        True,
        mind=mind,
        more=more,
    )


def _with_volumes(table: pd.DataFrame, volumes: pd.DataFrame) -> pd.DataFrame:
    """Every point with the hypervolume of its method, where there is one."""
    if volumes.empty:
        return table
    mine = volumes.set_index("method")
    ends = {"volume": "value", "volume_low": "low", "volume_high": "high"}
    return table.assign(
        **{name: table["method"].map(mine[column]) for name, column in ends.items()}
    )


def points(run: Run, choice: Choice) -> pd.DataFrame:
    """Rows of the sweep on the measured axis, by method and λ."""
    table, gap = (
        lookup.table(run, "tradeoff", f"{TRADEOFF_COLUMNS} axis"),
        _tradeoff_gap(run, choice),
    )
    mine = table[
        (table["axis"] == choice.measured) & table["accuracy"].notna() & table[gap].notna()
    ]
    order = {
        name: place
        for place, name in enumerate(track_of(run).methods.order(mine["method"].unique()))
    }
    return mine.assign(_place=mine["method"].map(order)).sort_values(
        ["_place", "strength"], ignore_index=True
    )


def _tradeoff_gap(run: Run, choice: Choice) -> str:
    """Column of the gap the choice reads by."""
    return "degradation" if lookup.reading(run, choice).harm.metric == "degradation_gap" else "gap"


def _volumes(run: Run, choice: Choice) -> pd.DataFrame:
    table = lookup.table(run, "hypervolume", "method axis value")
    if _tradeoff_gap(run, choice) != "gap":
        return table[:0]
    mine = table[(table["axis"] == choice.measured) & table["value"].notna()]
    return mine.sort_values("value", ascending=False, ignore_index=True, kind="stable")


def _curve(run: Run, choice: Choice, table: pd.DataFrame, gap: str) -> go.Figure:
    """A line per method, λ from small to large; λ is written beside its ends: labels in between
    would hide each other."""
    seen = f"method strength accuracy {gap}" + " on_front" * (gap == "gap")
    figure = lines(
        choice,
        table.assign(hover=hovers(table, seen)),
        "accuracy",
        gap,
        styles(run, choice, dict.fromkeys(table["method"])),
        ("accuracy (higher is better)", f"{GAPS[gap]} (lower is better)"),
        height=HEIGHT,
        title="Trade-off over λ",
        bars=f"accuracy {gap}",
        ticks="",
    )
    if gap == "gap" and table["on_front"].any():
        best = table[table["on_front"].astype(bool)].sort_values(["accuracy", gap])
        front_line(figure, choice, best["accuracy"], best[gap])
    for _, rows in table.groupby("method"):
        for row in rows.iloc[[0, -1]].to_dict("records"):
            where = {"x": row["accuracy"], "y": row[gap], "xshift": 14, "yshift": 10}
            remark(figure, choice, f"λ {row['strength']:g}", **where)
    figure.update_xaxes(showgrid=True)
    figure.update_layout(margin={"r": 24})
    return figure


def _bars(run: Run, choice: Choice, volumes: pd.DataFrame) -> go.Figure:
    """Hypervolume with its interval, the largest on top."""
    names = list(volumes["method"])
    figure = dots(
        choice,
        volumes.assign(hover=hovers(volumes, "method value", value="hypervolume")),
        "value",
        {name: wrapped(words.method_name(name)) for name in names},
        styles(run, choice, names),
        "hypervolume (larger is better)",
        apart=0,
    )
    heading(figure, "Area covered")
    figure.update_layout(height=HEIGHT, margin={"t": 54})  # as beside it, below a legend
    return figure


def _volume(row: Values) -> str:
    return phrasing.with_interval(row["value"], row["low"], row["high"], few="seeds")


def _reference_said(volumes: pd.DataFrame) -> str:
    if volumes.empty:
        return ""
    accuracy, gap = (
        phrasing.number(volumes[f"reference_{name}"].iat[0]) for name in ("accuracy", "gap")
    )
    return (
        " Hypervolume: the area of choices that are worse than some point at both, up to "
        f"accuracy {accuracy} and gap {gap}; computed seed by seed."
    )


def _tradeoff_answer(
    run: Run, choice: Choice, table: pd.DataFrame, volumes: pd.DataFrame, gap: str
) -> tuple[str, str]:
    """What λ does to the chosen or first method; then which method's area is larger as far as
    intervals allow."""
    at = phrasing.percent(float(table["sparsity"].iat[0]))
    known = list(dict.fromkeys(table["method"]))
    method = choice.method if choice.method in known else known[0]
    first, *parts = _along(table[table["method"] == method], method, gap)
    if not volumes.empty:
        pairs = [row for row in volumes.to_dict("records") if row.get("base")]
        parts += map(_area_against, pairs)
        best, others = volumes.iloc[0], volumes.iloc[1:]
        told = {row["method"] for row in pairs if row["base"] == best["method"]}
        told |= {row["base"] for row in pairs if row["method"] == best["method"]}
        others = others[~others["method"].isin(told)]
        below = others["high"] < best["low"]
        clear, meets = (
            others.loc[mine, "method"].map(words.method_name).tolist() for mine in (below, ~below)
        )
        name = words.method_name(best["method"])
        text = (
            f"Of the {len(volumes)} methods swept, {name} covers the largest area,"
            f" {_volume(best.to_dict())}"
        )
        text += f"; its interval lies above that of {phrasing.listing(clear)}" if clear else ""
        text += (
            f"; it overlaps that of {phrasing.listing(meets)}, so either may be larger"
            if meets
            else ""
        )
        parts.append(f"{text}.")
    return f"At {at} cut: {first}", " ".join(parts)


def _area_against(row: Values) -> str:
    """The area of one method minus that of the method it is compared with, seed by seed."""
    name, base = words.method_name(row["method"]), words.method_name(row["base"])
    ends = phrasing.with_interval(
        row["difference"], row["difference_low"], row["difference_high"], few="seeds"
    )
    kind = {"rose": "larger than", "fell": "smaller than"}.get(
        phrasing.direction(
            {"delta_low": row["difference_low"], "delta_high": row["difference_high"]}
        ),
        "not clearly different from",
    )
    return f"The area of {name} is {kind} that of {base}: {ends}, paired by seed and image."


def _along(rows: pd.DataFrame, method: str, gap: str) -> list[str]:
    """What changes from the smallest to the largest λ of one method, in a sentence or two."""
    first, last = (rows.iloc[place].to_dict() for place in (0, -1))
    name = words.method_name(method)
    if len(rows) < 2:
        return [f"{name} was trained with one λ only."]
    moved = []
    for column, what in (("accuracy", "accuracy"), (gap, GAPS[gap])):
        apart = (
            first[f"{column}_high"] < last[f"{column}_low"]
            or last[f"{column}_high"] < first[f"{column}_low"]
        )
        doubt = "" if apart else " (the intervals overlap)"
        moved.append(
            f"{what} goes from {phrasing.number(first[column])} to"
            f" {phrasing.number(last[column])}{doubt}"
        )
    text = (
        f"for {name}, {' and '.join(moved)} as λ grows from {first['strength']:g} to"
        f" {last['strength']:g}."
    )
    against = (
        f"A larger λ does not make the {GAPS[gap]} smaller here." if last[gap] > first[gap] else ""
    )
    return [text, against] if against else [text]
