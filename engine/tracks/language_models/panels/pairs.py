"""Every other way that takes about as much as a cut of heads, or is closest to it, prompt by
prompt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.columns import Column, titled
from engine.report.charts.panel import Choice
from engine.store.runs import Run
from engine.tracks.language_models.evidence import differences

NEAR = 0.05
"""Shares of the dense model's bytes, or of its time, that count as the same."""
SURE = 0.05
"""q up to which a difference whose interval leaves out zero is called clear."""
START = "pair_"
COLUMNS: tuple[Column, ...] = titled(
    pair_with="compared with",
    pair_as_much="takes as much",
    pair_delta="bias minus that",
    pair_delta_low="low of difference",
    pair_delta_high="high of difference",
    pair_null_low="exchanged, low",
    pair_null_high="exchanged, high",
    pair_null_q="q",
)
NOTE = (
    "Differences are of the same prompts under the same noise; q is of exchanging, prompt by"
    " prompt, which of the two models wrote the texts, Benjamini-Hochberg over the ways compared;"
    " clear is an interval without zero and q at most .05."
)


@dataclass(frozen=True, eq=False)
class Pairs:
    """The cut of heads that others are compared with (a row of the sizes), and the others with
    `COLUMNS`."""

    reference: dict[str, Any]
    others: pd.DataFrame


def closest(table: pd.DataFrame, row: dict[str, Any], what: str) -> pd.DataFrame:
    """Of every other method the variant that is closest in `what`, the closest method first;
    pair_as_much says whether it takes about as much."""
    far = (table[what] - row[what]).abs()
    found = (
        table.assign(far=far, pair_as_much=far <= NEAR).sort_values("far").drop_duplicates("method")
    )
    return found[found["method"] != row["method"]].drop(columns="far")


def cut_beside(table: pd.DataFrame, chosen: dict[str, Any], what: str) -> dict[str, Any] | None:
    """The chosen variant where it is a cut of heads, else the cut of heads that is closest to it,
    if there is one."""
    heads = table[~lookup.stands_instead(table)]
    if (heads["variant"] == chosen["variant"]).any():
        return chosen
    return next(iter(closest(heads, chosen, what).to_dict("records")), None)


def pairs_of(
    run: Run, choice: Choice, table: pd.DataFrame, chosen: dict[str, Any], what: str
) -> Pairs | None:
    """The chosen variant, or the cut of heads that is closest to it, and the closest variant of
    every other way.

    None where there is no cut of heads, no other way, or where the harm is no bias of the texts.
    """
    metric, reference = lookup.reading(run, choice).harm.metric, cut_beside(table, chosen, what)
    if reference is None or not metric.startswith("bias:"):
        return None
    others = closest(table, reference, what)
    if reference["variant"] != chosen["variant"]:
        as_much = bool(abs(chosen[what] - reference[what]) <= NEAR)
        mine = table[table["variant"] == chosen["variant"]].assign(pair_as_much=as_much)
        others = pd.concat([mine, others[others["method"] != chosen["method"]]])
    names = tuple(others["variant"])
    found = differences(
        run, reference["variant"], names, choice.measured, metric.removeprefix("bias:")
    )
    if found.empty:
        return None
    said = found.rename(columns={name: f"{START}{name}" for name in found if name != "variant"})
    label = lookup.variant_label(run, reference)
    return Pairs(reference, others.merge(said.assign(pair_with=label), on="variant"))


def with_pairs(table: pd.DataFrame, pairs: Pairs | None) -> pd.DataFrame:
    """The table with the columns of the pairs, empty where a row is compared with nothing."""
    if pairs is None:
        return table
    others = pairs.others.assign(
        pair_as_much=pairs.others["pair_as_much"].map({True: "yes", False: "no"})
    )
    added = others[["variant", *(column.name for column in COLUMNS)]]
    return table.merge(added, on="variant", how="left").fillna(
        {"pair_with": "", "pair_as_much": ""}
    )


def told(run: Run, pairs: Pairs, what: str) -> str:
    """How many ways at as much leave clearly less bias, or more, than the cut; where none does,
    what would have been found; where none takes as much, the closest one."""
    rows = pairs.others[pairs.others["pair_as_much"]].to_dict("records")
    label = lookup.variant_label(run, pairs.reference)
    if not rows:
        return _closest_told(run, pairs, what)
    less, more = (sum(_clear(row) == kind for row in rows) for kind in ("fell", "rose"))
    count = (
        f"{phrasing.count(len(rows), 'other way')} at as much, give or take"
        f" {phrasing.percent(NEAR)}"
    )
    start = f"Prompt by prompt beside {label}{',' if ',' in label else ''} of {count},"
    if less or more:
        verb = "leaves" if (less or more) == 1 else "leave"
        return (
            f"{start} {less or 'none'} {verb} clearly less bias and {more or 'none'} clearly more."
        )
    sizes = [row["pair_detectable"] for row in rows if math.isfinite(row["pair_detectable"])]
    if not sizes:
        return f"{start} none can be told apart: too few prompts for an interval."
    return (
        f"{start} none clearly differs; {_span(sizes)} would have been found in four of five"
        " repeats."
    )


def _closest_told(run: Run, pairs: Pairs, what: str) -> str:
    row = pairs.others.iloc[0].to_dict()
    label, other = (lookup.variant_label(run, one) for one in (pairs.reference, row))
    return (
        f"No other way takes as much as {label}{',' if ',' in label else ''} give or take"
        f" {phrasing.percent(NEAR)}; closest is {other} ({phrasing.percent(row[what])} of the"
        f" {what}). Its bias beside the cut\u2019s, prompt by prompt:"
        f" {phrasing.change({name: row[START + name] for name in _ENDS})}."
    )


def each(run: Run, pairs: Pairs) -> str:
    """Every difference with its interval, what exchanging gives, and q."""
    said = [
        f"{lookup.variant_label(run, row)}:"
        f" {phrasing.change({name: row[START + name] for name in _ENDS})} (exchanged:"
        f" {phrasing.span(row['pair_null_low'], row['pair_null_high'])}; q ="
        f" {phrasing.number(row['pair_null_q'])})"
        for row in pairs.others.to_dict("records")
    ]
    return f"Bias minus that of {lookup.variant_label(run, pairs.reference)}: {'; '.join(said)}."


_ENDS = ("delta", "delta_low", "delta_high")


def _clear(row: dict[str, Any]) -> str:
    """ "fell" or "rose" where way and cut differ clearly, else ""."""
    kind = phrasing.direction({name: row[START + name] for name in _ENDS})
    return kind if kind in ("fell", "rose") and row["pair_null_q"] <= SURE else ""


def _span(sizes: list[float]) -> str:
    low, high = phrasing.number(min(sizes)), phrasing.number(max(sizes))
    return f"{low} or more" if low == high else f"{low} to {high}, by way,"
