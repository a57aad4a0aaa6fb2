"""Measurements of image classifiers, one per file, found and not registered. These load torch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from engine.audit.measurements import Measurement
from engine.classifiers.images.dense import with_dense


@cache
def image_measurements() -> Mapping[str, Measurement]:
    """Every measurement there is, by name."""
    return with_dense(__name__)
