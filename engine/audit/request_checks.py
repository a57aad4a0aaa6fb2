"""What requests of every track are checked for: numbers, axes, devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.errors import Fault, unknown


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def whole_number_faults(request: Any, least: Mapping[str, int], optional: Sequence[str]) -> list[Fault]:
    """Fields that are no whole number from `least` on; those of `optional` may be None."""
    faults = []
    for name, smallest in least.items():
        value = getattr(request, name)
        if value is None and name in optional:
            continue
        if type(value) is not int or value < smallest:
            faults.append(Fault(name, f"{value!r} is not allowed.", f"Give a whole number from {smallest}."))
    return faults


def axis_faults(axes: Sequence[str], known: Sequence[str]) -> list[Fault]:
    """Axes with a part that is no group column."""
    return [
        unknown("axis", part, known, "Join two with +.")
        for axis in axes
        for part in axis.split("+")
        if part not in known
    ]


def no_axis_faults(axes: Sequence[str]) -> list[Fault]:
    return [] if axes else [Fault("axis", "none is named.", 'Name a group column, or "class".')]


def check_device(name: str) -> None:
    """RequestError for a device that is not there."""
    from engine.models import runtime

    runtime.pick_device(name)
