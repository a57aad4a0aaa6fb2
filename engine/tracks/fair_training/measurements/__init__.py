"""Measurements of fair training, one per file, found and not registered. These load torch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from engine.audit.measurements import Measurement


@cache
def fair_measurements() -> Mapping[str, Measurement]:
    """Every measurement there is, by name: those of the dense model are an image audit's."""
    from engine.classifiers.images.measurements import dense_measurements
    from engine.core.discover import members
    from engine.tracks.fair_training import measurements as package

    return {**dense_measurements(), **{one.name: one for one in members(package, Measurement)}}
