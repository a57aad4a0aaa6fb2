"""FASP among random cuts of heads that perplexity can spare: the distribution behind its point, and its rank."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.contract import Chance
from engine.store.runs import Run
from engine.tracks.language_models import words as own
from engine.tracks.language_models.rank import LEVEL, rank_p
from engine.tracks.language_models.request import CONTROLLED

TABLE = "controls"


def chance(run: Run, choice: Choice) -> Chance | None:
    """The random cuts beside FASP at the chosen axis and sparsity. None where FASP cuts nothing there, or where bias is
    read on another axis or in another way than the cuts were compared by."""
    if choice.measured != choice.axis or choice.reading != run.meta["request"]["reading"] or not choice.level:
        return None
    if CONTROLLED not in lookup.methods(run, choice.axis):
        return None
    if not run.has(TABLE):
        return Chance(pd.DataFrame(columns=["value", "value_q"]), "", own.NO_CONTROLS)
    variant = lookup.variant_of(run, replace(choice, method=CONTROLLED))
    table = lookup.frame(run, TABLE)
    rows, shown = table[table["variant"] == variant["variant"]], lookup.bias(run, variant["variant"], choice)
    if rows.empty or shown is None:
        return None
    level = shown["value"] + rows["bias"] - rows["method_bias"]
    points = pd.DataFrame({"value": level, "value_q": rows["perplexity"]}).reset_index(drop=True)
    return Chance(points, f"{len(rows)} random cuts", _said(rows, variant))


def _said(rows: pd.DataFrame, variant: dict) -> str:
    """The rank with its p, and on how much it rests."""
    n, below = len(rows), int((rows["bias"] <= rows["method_bias"]).sum())
    p = rank_p(below, n)
    verdict = "better than chance" if p <= LEVEL else "not told apart from chance"
    prompts, draws = int(rows["prompts"].iat[0]), int(rows["draws"].iat[0])
    drawn = f"{phrasing.count(prompts, 'test prompt')}, {phrasing.count(draws, 'draw')} of each"
    return (
        f"{words.method_name(variant['method'])} has less bias than {n - below} of {n} random cuts of as many "
        f"non-critical heads (γ = {variant['gamma']:g}): {verdict}, p = {phrasing.number(p)} by rank ({drawn}; the "
        "smallest p that so many cuts can show is "
        f"{phrasing.number(rank_p(0, n))})."
    )
