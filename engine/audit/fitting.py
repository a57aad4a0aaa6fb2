"""How long an audit will take, tried on the spot, and a request made small enough for a time.

What is tried is computed as the audit computes it, so what a try finishes is kept for it.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.audit.fields import Scale, fields_of
from engine.audit.tracks import track_of_request
from engine.core.errors import Cancelled, RequestError, refusal
from engine.core.types import Hooks
from engine.core.words import duration
from engine.store.runs import Store

TRIED, PATIENCE = 20.0, 120.0
"""Seconds that a forecast computes for, and that it waits for the first number."""
TRIES, LEAST, AIM = 3, 0.6, 0.9
"""How often a request is tried. A try that fills LEAST of the time is good enough; the next aims
at the share AIM of it."""
_UNITS = {"s": 1, "m": 60, "h": 3600}


def seconds_of(text: str, where: str = "--within") -> float:
    """ "30m" -> 1800.0. RequestError for what is no time."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if not found or float(found[1]) == 0:
        raise refusal(where, f"{text!r} is no time.", "Write for example 90s, 30m or 2h.")
    return float(found[1]) * _UNITS[found[2]]


def forecast(request: Any, store: Store, hooks: Hooks, patience: float = PATIENCE) -> float | None:
    """Seconds that the whole audit takes, by its own forecast after TRIED seconds of computing;
    None where nothing can be told within `patience`."""
    start, left = time.monotonic(), [math.nan]

    def report(event: Any) -> None:
        left.append(left[-1] if event.eta is None else event.eta)
        hooks.report(event)

    def check() -> None:
        hooks.check()
        if time.monotonic() - start > (patience if math.isnan(left[-1]) else TRIED):
            raise Cancelled("Tried for long enough.")

    try:
        track_of_request(request).part("run")(request, store, Hooks(report, check), None)
        left.append(0.0)
    except Cancelled:
        hooks.check()  # the asker's own wish
    seconds = time.monotonic() - start + left[-1]
    return None if math.isnan(seconds) else seconds


@dataclass(frozen=True)
class Fitted:
    """A request that fits. seconds: what it takes. changed: its fields that differ from what was
    asked. said: one sentence."""

    request: Any
    seconds: float
    changed: Mapping[str, int]
    said: str


def scales_of(request: type) -> dict[str, Scale]:
    """The fields that say how much is measured and can be made smaller, by name."""
    return {field.name: field.scale for field in fields_of(request) if field.scale}


def fit(request: Any, seconds: float, store: Store, hooks: Hooks = Hooks()) -> Fitted:  # noqa: B008
    """The request with as many prompts and as much text as `seconds` allow, tries included. Where
    that would leave fewer than are enough, repeats go first.

    RequestError where even the fewest take longer, or nothing can be told in time.
    """
    start, scales = time.monotonic(), scales_of(type(request))
    most = {name: scale.most(request) for name, scale in scales.items()}
    asked = {name: min(getattr(request, name) or n, n) for name, n in most.items()}
    patience = max(PATIENCE, seconds / 4)  # a large model on a busy machine begins slowly
    share, whole = 1.0, math.nan
    for is_last in (False, True):
        lowest = _lowest(asked, scales, is_last)
        tries: dict[float, float] = {}
        while len(tries) < TRIES and share not in tries:
            trial = replace(request, **_amounts(asked, scales, share, is_last))
            took = forecast(trial, store, hooks, patience)
            if took is None:
                what = f"{duration(patience)} of trying were too short to tell how long it takes."
                raise refusal("within", what, "Ask without a time, or for a smaller model.")
            tries[share], whole = took, took if math.isnan(whole) else whole
            room = seconds - (time.monotonic() - start)
            wanted = _share(tries, AIM * room)
            if room <= 0:
                raise _too_short(scales, took)
            if took > room and (share <= lowest or wanted < lowest and not is_last):
                break
            if took > room or (share < 1.0 and took < LEAST * room):
                share = min(max(wanted, lowest), 1.0)
        else:
            if share not in tries:  # one that was tried, before one that was not
                share = max((one for one, said in tries.items() if said <= room), default=share)
            changed = _amounts(asked, scales, share, is_last)
            took = tries.get(share, AIM * room)
            return Fitted(
                replace(request, **changed), took, changed, _said(scales, changed, took, whole)
            )
        share = lowest
    raise _too_short(scales, tries[share])


def _floor(scale: Scale, is_last: bool) -> int:
    return scale.fewest if is_last else max(scale.enough, scale.fewest)


def _lowest(asked: Mapping[str, int], scales: Mapping[str, Scale], is_last: bool) -> float:
    """The share of what was asked at which all that shrinks is at its least."""
    floors = {name: _floor(scale, is_last) for name, scale in scales.items() if not scale.is_repeat}
    return min(1.0, *(floor / asked[name] for name, floor in floors.items()))


def _amounts(
    asked: Mapping[str, int], scales: Mapping[str, Scale], share: float, is_last: bool
) -> dict[str, int]:
    """What changes: with `is_last` repeats are at their fewest."""
    found = {}
    for name, most in asked.items():
        least = min(_floor(scales[name], is_last), most)
        if scales[name].is_repeat:
            found[name] = least if is_last else most
        else:
            found[name] = max(least, math.floor(share * most))
    return {name: n for name, n in found.items() if n != asked[name]}


def _share(tries: dict[float, float], seconds: float) -> float:
    """The share of what was asked that takes `seconds`: along the line through the last two tries,
    in proportion where there is one alone or the line does not rise."""
    (last, took), *before = reversed(tries.items())
    if before:
        slope = (took - before[0][1]) / (last - before[0][0])
        if slope > 0:
            return last + (seconds - took) / slope
    return last * seconds / took


def _too_short(scales: Mapping[str, Scale], took: float) -> RequestError:
    listed = _listed({name: scale.fewest for name, scale in scales.items()}, scales)
    what = f"is too short: even with {listed} the audit takes about {duration(took)}."
    fix = "Give more time, or ask for fewer axes, methods or sparsities."
    return refusal("within", what, fix)


def _listed(amounts: Mapping[str, int], scales: Mapping[str, Scale]) -> str:
    *first, last = (
        f"{n:,} {scales[name].word}" if n else f"no {scales[name].word}"
        for name, n in amounts.items()
    )
    return " and ".join(filter(None, (", ".join(first), last)))


def _said(
    scales: Mapping[str, Scale], changed: Mapping[str, int], took: float, whole: float
) -> str:
    if not changed:
        return f"The whole request takes about {duration(took)}."
    listed = _listed(changed, scales)
    return (
        f"All that was asked for takes about {duration(whole)}. With {listed} it takes about"
        f" {duration(took)}."
    )
