"""How heads were scored: how many by which estimator, which fell back, and which have heavy-tailed weights."""

from __future__ import annotations

import math

import pandas as pd

from engine.report import phrasing
from engine.stats.pareto_k import HEAVY

FIRST_ORDER = "gradient"
"""The estimator of z_bias that measures no effect."""


def estimators_said(table: pd.DataFrame, asked: str) -> str:
    """How heads were scored, e.g. "Estimator auto: 31 heads by gradient, 12 by reweight (ESS at least .4)."."""
    if "ess" not in table or table["value"].isna().all():
        return f"Estimator {asked}."
    said = [] if unmeasured(table).empty else [_unmeasured_said(table)]
    for name, rows in measured(table).groupby("estimator", sort=False):
        text = f"{phrasing.count(len(rows), 'head')} by {name}"
        least = rows["ess"].min()
        if name == "reweight" and math.isfinite(least):
            text += f" (ESS at least {phrasing.number(least)} of n)"
        said.append(text)
    fallen = fallen_back(table)
    back = (
        f" {phrasing.count(len(fallen), 'head')} fell back to it for want of effective samples." if len(fallen) else ""
    )
    return f"Estimator {asked}: {phrasing.listing(said)}.{back}{_heavy(table)}"


def unmeasured(table: pd.DataFrame) -> pd.DataFrame:
    """Heads whose effect on bias is first order: a slope, which can be far from the effect."""
    return table[table["estimator"] == FIRST_ORDER]


def measured(table: pd.DataFrame) -> pd.DataFrame:
    """All others."""
    return table[table["estimator"] != FIRST_ORDER]


def _unmeasured_said(table: pd.DataFrame) -> str:
    return f"{phrasing.count(len(unmeasured(table)), 'head')} by {FIRST_ORDER} (first order: hollow, not measured)"


def _heavy(table: pd.DataFrame) -> str:
    """Heads whose weights have a tail so heavy that few texts stand for all others."""
    if "k_hat" not in table or not (heavy := int((table["k_hat"] > HEAVY).sum())):
        return ""
    return f" {phrasing.count(heavy, 'head')} with heavy-tailed weights (Pareto k̂ above {HEAVY:g}): read the interval."


def fallen_back(table: pd.DataFrame) -> pd.DataFrame:
    """Heads that were regenerated because reweighting left too few effective samples."""
    if "ess" not in table:
        return table.iloc[:0]
    return table[(table["estimator"] == "generate") & table["ess"].notna()]
