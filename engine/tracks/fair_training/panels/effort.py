"""Training cost: how much training until the stated fairness at the stated accuracy, every method
(Fig. 6)."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.kinds import dots, entry
from engine.report.charts.panel import Choice, Panel, nothing, wrapped
from engine.report.schema import hovers, readable
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.fair_training.methods import SPENT
from engine.tracks.fair_training.panels.curve import (
    bifp_of,
    fair_axis,
    flops_said,
    shown_of,
    styles,
)

QUESTION = "How much training does it take until the model is as fair and accurate as stated?"
COLUMNS = " ".join(
    (
        "method sparsity strength seed reached gap_target accuracy_target",
        *SPENT,
        *(f"total_{name}" for name in SPENT),
    )
)


EFFORTS = {
    "iterations": ("weight updates", "weight updates"),
    "examples": ("images read", "images read in training, with repeats"),
    "seconds": ("seconds", "seconds on this machine"),
}
"""What training is counted in: after a number, and on the axis."""


def effort(run: Run, choice: Choice, by: str = "iterations", family: str = "main") -> Panel:
    """A row per method: a dot per seed where it met both targets, a cross where it never did."""
    table = reached(run, choice, family)
    if table.empty:
        return nothing("fair_effort", QUESTION, "This audit did not look for a stated fairness.")
    if table["gap_target"].isna().all():
        return nothing(
            "fair_effort",
            QUESTION,
            "Too few validation images of two groups to look for a stated gap.",
        )
    order = _order(run, table)
    targets = f"gap of {phrasing.number(float(table['gap_target'].iat[0]))} or less"
    targets += (
        f" at an accuracy of {phrasing.number(float(table['accuracy_target'].iat[0]))} or more"
    )
    figure = _figure(run, choice, table, by, order)
    axis = words.axis_name(fair_axis(run))
    note = (
        f"Stated: {run.request['notion']} {targets}, for {axis}, on {_validation(run)}, checked "
        f"every {run.request['check_every']} updates: no number is finer. "
        "Dots: trainings; bar: their mean where all got there; crosses: trainings that never met "
        "both at once, drawn at their end. The first of two checks in a row that meet both "
        "counts, with as much cut as asked. Updates of BiFP's mask come on top, "
        "with images of their own; examples and seconds count "
        f"both.{most_that_shows(run)}{flops_said(run, order, lookup.level_of(run, choice))}"
    )
    answer, rest = _answer(run, choice, table, by, targets)
    more = f"{rest}{_on_test(run, table)}".strip()
    return Panel(
        "fair_effort",
        QUESTION,
        answer,
        figure,
        readable(table, COLUMNS, gap_target="gap stated"),
        note,
        more=more,
    )


def most_that_shows(run: Run) -> str:
    """The largest saving that could show with these looks and this horizon, as a sentence."""
    most = max(0.0, 1.0 - run.request["check_every"] / run.request["iterations"])
    return (
        f" Checks this far apart can show a saving of at most {phrasing.percent(round(most, 3))}."
    )


def reached(run: Run, choice: Choice, family: str) -> pd.DataFrame:
    """Rows of single seeds at the chosen sparsity, and of models without a cut; never those of the
    sweep over λ."""
    variants = lookup.frame(run, "variants")
    reported = set(lookup.reported(run)["variant"])
    mine = variants[variants["pooled"].isin(reported) & (variants["seed"] >= 0)]["variant"]
    table = lookup.table(run, "reached", f"variant {COLUMNS}")
    at = lookup.level_of(run, choice)
    table = table[table["variant"].isin(mine)]
    here = at_level(table["sparsity"], at) | table["method"].isin(track_of(run).ways.uncut)
    shown = shown_of(lookup.methods(run), family, choice.method)
    return table[here & table["method"].isin(shown)].reset_index(drop=True)


def _order(run: Run, table: pd.DataFrame) -> list[str]:
    """Methods that got there in all seeds first, by their mean; then those in some; then never;
    without a cut last."""
    place = {
        name: index
        for index, name in enumerate(track_of(run).methods.order(table["method"].unique()))
    }

    def key(method: str) -> tuple[bool, float, float, int]:
        rows = table[table["method"] == method]
        share = float(rows["reached"].mean())
        mean = float(rows["iterations"].mean()) if share else 0.0
        return method in track_of(run).ways.uncut, -share, mean, place[method]

    return sorted(place, key=key)


def _figure(run: Run, choice: Choice, table: pd.DataFrame, by: str, order: list[str]) -> go.Figure:
    met = table["reached"].astype(bool)
    for name in SPENT:
        table = table.assign(**{name: table[name].where(met, table[f"total_{name}"])})
    told = met.map({True: "met both after", False: "never met both in"})
    shown = " ".join(("method seed told", *SPENT))
    said = hovers(table.assign(told=told), shown, iterations="weight updates")
    seeds = table.groupby("method")["seed"]
    last = seeds.transform("nunique") - 1
    step = (0.6 / last.clip(lower=1)).clip(upper=0.16)  # all seeds of a row within it
    drawn = table.assign(
        hover=said,
        symbol=met.map({True: "circle", False: "x-thin"}),
        aside=step * (seeds.rank(method="dense") - 1 - last / 2),
    )
    looks = styles(run, choice, order)
    rows = {name: _label(run, name, table) for name in order}
    figure = dots(choice, drawn, by, rows, looks, EFFORTS[by][1], apart=0, bars="-", zero=False)
    for place, method in enumerate(order):
        mine = table[table["method"] == method]
        if mine["reached"].all():
            bar = {"orientation": "h", "width": 0.5, "opacity": 0.3, "showlegend": False}
            look = {"marker": {"color": looks[method].colour}, "hoverinfo": "skip"}
            figure.add_bar(x=[mine[by].mean()], y=[place], **bar, **look)
    for kind, symbol in (("seed got there", "circle"), ("seed never did", "x-thin")):
        if (drawn["symbol"] == symbol).any():
            ink = choice.theme.ink
            marker = {"symbol": symbol, "size": 9, "color": ink, "line": {"width": 2, "color": ink}}
            entry(figure, kind, mode="markers", marker=marker)
    figure.update_traces(cliponaxis=False, selector={"mode": "markers"})
    figure.update_xaxes(rangemode="tozero", nticks=7)
    return figure


def _label(run: Run, method: str, table: pd.DataFrame) -> str:
    notes = ["nothing cut"] if method in track_of(run).ways.uncut else []
    notes += [] if table.loc[table["method"] == method, "reached"].any() else ["never reached"]
    name = wrapped(words.method_name(method), 22)
    return f"{name}<br><i>{', '.join(notes)}</i>" if notes else name


def _validation(run: Run) -> str:
    n = run.data.get("images", {}).get("validation")
    return phrasing.count(int(n), "validation image") if n else "validation images"


def _on_test(run: Run, table: pd.DataFrame) -> str:
    """Whether the targets are met on the test images: a single look at validation images has no
    interval."""
    gap, accuracy = float(table["gap_target"].iat[0]), float(table["accuracy_target"].iat[0])
    metric = f"{run.request['notion']}_gap"

    def met(variant: str) -> bool:
        right, apart = (
            lookup.result(run, variant, "accuracy"),
            lookup.result(run, variant, metric, fair_axis(run)),
        )
        return bool(right and apart and right["value"] >= accuracy and apart["value"] <= gap)

    counts = {
        name: [met(variant) for variant in rows["variant"]]
        for name, rows in table.groupby("method", sort=False)
    }
    some = [
        f"{words.method_name(name)} {sum(found)} of {len(found)}"
        for name, found in counts.items()
        if any(found)
    ]
    start = (
        " The starting model meets both there." if metric == "accuracy_gap" and met("dense") else ""
    )
    held = f"these meet both: {phrasing.listing(some, 20)}" if some else "none meets both"
    return f" After training, on test images, {held}.{start}"


def _answer(
    run: Run, choice: Choice, table: pd.DataFrame, by: str, targets: str
) -> tuple[str, str]:
    """How far BiFP gets; then the others, and which methods never got there."""
    base, uncut = bifp_of(run, choice), table["method"].isin(track_of(run).ways.uncut)
    dense, table = table[uncut], table[~uncut]
    names = [
        name for name in dict.fromkeys([base, *_order(run, table)]) if name in set(table["method"])
    ]
    some = _got_there(table, names)
    never = [words.method_name(name) for name in names if name not in some]
    at = phrasing.percent(lookup.level_of(run, choice))
    start = f"{phrasing.sentence(run.request['notion'])} {targets}, at {at} cut"
    if not some:
        return f"{start}: no method got there in the training it had.", _dense_said(dense, by)
    first = f"{start}: {_one(table, some[0], by)}."
    parts = [phrasing.sentence(f"{_one(table, name, by)}.") for name in some[1:5]]
    parts += [f"{len(some) - 5} more got there; see the table."] if len(some) > 5 else []
    parts += [f"Never reached by {phrasing.listing(never, 8)}."] if never else []
    return first, " ".join([*parts, *_saved(table, base, by)]) + _dense_said(dense, by)


def _got_there(table: pd.DataFrame, names: list[str]) -> list[str]:
    return [name for name in names if table.loc[table["method"] == name, "reached"].any()]


def _dense_said(table: pd.DataFrame, by: str) -> str:
    """The models without a cut, beside which the sparse ones are read."""
    if table.empty:
        return ""
    names = _got_there(table, list(dict.fromkeys(table["method"])))
    if not names:
        return " With nothing cut it was not reached either."
    return f" With nothing cut: {phrasing.sentences(_one(table, one, by) for one in names)}"


def _one(table: pd.DataFrame, method: str, by: str) -> str:
    rows = table[table["method"] == method]
    met = rows[rows["reached"].astype(bool)]
    low, high = met[by].min(), met[by].max()
    far = _amount(low) if low == high else f"{_amount(low)} to {_amount(high)}"
    return (
        f"{words.method_name(method)} in {len(met)} of {phrasing.count(len(rows), 'training')},"
        f" after {far} {EFFORTS[by][0]}"
    )


def _at_least(rivals: pd.DataFrame, mine: float, by: str) -> str:
    """What is saved at least where no rival got there in every seed: what they had was not
    enough."""
    met = rivals["reached"].astype(bool)
    spent = rivals[by].where(met, rivals[f"total_{by}"])
    least = float(spent.groupby(rivals["method"]).mean().min())
    start = "No two-stage method got there in every training"
    if mine >= least:
        return f"{start}, and BiFP took no less than they had, so a saving is unknown."
    return (
        f"{start}: BiFP saves at least {phrasing.percent(round(1 - mine / least, 2))} of their"
        f" {EFFORTS[by][0]}."
    )


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else phrasing.number(value)


def _saved(table: pd.DataFrame, base: str, by: str) -> list[str]:
    """How much less BiFP needs than the quickest two-stage method, only where every seed of both
    got there."""
    stages = {"pf", "pf-late", "pf-snip", "fp"}
    whole = [name for name, rows in table.groupby("method") if rows["reached"].all()]
    if base not in set(table["method"]) or not stages & set(table["method"]):
        return []
    if base not in whole:
        return [
            f"{words.method_name(base)} missed it in a training, so its saving is unknown here."
        ]
    rivals = [name for name in whole if name in stages]
    mine = table[table["method"] == base][by]
    if not rivals:
        return [_at_least(table[table["method"].isin(stages)], float(mine.mean()), by)]
    best = min(rivals, key=lambda name: table.loc[table["method"] == name, by].mean())
    other = table[table["method"] == best][by]
    share = 1 - mine.mean() / other.mean() if other.mean() else 0.0
    name, rival = words.method_name(base), words.method_name(best)
    if mine.max() < other.min():
        return [
            f"In every training {name} needs less than {rival}, on average"
            f" {phrasing.percent(round(share, 2))} less."
        ]
    if mine.min() > other.max():
        return [f"In every training {name} needs more than {rival}."]
    return [f"Trainings of {name} and {rival} overlap, so either may be quicker."]
