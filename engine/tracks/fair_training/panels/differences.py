"""At the same share cut, is BiFP's gap smaller, and is it as accurate? BiFP minus every other
method, both together."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.ids import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import trials_said
from engine.report.charts.differences import MAX_Q, direction
from engine.report.charts.kinds import dots
from engine.report.charts.marks import heading, remark
from engine.report.charts.panel import Choice, Panel, nothing, wrapped
from engine.report.contract import Measure
from engine.report.schema import hovers, readable
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.store.tables import where
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.panels.lookup import (
    CONTROLS,
    FOUND,
    bifp_of,
    flops_said,
    images_read,
    not_the_fair_axis,
    share_said,
    shown_of,
    stated,
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


def bifp_against(run: Run, choice: Choice, family: str = "all") -> Panel:
    """BiFP minus each other method at the chosen sparsity: a row per method, a column per
    measure."""
    base, gap = bifp_of(run, choice), _gap(run, choice)
    question = f"At the same share cut, is BiFP's {gap.name} smaller, and is it as accurate?"
    if not base:
        return nothing(
            "bifp_against", question, "This audit has no BiFP to compare the others with."
        )
    table = differences(run, choice, base, gap, family)
    at, name = lookup.level_of(run, choice), words.method_name(base)
    said = phrasing.percent(at)
    if table.empty:
        why = (
            f"Nothing is compared with {name} at {said} here: no gap was measured, or no other "
            "method was trained."
        )
        return nothing("bifp_against", question, why)
    accuracy = Measure("accuracy", few=track_of(run).items)
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


def differences(
    run: Run, choice: Choice, base: str, gap: Measure, family: str = "all"
) -> pd.DataFrame:
    """BiFP minus the other: one row per method and measure at the chosen sparsity, the largest gap
    first."""
    if not run.has("arm_differences"):
        return pd.DataFrame()
    table, at = lookup.frame(run, "arm_differences"), lookup.level_of(run, choice)
    rows = table[(table["base"] == base) & at_level(table["sparsity"], at) & (table["group"] == "")]
    gaps = where(rows, axis=choice.measured, metric=gap.metric)
    rows = pd.concat([gaps, where(rows, axis="", metric="accuracy")], ignore_index=True)
    rows = rows[
        rows["method"].isin(shown_of(lookup.methods(run), family, choice.method))
        & (rows["method"] != base)
    ]
    rows = rows[rows["value"].notna()]
    turned = rows.assign(value=-rows["value"], low=-rows["high"], high=-rows["low"])
    both = [name for name, part in turned.groupby("method") if part["metric"].nunique() == 2]
    turned = turned[turned["method"].isin(both)]
    first = turned[turned["metric"] == gap.metric].sort_values("value")["method"].tolist()
    place = {name: index for index, name in enumerate(first)}
    return turned.assign(_place=turned["method"].map(place)).sort_values(
        ["_place", "metric"], ignore_index=True
    )


def _gap(run: Run, choice: Choice) -> Measure:
    """The gap the choice reads by, where methods are compared by it."""
    metric = lookup.reading(run, choice).harm.metric
    return Measure(
        metric if metric in ("accuracy_gap", "degradation_gap") else "accuracy_gap",
        few=track_of(run).items,
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
        {name: track_of(run).style(name, choice.dark) for name in order},
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
    measures = [
        Measure(name, few=track_of(run).items) for name in MEASURES if name in set(table["metric"])
    ]
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
    if not run.has("arm_differences"):
        return pd.DataFrame()
    table = lookup.frame(run, "arm_differences")
    here = (
        (table["base"] == FOUND)
        & table["method"].isin(CONTROLS)
        & (table["group"] == "")
        & table["value"].notna()
    )
    rows = table[here & at_level(table["sparsity"], lookup.level_of(run, choice))]
    rows = rows[
        (rows["axis"] == choice.measured) | ((rows["axis"] == "") & (rows["metric"] == "accuracy"))
    ]
    rows = rows[rows["metric"].isin(MEASURES)]
    return rows.assign(value=-rows["value"], low=-rows["high"], high=-rows["low"]).reset_index(
        drop=True
    )


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
