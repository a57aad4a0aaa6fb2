"""Measurements of the model that an audit of images starts from, one per file. These load torch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from engine.audit.measurements import Measurement
from engine.core.discover import members


@cache
def dense_measurements() -> Mapping[str, Measurement]:
    """Every measurement of this folder by its name."""
    from engine.classifiers.images import measurements as package

    return {one.name: one for one in members(package, Measurement)}
