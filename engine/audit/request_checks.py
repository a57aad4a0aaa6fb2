"""What requests of every track are checked for besides the kinds of their fields: numbers, axes,
devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard, TypeVar

from engine.core.errors import Fault, RequestError, unknown

T = TypeVar("T")


def is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def axis_faults(axes: Sequence[str], known: Sequence[str]) -> list[Fault]:
    """Axes with a part that is no group column."""
    return [
        unknown("axis", part, known, "Join two with +.")
        for axis in axes
        for part in axis.split("+")
        if part not in known
    ]


def attempt(load: Callable[[], T], faults: list[Fault]) -> T | None:
    """What `load` gives; None where it raises RequestError, whose faults are added."""
    try:
        return load()
    except RequestError as error:
        faults.extend(error.faults)
        return None


def device_faults(name: str, _: Any) -> list[Fault]:
    """A device that is not there."""
    from engine.models import runtime  # loads torch

    faults: list[Fault] = []
    attempt(lambda: runtime.pick_device(name), faults)
    return faults
