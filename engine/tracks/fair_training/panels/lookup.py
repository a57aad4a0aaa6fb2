"""Reading the tables of a run of fair training: methods and their families, levels, seeds, verdicts
on differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from engine.core import words
from engine.core.ids import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.contract import Measure
from engine.report.palette import Look
from engine.store.runs import Run

FILTERS, WEIGHTS = "filters", "weights"
BIFP = ("bifp-str", "bifp-uns")
PRUNING = ("snip", "fpgm", "lottery")
FOUND = "bifp-str"
"""The method in whose widths the controls cut."""
CONTROLS = ("bifp-widths-random", "bifp-widths-fpgm")
STAGES = ("pf", "pf-late", "pf-snip", "pf-random", "fp")


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


def shown_of(methods: Sequence[str], family: str, chosen: str = "") -> list[str]:
    """The run's methods of one family, with BiFP, the dense models and the chosen one."""
    if family == "all":
        return list(methods)
    if family == "main":
        return [name for name in methods if not is_ablation(name) or name == chosen]
    return [name for name in methods if family_of(name) in ("", family) or name == chosen]


def equal_of(run: Run) -> str:
    """What methods that cut filters have alike at one sparsity: "FLOPs", or "filters", as in all
    older audits."""
    return str(run.meta["request"].get("equal", FILTERS))


def share_said(run: Run) -> str:
    """What a sparsity is a share of, as a sentence."""
    if equal_of(run) == FILTERS:
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
    if equal_of(run) != FILTERS and mean.max() <= 1.01 * mean.min():
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


def stated(measure: Measure, row: dict[str, Any]) -> str:
    """A difference with its interval, e.g. "−0.094 (−0.140 to −0.048)"."""
    if not (math.isfinite(row["low"]) and math.isfinite(row["high"])):
        return f"{measure.signed(row['value'])} ({phrasing.no_interval('images')})"
    return f"{measure.signed(row['value'])} ({measure.span(row['low'], row['high'])})"


def fair_axis(run: Run) -> str:
    """The axis the fairness term was about."""
    return str(run.meta["data"].get("fair_axis") or run.meta["request"]["axes"][0])


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
    table = lookup.frame(run, "reached") if run.has("reached") else pd.DataFrame(columns=["method"])
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


LOOKS: dict[str, Look] = {
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
