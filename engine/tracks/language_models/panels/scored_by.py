"""How heads were scored: by which estimator, whose texts were drawn again, whose weights have a
heavy tail."""

from __future__ import annotations

import math

import pandas as pd

from engine.report import phrasing
from engine.stats.pareto import HEAVY
from engine.tracks.language_models import words as own

FIRST_ORDER = "gradient"
"""The estimator of z_bias that measures no effect."""
DRAWN = ("generate", "combined")
"""Those that draw texts with the head off."""


def estimators_said(table: pd.DataFrame, asked: str) -> str:
    """How heads were scored, e.g. "Estimator auto: 31 heads by gradient, 12 by reweighting (ESS at
    least .4)."."""
    if "ess" not in table or table["value"].isna().all():
        return f"Estimator {asked}."
    said = [] if unmeasured(table).empty else [_unmeasured_said(table)]
    for name, rows in measured(table).groupby("estimator", sort=False):
        text = f"{phrasing.count(len(rows), 'head')} by {own.estimator_name(name)}"
        least = rows["ess"].min()
        if name == "reweight" and math.isfinite(least):
            text += f" (ESS at least {phrasing.number(least)} of n)"
        said.append(text)
    again = len(drawn_again(table))
    back = (
        f" Weights said too little about {phrasing.count(again, 'head')}: new texts were drawn."
        if again
        else ""
    )
    return f"Estimator {asked}: {phrasing.listing(said)}.{back}{_heavy(table)}"


def unmeasured(table: pd.DataFrame) -> pd.DataFrame:
    """Heads whose effect on bias is first order: a slope, which can be far from the effect."""
    return table[table["estimator"] == FIRST_ORDER]


def measured(table: pd.DataFrame) -> pd.DataFrame:
    """All others."""
    return table[table["estimator"] != FIRST_ORDER]


def _unmeasured_said(table: pd.DataFrame) -> str:
    return (
        f"{phrasing.count(len(unmeasured(table)), 'head')} by {FIRST_ORDER} (first order: hollow,"
        " not measured)"
    )


def _heavy(table: pd.DataFrame) -> str:
    """Heads whose weights have a tail so heavy that few texts stand for all others."""
    if "k_hat" not in table or not (heavy := int((table["k_hat"] > HEAVY).sum())):
        return ""
    return (
        f" {phrasing.count(heavy, 'head')} with heavy-tailed weights (Pareto k̂ above {HEAVY:g}):"
        " read the interval."
    )


def drawn_again(table: pd.DataFrame) -> pd.DataFrame:
    """Heads whose texts were drawn again because weights left too few effective samples, or had a
    heavy tail."""
    if "ess" not in table:
        return table.iloc[:0]
    return table[table["estimator"].isin(DRAWN) & table["ess"].notna()]
