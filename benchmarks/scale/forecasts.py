"""Forecasts of running audits: what was said at a tenth of the time over what the rest took, and whether progress ever
went back. Five audits: those that the project ships, with the form's quick settings, in a fresh store."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.report import Measure
from engine.audit.fields import fields_of
from engine.audit.jobs import run_job
from engine.audit.tracks import tracks
from engine.core.types import Event
from engine.store.runs import Store

BAR = 1.5
AT = 0.1


def measures() -> list[Measure]:
    ratios: dict[str, float] = {}
    backwards, silent = 0, 0.0
    for request in _quick():
        said, whole = _watched(request)
        ratios[f"{request.track}, {getattr(request, 'data', '') or request.model}"] = _off(said, whole)
        backwards += _backwards(said)
        silent = max(silent, _silent(said, whole))
    found = [Measure(f"forecast at a tenth of the time, {name}", off, "times off") for name, off in ratios.items()]
    return [
        *found,
        Measure("forecast at a tenth of the time, worst of five audits", max(ratios.values()), "times off", BAR),
        Measure("times the share that is done went back", backwards, "", 0),
        Measure("longest time without a sign of life", silent, "s"),
    ]


def _quick() -> list[Any]:
    found = []
    for track in tracks().values():
        fields = fields_of(track.part("request"))
        for request in track.part("embedded"):
            found.append(replace(request, **{one.name: one.quick for one in fields if one.quick is not None}))
    return found


def _watched(request: Any) -> tuple[list[tuple[float, Event]], float]:
    """Events with the seconds since the start, and how long it all took."""
    said: list[tuple[float, Event]] = []
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        run_job(Store(Path(folder)), request, lambda event: said.append((time.perf_counter() - start, event)))
    return said, time.perf_counter() - start


def _off(said: list[tuple[float, Event]], whole: float) -> float:
    """How many times too long or too short the first forecast after a tenth of the time was; infinite without one."""
    for moment, event in said:
        if moment >= AT * whole and event.eta is not None:
            rest = max(whole - moment, 1e-9)
            return max(event.eta / rest, rest / max(event.eta, 1e-9))
    return float("inf")


def _backwards(said: list[tuple[float, Event]]) -> int:
    shares = [event.done / event.total for _, event in said if event.total]
    return sum(later < before - 1e-9 for before, later in zip(shares, shares[1:], strict=False))


def _silent(said: list[tuple[float, Event]], whole: float) -> float:
    moments = [0.0, *(moment for moment, _ in said), whole]
    return max(later - before for before, later in zip(moments, moments[1:], strict=False))
