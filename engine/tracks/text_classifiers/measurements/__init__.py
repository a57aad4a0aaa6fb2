"""Measurements of text classifiers, one per file, found and not registered. These load torch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from engine.audit.measurements import Measurement
from engine.core.discover import named


@cache
def text_measurements() -> Mapping[str, Measurement]:
    """Every measurement there is, by name."""
    return named(__name__, Measurement)
