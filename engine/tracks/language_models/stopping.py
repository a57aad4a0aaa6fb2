"""Fewer draws of every prompt, where all reported intervals are narrow enough before.

Decoding seeds are drawn one after the other, for the dense model and every variant alike, so that
each change stays one of pairs. After each the intervals are those that an audit of so many seeds
reports; the first number of seeds with which the widest is as narrow as asked is the run's, the
first of all if that does. The rule sees widths and no values; in the simulated worlds of `python -m
benchmarks.calibration --only stopping`, where intervals cover .97, it changes nothing that shows.
It sees them by finished parts alone, so a resumed audit stops where an uninterrupted one does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from engine.tracks.language_models.request import AuditRequest
from engine.tracks.language_models.variants import DENSE

TEST = "test"
DRAWN = "drawn"
"""Where run.json says what was drawn."""


@dataclass(frozen=True)
class Drawn:
    """How often every prompt was drawn, of how often at most, and the widest interval then: of
    which variant's change of bias on which axis, or of the dense model's bias where nothing is cut.
    Widths in the unit of bias; NaN where an interval could not be given."""

    seeds: int
    most: int
    asked: float
    widest: float
    variant: str
    axis: str

    @property
    def is_narrow(self) -> bool:
        return self.widest <= self.asked

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {**asdict(self), "widest": None if np.isnan(self.widest) else self.widest}


def looks(request: AuditRequest) -> list[AuditRequest]:
    """The request with one seed, two, … up to those asked, where it may stop before; else as it
    is."""
    if request.stop_at is None:
        return [request]
    return [replace(request, seeds=count) for count in range(1, request.seeds + 1)]


def drawn_of(results: pd.DataFrame, drawn: AuditRequest, asked: AuditRequest) -> Drawn:
    """What was reached with the seeds of `drawn`; results: that table of the audit."""
    rows = results[(results["metric"] == f"bias:{asked.reading}") & (results["split"] == TEST)]
    cut = rows[rows["variant"] != DENSE]
    widths = (cut["delta_high"] - cut["delta_low"]).to_numpy(dtype=float)
    if cut.empty:  # nothing but the dense model is measured: its bias is what is reported
        cut, widths = rows, (rows["high"] - rows["low"]).to_numpy(dtype=float)
    at = int(np.argmax(np.where(np.isnan(widths), np.inf, widths)))
    row = cut.iloc[at]
    assert asked.stop_at is not None, "nothing was to be reached"
    return Drawn(
        drawn.seeds,
        asked.seeds,
        float(asked.stop_at),
        float(widths[at]),
        str(row["variant"]),
        row["axis"],
    )


def as_drawn(request: AuditRequest, meta: Mapping[str, Any]) -> AuditRequest:
    """The request of a finished run with as many seeds as its variants were drawn with; meta: its
    run.json."""
    return replace(request, seeds=seeds_drawn(meta)) if DRAWN in meta else request


def seeds_drawn(meta: Mapping[str, Any]) -> int:
    """How often every prompt of a run was drawn for its variants."""
    return int((meta.get(DRAWN) or meta["request"])["seeds"])


def said(meta: Mapping[str, Any], name: str) -> str:
    """The sentence for run and screens; name: the axis in words."""
    found = meta[DRAWN]
    times = f"{found['seeds']} of at most {found['most']} times"
    what = "the dense model's bias" if found["variant"] == DENSE else "a change of bias"
    if found["widest"] is None:
        return (
            f"Every prompt was drawn {times}: an interval could not be given on {name}, with too"
            " few prompts."
        )
    width = f"on {name}, was {found['widest']:.3g} wide, {found['asked']:g} were asked"
    if found["widest"] <= found["asked"]:
        return f"Every prompt was drawn {times}, since the widest interval of {what}, {width}."
    return (
        f"Every prompt was drawn {times}, and the widest interval of {what}, {width}. More draws of"
        " the same prompts narrow it only so far: ask for more prompts."
    )
