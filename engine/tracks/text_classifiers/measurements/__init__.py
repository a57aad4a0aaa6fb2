"""Measurements of text classifiers, one per file, found and not registered. These load torch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from engine.audit.measurements import Measurement


@cache
def text_measurements() -> Mapping[str, Measurement]:
    """Every measurement there is, by name."""
    from engine.core.discover import members
    from engine.tracks.text_classifiers import measurements as package

    return {one.name: one for one in members(package, Measurement)}
