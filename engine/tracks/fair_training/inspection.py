"""What an image classifier is, before an audit is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.classifiers.images import inspection


def inspected(given: Mapping[str, Any]) -> list[str]:
    """Sentences; given: model, weights, size and device as a request has them. RequestError with
    every fault."""
    from engine.tracks.fair_training.training.masked import masked_filters_of  # loads torch

    return inspection.inspected(given, masked_filters_of)
