"""FASP among random cuts of heads that perplexity can spare: the distribution behind its point, and
its rank."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from engine.core import words
from engine.core.ids import is_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.contract import Chance
from engine.stats.student import benjamini_hochberg
from engine.store.runs import Run
from engine.tracks.language_models import words as own
from engine.tracks.language_models.evidence import LEVEL, rank_p
from engine.tracks.language_models.request import CONTROLLED

TABLE = "controls"


def chance(run: Run, choice: Choice) -> Chance | None:
    """The random cuts beside FASP at the chosen axis and sparsity. None where FASP cuts nothing
    there, or where bias is read on another axis or in another way than the cuts were compared by.
    """
    if (
        choice.measured != choice.axis
        or choice.reading != run.meta["request"]["reading"]
        or not choice.level
    ):
        return None
    if not is_level(choice.level, lookup.levels(run, CONTROLLED, choice.axis)):
        return None
    if not run.has(TABLE):
        return Chance(pd.DataFrame(columns=["value", "value_q"]), "", own.NO_CONTROLS)
    if not is_level(
        choice.level, lookup.levels(run, CONTROLLED, choice.axis)
    ):  # one that was added for others
        return None
    variant = lookup.variant_of(run, replace(choice, method=CONTROLLED))
    table = lookup.frame(run, TABLE)
    rows, shown = (
        table[table["variant"] == variant["variant"]],
        lookup.bias(run, variant["variant"], choice),
    )
    if rows.empty or shown is None:
        return None
    level = shown["value"] + rows["bias"] - rows["method_bias"]
    points = pd.DataFrame({"value": level, "value_q": rows["perplexity"]}).reset_index(drop=True)
    return Chance(points, f"{len(rows)} random cuts", _said(rows, variant, ranks(table)))


def ranks(table: pd.DataFrame) -> pd.DataFrame:
    """Of every variant that is set against chance, by name: n cuts, how many are no worse, p by
    rank, and q over them all (Benjamini-Hochberg)."""
    found = (
        table.assign(below=table["bias"] <= table["method_bias"])
        .groupby("variant")["below"]
        .agg(["sum", "size"])
    )
    p = rank_p(found["sum"].to_numpy(), found["size"].to_numpy())
    return found.assign(p=p, q=benjamini_hochberg(p))


def _said(rows: pd.DataFrame, variant: dict, every: pd.DataFrame) -> str:
    """The rank with its p, among how many such ranks, and on how much it rests."""
    below, n, p, q = every.loc[variant["variant"], ["sum", "size", "p", "q"]]
    below, n = int(below), int(n)
    verdict = "better than chance" if q <= LEVEL else "not told apart from chance"
    asked = (
        f"p = {phrasing.number(p)} by rank, q = {phrasing.number(q)} over {len(every)} such ranks"
        " here"
    )
    prompts, draws = int(rows["prompts"].iat[0]), int(rows["draws"].iat[0])
    drawn = f"{phrasing.count(prompts, 'test prompt')}, {phrasing.count(draws, 'draw')} of each"
    return (
        f"{words.method_name(variant['method'])} has less bias than {n - below} of {n} random cuts"
        f" of as many non-critical heads (γ = {variant['gamma']:g}): {verdict}, {asked} ({drawn};"
        f" the smallest p that so many cuts can show is {phrasing.number(rank_p(0, n))})."
    )
