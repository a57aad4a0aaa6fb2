"""Whether settings given by name are those a method declares, of their kind and in their range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.errors import Fault, unknown
from engine.core.types import Setting


def setting_faults(
    declared: Sequence[Setting], given: Mapping[str, Any], where: str = "setting"
) -> list[Fault]:
    """Settings that are unknown, of the wrong kind or out of range."""
    known = {setting.name: setting for setting in declared}
    faults = [unknown(where, name, known) for name in given if name not in known]
    for name, value in given.items():
        setting = known.get(name)
        if setting is not None and not setting.allows(value):
            faults.append(Fault(name, f"{value!r} is not allowed.", f"Give {setting.allowed()}."))
    return faults
