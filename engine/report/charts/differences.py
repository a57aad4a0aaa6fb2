"""Paired differences between two models on the same items: when one is claimed, how it is said."""

from __future__ import annotations

import math

from engine.core.types import Values
from engine.report import phrasing
from engine.report.contract import Measure

MAX_Q = 0.05
"""False discovery rate up to which a difference is claimed."""
BY_CHANCE = "by chance"


def as_change(row: Values) -> Values:
    """A difference (value, low, high) under the names of a change."""
    return {"delta": row["value"], "delta_low": row["low"], "delta_high": row["high"]}


def direction(row: Values) -> str:
    """What phrasing.direction gives; "by chance" where the interval leaves out zero and q is too
    large for a claim."""
    kind = phrasing.direction(as_change(row))
    return BY_CHANCE if kind in ("rose", "fell") and not row.get("q", 0.0) <= MAX_Q else kind


def verdict_on(measure: Measure, row: Values) -> str:
    """ "helps", "harms" or "unclear" from the interval of a difference."""
    kind = phrasing.direction(as_change(row))
    return {measure.better: "helps", measure.worse: "harms"}.get(kind, "unclear")


def q_said(row: Values) -> str:
    """The false discovery rate in a hover; "" where none was computed."""
    return f"q = {phrasing.number(row['q'])}" if math.isfinite(row["q"]) else ""
