"""Accuracy and both gaps against sparsity, every way of fair training beside the others (Figs. 3
and 4)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import Values, at_level
from engine.report import phrasing
from engine.report.charts import cost, lookup
from engine.report.charts.kinds import add_series, heading, lines, null_band, remark
from engine.report.charts.lookup import trials_said
from engine.report.charts.panel import Choice, Panel, blank, nothing
from engine.report.palette import Style
from engine.report.schema import hovers, readable
from engine.report.tracks import Measure, track_of
from engine.store.runs import Run
from engine.tracks.fair_training import words as own

# Reading the tables of a run of fair training: methods and their families, levels, seeds,
# verdicts on differences.


FILTERS, WEIGHTS = "filters", "weights"
BIFP = ("bifp-str", "bifp-uns")
PRUNING = ("snip", "fpgm", "lottery")
FOUND = "bifp-str"
"""The method in whose widths the controls cut."""
CONTROLS = ("bifp-widths-random", "bifp-widths-fpgm")
STAGES = ("pf", "pf-late", "pf-snip", "pf-random", "fp")


def styles(run: Run, choice: Choice, methods: Iterable[str]) -> dict[str, Style]:
    """How each method looks, in its colour whichever was chosen."""
    return {name: track_of(run).methods.style(name, choice.dark) for name in methods}


def is_ablation(method: str) -> bool:
    return "-no-" in method


def family_of(method: str) -> str:
    """Key of own.FAIR_FAMILIES: to which of them a method belongs; BiFP and the dense models to
    all."""
    if is_ablation(method):
        return "bifp"
    return "pruning" if method in PRUNING else "stages" if method in STAGES else ""


def families(run: Run) -> list[str]:
    """Families of methods this run has something of, the usual first."""
    found = {family_of(method) for method in lookup.methods(run)}
    return ["main", *(name for name in ("stages", "pruning", "bifp") if name in found), "all"]


def shown_of(methods: Sequence[str], family: str, chosen: str) -> list[str]:
    """The run's methods of one family, with BiFP, the dense models and the chosen one."""
    if family == "all":
        return list(methods)
    if family == "main":
        return [name for name in methods if not is_ablation(name) or name == chosen]
    return [name for name in methods if family_of(name) in ("", family) or name == chosen]


def share_said(run: Run) -> str:
    """What a sparsity is a share of, as a sentence."""
    if run.request["equal"] == FILTERS:
        return (
            "Sparsity is the share of filters or of weights, by what a method cuts: the same share"
            " is not the same size or speed."
        )
    return "Sparsity is the share of FLOPs where filters are cut, and of weights where these are."


def flops_said(run: Run, methods: Sequence[str], at: float) -> str:
    """How many times fewer FLOPs the methods that cut filters leave at a sparsity, and whether that
    is alike."""
    table = lookup.frame(run, "variants")
    rows = table[
        (table["seed"] < 0) & (table["units"] == FILTERS) & at_level(table["sparsity"], at)
    ]
    mean = rows[rows["method"].isin(methods)].groupby("method", sort=False)["speedup"].mean()
    if mean.empty:
        return ""
    if run.request["equal"] != FILTERS and mean.max() <= 1.01 * mean.min():
        return f" All that cut filters have {phrasing.factor(float(mean.mean()))} fewer FLOPs."
    each = [
        f"{words.method_name(str(name))} {phrasing.factor(float(value))}"
        for name, value in mean.items()
    ]
    unequal = len(mean) > 1 and mean.max() > 1.01 * mean.min()
    more = " That is no comparison at equal cost." if unequal else ""
    return f" FLOPs, dense over cut: {phrasing.listing(each, len(each))}.{more}"


def bifp_of(run: Run, choice: Choice) -> str:
    """The BiFP that others are compared with: the chosen one, else the first the run has; "" for
    none."""
    known = [name for name in BIFP if name in lookup.methods(run)]
    return choice.method if choice.method in known else (known[0] if known else "")


def short(method: str) -> str:
    """A method's short name, for labels of charts."""
    return words.method_name(method).replace("BiFP-str without", "without")


def stated(measure: Measure, row: Values) -> str:
    """A difference with its interval, e.g. "−0.094 (−0.140 to −0.048)"."""
    if not (math.isfinite(row["low"]) and math.isfinite(row["high"])):
        return f"{measure.signed(row['value'])} ({phrasing.no_interval('images')})"
    return f"{measure.signed(row['value'])} ({measure.span(row['low'], row['high'])})"


def fair_axis(run: Run) -> str:
    """The axis the fairness term was about."""
    return str(run.data.get("fair_axis") or run.request["axes"][0])


def not_the_fair_axis(run: Run, choice: Choice) -> str:
    """What must be said where another axis is read."""
    if choice.measured == fair_axis(run):
        return ""
    axis = words.axis_name(fair_axis(run))
    return f" Training aimed at fairness between groups of {axis}, not of this axis."


def images_read(run: Run, methods: Sequence[str], at: float | None = None) -> str:
    """How many images training read, of the methods that read least and most, at one sparsity or as
    the mean of all.

    Equal numbers of updates are not equal data.
    """
    table = lookup.table(run, "reached", "method sparsity")
    table = table[table["method"].isin(methods)]
    if at is not None:
        table = table[at_level(table["sparsity"], at)]
    if table.empty:
        return ""
    mean = table.groupby("method")["total_examples"].mean()
    least, most = mean.idxmin(), mean.idxmax()
    if mean[least] == mean[most]:
        return ""
    named = dict.fromkeys([least, *(name for name in BIFP if name in mean.index), most])
    read = [f"{words.method_name(str(name))} {mean[name]:,.0f}" for name in named]
    return f" Images read in training, with repeats: {phrasing.listing(read)}."


# How each way of fair training looks, in every chart.


LOOKS = {
    "bifp-str": ("#0072B2", "#56B4E9", "circle", "solid"),
    "bifp-uns": ("#0072B2", "#56B4E9", "circle-open", "dash"),
    "bifp-str-no-m": ("#2A93D5", "#9AD4F7", "triangle-left", "dot"),
    "bifp-str-no-w": ("#2A93D5", "#9AD4F7", "triangle-right-open", "dashdot"),
    "bifp-str-no-both": ("#2A93D5", "#9AD4F7", "x", "longdash"),
    "bifp-widths-random": ("#2F8FCB", "#0093E0", "cross-open", "dot"),
    "bifp-widths-fpgm": ("#2F8FCB", "#0093E0", "pentagon-open", "dot"),
    "snip": ("#8C7A00", "#E6D000", "star", "dash"),
    "fpgm": ("#CC79A7", "#E59BC3", "pentagon", "solid"),
    "lottery": ("#009E73", "#2CC79B", "diamond", "dash"),
    "pf": ("#882255", "#D46A98", "square", "solid"),
    "pf-late": ("#882255", "#D46A98", "square-open", "dot"),
    "pf-snip": ("#882255", "#D46A98", "triangle-up-open", "dash"),
    "fp": ("#882255", "#D46A98", "triangle-down", "dashdot"),
    "pf-random": ("#7a7a7a", "#b0b0b0", "cross", "dot"),
    "dense-tuned": ("#7a7a7a", "#b0b0b0", "hexagon-open", "dot"),
    "dense-fair": ("#7a7a7a", "#b0b0b0", "hexagon", "dot"),
}
"""Colour by family (BiFP, its ablations, pruning alone, two stages, references), symbol by method.
Broken lines cut weights or leave something out."""


HEIGHT = 330
NO_GAP = "No gap was measured: it takes two subgroups with enough images for a verdict."
BESIDE = 0.006
"""Shares by which points of several lines are moved apart, so that bars do not hide each other."""
SPREAD = 0.05
"""Shares over which all lines are spread at most."""
FEW = 4
"""Lines up to which all have their bars."""
COLUMNS = (
    "method sparsity realised units strength parameters_cut speedup metric value low high null_low"
    " null_high group_null_low group_null_high group_null_p delta delta_low delta_high n degenerate"
)


def fair_curve(run: Run, choice: Choice, family: str = "main") -> Panel:
    """A chart per measure (accuracy, accuracy gap, degradation gap) and one of names. `family`:
    which methods."""
    axis = words.axis_name(choice.measured)
    question = f"As more is cut, who stays accurate, and how far apart are the subgroups of {axis}?"
    table = points(run, choice, family)
    if table.empty:
        return nothing("fair_curve", question, "No model of this audit was measured on this axis.")
    parts = tuple(
        _column(run, choice, table, measure)
        for measure in measures(run, choice)
        if _has(table, measure)
    )
    names = _methods(table)
    parts += (_legend(run, choice, names, bool(table["null_high"].notna().any())),)
    first = table[table["metric"] == f"{_quality(choice)}_gap"]["n"].dropna()
    counted = int(first.max()) if len(first) else int(table["n"].max())
    bars = " Bars of the chosen method only; the table has all of them." if len(names) > FEW else ""
    note = (
        f"{phrasing.count(counted, 'test image')}, {trials_said(run)} per method."
        f" {own.INTERVALS_SEEDS} "
        f"{words.NULL_BAND} Grey band: that of the chosen method. Dotted line: the starting model. "
        f"{share_said(run)}{flops_said(run, names, lookup.level_of(run, choice))}"
        f"{images_read(run, names)}{bars}"
    )
    answer, mind, rest = _answer(run, choice, table)
    shown = readable(table, COLUMNS, speedup="speedup by FLOPs", n="images")
    return Panel(
        "fair_curve", question, answer, None, shown, note, parts, True, mind=mind, more=rest
    )


def points(run: Run, choice: Choice, family: str) -> pd.DataFrame:
    """One row per reported variant of the shown methods and measure; ordered by method, then by
    sparsity."""
    reported = lookup.reported(run)
    shown = ["dense", *shown_of(lookup.methods(run), family, choice.method)]
    columns = [
        "sparsity",
        "realised",
        "n_cut",
        "units",
        "strength",
        "parameters_cut",
        "speedup",
        "degenerate",
    ]
    table = reported.loc[reported["method"].isin(shown), ["variant", "method", *columns]]
    parts = []
    for measure in measures(run, choice):
        rows = lookup.results_of(run, measure, choice).drop(columns=["group", "verdict"])
        parts.append(table.merge(rows.assign(metric=measure.metric), on="variant"))
    found = pd.concat(parts, ignore_index=True)
    found = found[found["value"].notna()]
    found = found.assign(_place=found["method"].map(shown.index))
    return found.sort_values(["_place", "sparsity"], kind="stable", ignore_index=True)


def _methods(table: pd.DataFrame) -> list[str]:
    return [name for name in dict.fromkeys(table["method"]) if name != "dense"]


def measures(run: Run, choice: Choice) -> tuple[Measure, ...]:
    """What is drawn: how good, how far apart the subgroups are in it, and how unevenly accuracy was
    lost."""
    quality = _quality(choice)
    return (
        Measure(quality, per_axis=False, few="images"),
        Measure(f"{quality}_gap", few="images"),
        Measure("degradation_gap", few="images"),
    )


def _quality(choice: Choice) -> str:
    """Accuracy, or AUC where a reader asks for it."""
    return "auc" if choice.reading == "auc" else "accuracy"


def _has(table: pd.DataFrame, measure: Measure) -> bool:
    return bool((table["metric"] == measure.metric).any())


def _column(run: Run, choice: Choice, table: pd.DataFrame, measure: Measure) -> go.Figure:
    rows, track = table[table["metric"] == measure.metric], track_of(run)
    flags = [track.flags.of(row) for row in rows.to_dict("records")]
    seen = "method realised value null delta flag"
    said = hovers(rows.assign(flag=flags), seen, value=measure.name)
    order, dense = _methods(table), rows[rows["method"] == "dense"]
    band = rows[rows["method"].isin(["dense", choice.method]) & rows["null_high"].notna()]
    figure = lines(
        choice,
        rows.assign(hover=said),
        "realised",
        "value",
        {name: lookup.look_of(run, choice, name) for name in order},
        (f"share cut ({run.request['equal']} or weights)", f"{measure.word.better} is better"),
        height=HEIGHT,
        title=phrasing.sentence(measure.name),
        apart=min(BESIDE, SPREAD / max(len(order), 1)),
        bars="- value",
        few=FEW,
        level=(float(dense["value"].iat[0]), "") if len(dense) else None,
        band=band.sort_values("realised", kind="stable"),
        showlegend=False,
    )
    figure.update_xaxes(range=[-0.03, float(table["realised"].max()) + 0.05])
    figure.update_yaxes(nticks=6, rangemode="tozero" if measure.per_axis else "normal")
    figure.update_layout(margin={"t": 30, "r": 8})
    return figure


def _legend(run: Run, choice: Choice, methods: list[str], has_null: bool) -> go.Figure:
    """The legend of all charts, as one beside them: a narrow column has no room for it."""
    figure = blank(choice, HEIGHT)
    for place, method in enumerate([*methods, "dense"]):
        style, uncut = lookup.look_of(run, choice, method), method in track_of(run).ways.uncut
        mode = "lines" if method == "dense" else "markers" if uncut else "lines+markers"
        style = replace(style, dash="dot") if method == "dense" else style
        sample = pd.DataFrame({"x": [0.0, 0.06, 0.12], "y": place, "size": [0, 8, 0]})
        add_series(figure, sample, sample["x"], sample["y"], style, mode=mode, hoverinfo="skip")
        name = "starting model" if method == "dense" else words.method_name(method)
        text = f"<b>{name}</b>" if method == choice.method else name
        where = {"x": 0.16, "y": place, "xanchor": "left", "yanchor": "middle"}
        figure.add_annotation(text=text, font={"size": 13}, showarrow=False, **where)
    if has_null:
        low = len(methods) + 1.8
        null_band(figure, choice, [0.0, 0.12], [low] * 2, [low - 0.6] * 2)
        text = "null band: what<br>chance alone would give"
        remark(figure, choice, text, x=0.16, y=low - 0.3, xanchor="left", align="left")
    figure.update_xaxes(visible=False, range=[-0.01, 1])
    figure.update_yaxes(visible=False, range=[max(len(methods) + 2 * has_null, 9) + 0.6, -0.8])
    heading(figure, "Methods")
    figure.update_layout(margin={"t": 30}, showlegend=False)
    return figure


def _answer(run: Run, choice: Choice, table: pd.DataFrame) -> tuple[str, str, str]:
    """The chosen method at the chosen sparsity; what must be kept in mind; intervals, and who has
    the smallest gap."""
    at, name = lookup.level_of(run, choice), words.method_name(choice.method)
    here = table[(table["method"] == choice.method) & at_level(table["sparsity"], at)]
    if choice.method in track_of(run).ways.uncut:
        here, at = table[table["method"] == choice.method], 0.0
    if here.empty:
        dense = table[table["method"] == "dense"]
        said = [_said(measure, dense) for measure in measures(run, choice) if _has(dense, measure)]
        rates = _rates(run, choice, "dense")
        return (
            f"The starting model, nothing cut: {'; '.join(said)}.",
            not_the_fair_axis(run, choice).strip(),
            rates,
        )
    shown = [measure for measure in measures(run, choice) if _has(here, measure)]
    said, short = ([how(measure, here) for measure in shown] for how in (_said, _in_short))
    where = f"at {phrasing.percent(at)}" if at else "with nothing cut"
    none = "" if (table["metric"] == f"{_quality(choice)}_gap").any() else NO_GAP
    mind = f"{none}{not_the_fair_axis(run, choice)}".strip()
    more = _rates(run, choice, str(here["variant"].iat[0]))
    more += _lowest(table, at, f"{_quality(choice)}_gap")
    return (
        f"{name} {where}: {'; '.join(short)}.",
        mind,
        f"{phrasing.sentences(said)}{more}",
    )


def _in_short(measure: Measure, rows: pd.DataFrame) -> str:
    """A value without its interval, and on which side of its null band it lies."""
    row = rows[rows["metric"] == measure.metric].iloc[0].to_dict()
    side = phrasing.null_side(row) if math.isfinite(row["null_high"]) else ""
    return f"{measure.name} {measure.number(row['value'])}" + (
        f", {side} its null band" if side else ""
    )


def _said(measure: Measure, rows: pd.DataFrame) -> str:
    row = rows[rows["metric"] == measure.metric].iloc[0].to_dict()
    text = f"{measure.name} {measure.with_interval(row)}"
    if math.isfinite(row["null_high"]):
        side = phrasing.null_side(row)
        text += f", {side} its null band ({measure.span(row['null_low'], row['null_high'])})"
        text += (
            ", which its interval reaches"
            if side == "above" and row["low"] <= row["null_high"]
            else ""
        )
    return text


def _rates(run: Run, choice: Choice, variant: str) -> str:
    """The gap of true positive rates, which a small accuracy gap can hide where one class is rare
    in a subgroup."""
    measure = Measure("tpr_gap", few="images")
    row = lookup.result(run, variant, measure.metric, choice.measured)
    if row is None or not math.isfinite(row["value"]):
        return ""
    side = phrasing.null_side(row)
    where = f", {side} its null band (up to {measure.number(row['null_high'])})" if side else ""
    return f" Its {measure.name} is {measure.with_interval(row)}{where}."


def _lowest(table: pd.DataFrame, at: float, metric: str) -> str:
    """Which method has the smallest gap of those drawn, as a value only."""
    rows = table[(table["metric"] == metric) & at_level(table["sparsity"], at)]
    rows = rows[rows["method"] != "dense"]
    if len(rows) < 2:
        return ""
    least = rows.loc[rows["value"].idxmin()]
    meet = rows[(rows["low"] <= least["high"]) & (rows["method"] != least["method"])]
    text = (
        f" {words.method_name(least['method'])} has the smallest"
        f" {words.metric_name(metric)} shown there"
    )
    if meet.empty:
        return f"{text}; no other interval overlaps its own."
    one = "interval overlaps" if len(meet) == 1 else "intervals overlap"
    return (
        f"{text}, but {len(meet)} of {len(rows) - 1} other {one} its own. The next chart compares"
        " pair by pair."
    )


# What a sparse model saves: nothing where single weights are zero.


def saved(run: Run, choice: Choice) -> Panel:
    """The cost panel, with what the units of the method mean for it."""
    variant, panel = lookup.variant_of(run, choice), cost.cost(run, choice)
    if variant.get("units") == WEIGHTS:
        share = phrasing.percent(round(float(variant["parameters_cut"]), 3))
        return replace(
            panel, answer=f"{share} of all parameters are zero.", mind=own.NOT_FASTER, more=""
        )
    if variant["variant"] != "dense" and variant.get("units") != FILTERS:
        return replace(panel, answer="Nothing is cut here, so nothing is saved.", mind="", more="")
    if variant["variant"] == "dense":
        return panel
    return replace(panel, caveat=f"{panel.caveat} The model of the first seed.")
