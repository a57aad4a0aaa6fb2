"""Procedures that cut heads step by step (thesis, Algorithms 6.1 and 6.2 and what is made of them):
rows of a file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from engine.core.discover import members
from engine.core.errors import RequestError, unknown
from engine.tracks.text_classifiers.procedures.base import Procedure


@cache
def procedures() -> Mapping[str, Procedure]:
    """Every procedure there is, by name, the cheapest first."""
    import engine.tracks.text_classifiers.procedures as package

    found = sorted(members(package, Procedure), key=lambda one: one.place)
    return {procedure.name: procedure for procedure in found}


def procedure_named(name: str) -> Procedure:
    """One procedure; unknown names raise RequestError and list the known ones."""
    if name not in procedures():
        raise RequestError(unknown("procedure", name, procedures()))
    return procedures()[name]
