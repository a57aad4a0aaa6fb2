"""Kinds of audit: one file per kind (track), found by name; pages and panels ask the run's track and name none."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache

from engine.discover import concrete_classes
from engine.errors import RequestError, unknown
from engine.export.tracks.base import Track
from engine.store.runs import Run

USUAL = "heads"
"""The track of runs that were written before there was more than one."""


@cache
def tracks() -> Mapping[str, Track]:
    """Every track by name. Found at the first call, not at import: a track's file imports the panels it is made of."""
    return {found.name: found() for found in concrete_classes(sys.modules[__name__], Track)}


def track_name(meta: Mapping[str, object]) -> str:
    """The name of a run's track, from its run.json."""
    return str(meta.get("track") or USUAL)


def track_of(run: Run) -> Track:
    """The track of a run. RequestError for one that this version does not know."""
    name = track_name(run.meta)
    if name not in tracks():
        raise RequestError(unknown(f"track of run {run.id}", name, tracks()))
    return tracks()[name]
