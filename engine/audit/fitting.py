"""How long an audit will take, tried on the spot, and a request made small enough for a time.

What is tried is computed as the audit computes it, so what a try finishes is kept for it.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.audit.fields import Field, Scale, fields_of
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
    asked. said: what was done."""

    request: Any
    seconds: float
    changed: Mapping[str, Any]
    said: str


def scales_of(request: type) -> dict[str, Scale]:
    """The fields that say how much is measured and can be made smaller, by name."""
    return {field.name: field.scale for field in fields_of(request) if field.scale}


def fit(
    request: Any,
    seconds: float,
    store: Store,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    chosen: Collection[str] = (),
) -> Fitted:
    """The request with as many prompts and as much text as `seconds` allow, tries included. Where
    that would leave fewer than are enough, repeats go first. Then the form's quick preset stands in
    for fields that are as usual and were not `chosen`.

    RequestError where even the fewest take longer, or nothing can be told in time.
    """
    start = time.monotonic()
    if seconds < TRIED:
        what = f"is shorter than trying how long the audit takes, {duration(TRIED)} or more."
        raise refusal("within", what, "Give more time.")
    quick = {name: field for name, field in _quick(request).items() if name not in chosen}
    if not quick:
        return _shrunk(request, seconds, store, hooks)
    try:
        return _shrunk(request, seconds, store, hooks, is_enough=True)
    except RequestError as error:
        if any(fault.where != "within" for fault in error.faults):
            raise  # it is wrong, not too long
    left = seconds - (time.monotonic() - start)
    labels = _and(field.label.lower() for field in quick.values())
    said = f"All that was asked for is too much. The quick preset's values stand in for {labels}."
    values = {name: field.quick for name, field in quick.items()}
    found = _shrunk(replace(request, **values), left, store, hooks, said)
    return replace(found, changed={**values, **found.changed})


def _quick(request: Any) -> dict[str, Field]:
    """The fields that are as usual and that the quick preset asks otherwise, but for how much is
    measured. One with settings of its own is not as usual."""
    return {
        field.name: field
        for field in fields_of(type(request))
        if field.quick is not None
        and not field.scale
        and getattr(request, field.name) == field.default != field.quick
        and not getattr(request, f"{field.name}_settings", None)
    }


def _shrunk(
    request: Any,
    seconds: float,
    store: Store,
    hooks: Hooks,
    lead: str = "",
    is_enough: bool = False,
) -> Fitted:
    """`fit` of all that is asked for. lead: what is said first. is_enough: RequestError where less
    than is enough would be left."""
    start, scales = time.monotonic(), scales_of(type(request))
    most = {name: scale.most(request) for name, scale in scales.items()}
    asked = {name: min(getattr(request, name) or n, n) for name, n in most.items()}
    shrinks = {name: scale for name, scale in scales.items() if not scale.is_repeat}
    enough = {
        name: min(scale.enough or asked[name], asked[name]) for name, scale in shrinks.items()
    }
    fewest = {name: min(scale.fewest(request), asked[name]) for name, scale in scales.items()}
    factor = top = max(asked[name] / n for name, n in enough.items())
    least = 1.0
    if not is_enough:
        least = min(1.0, *(fewest[name] / n for name, n in enough.items()))
    patience = max(PATIENCE, seconds / 4)  # a large model on a busy machine begins slowly

    def amounts(factor: float, is_once: bool) -> dict[str, int]:
        """What changes at so many times what is enough; is_once: repeats at their fewest."""
        found = {
            name: max(fewest[name], min(math.floor(factor * n + 1e-9), asked[name]))
            for name, n in enough.items()
        }
        found |= {name: fewest[name] for name in scales if is_once and name not in shrinks}
        return {name: n for name, n in found.items() if n != asked[name]}

    whole, is_once, tries = math.nan, len(shrinks) == len(scales), dict[float, float]()
    while len(tries) < TRIES and factor not in tries:
        trial = replace(request, **amounts(factor, is_once))
        took = forecast(trial, store, hooks, patience)
        if took is None:
            what = f"{duration(patience)} of trying were too short to tell how long it takes."
            raise refusal("within", what, "Ask without a time, or for a smaller model.")
        tries[factor], whole = took, took if math.isnan(whole) else whole
        room, lowest = seconds - (time.monotonic() - start), least if is_once else 1.0
        wanted = _wanted(tries, AIM * room)
        if room <= 0 or (is_once and took > room and factor <= lowest):
            listed = _listed(amounts(factor, is_once) or asked, scales)
            what = f"is too short: with {listed} the audit takes about {duration(took)}."
            if room <= 0:
                what = "is too short to try how long the audit takes."
            fix = "Give more time, or ask for fewer axes, methods or sparsities."
            raise refusal("within", what, fix)
        if not is_once and took > room and wanted < lowest:
            factor, is_once, tries = 1.0, True, {}
        elif took > room or (amounts(factor, is_once) and took < LEAST * room):
            factor = min(max(wanted, lowest), top)
    if factor not in tries:  # one that was tried, before one that was not
        factor = max((one for one, said in tries.items() if said <= room), default=factor)
    changed, took = amounts(factor, is_once), tries.get(factor, AIM * room)
    if is_once and factor == top:  # what is left of the time is for repeats
        times = max(1, math.floor(AIM * room / took))
        for name in (name for name in scales if name not in shrinks and fewest[name]):
            found = min(times * fewest[name], asked[name])
            changed[name], took = found, took * found / fewest[name]
        changed = {name: n for name, n in changed.items() if n != asked[name]}
    said = [lead or f"All that was asked for takes about {duration(whole)}."]
    if lead or changed:
        amount = f"With {_listed(changed, scales)} it" if changed else "It"
        said.append(f"{amount} takes about {duration(took)}.")
    return Fitted(replace(request, **changed), took, changed, " ".join(said))


def _wanted(tries: dict[float, float], seconds: float) -> float:
    """The factor that takes `seconds`: along the line through the last two tries, in proportion
    where there is one alone or the line does not rise."""
    (last, took), *before = reversed(tries.items())
    if before:
        slope = (took - before[0][1]) / (last - before[0][0])
        if slope > 0:
            return last + (seconds - took) / slope
    return last * seconds / took


def _listed(amounts: Mapping[str, int], scales: Mapping[str, Scale]) -> str:
    words = {
        name: scales[name].word if n != 1 else re.sub(r"s\b", "", scales[name].word, count=1)
        for name, n in amounts.items()
    }
    return _and(f"{f'{n:,}' if n else 'no'} {words[name]}" for name, n in amounts.items())


def _and(parts: Iterable[str]) -> str:
    *first, last = parts
    return " and ".join(filter(None, (", ".join(first), last)))
