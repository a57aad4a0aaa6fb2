"""Measurements of text classifiers, one per file, found and not registered. These load torch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from engine.metrics.workbench import Kind


@cache
def text_kinds() -> Mapping[str, Kind]:
    """Every kind there is, by name."""
    from engine.discover import concrete_classes
    from engine.scores import text_kinds as package

    return {kind.name: kind() for kind in concrete_classes(package, Kind)}
