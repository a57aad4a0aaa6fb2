"""Measurements of fair training, one per file, found and not registered. These load torch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from engine.metrics.workbench import Kind


@cache
def fair_kinds() -> Mapping[str, Kind]:
    """Every kind there is, by name: those of the dense model are an image audit's."""
    from engine.discover import concrete_classes
    from engine.scores import fair_kinds as package
    from engine.scores.image_kinds import image_kinds

    return {**image_kinds(), **{kind.name: kind() for kind in concrete_classes(package, Kind)}}
