"""What a text classifier or an encoder is, before an audit of its heads is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def inspected(given: Mapping[str, Any]) -> list[str]:
    """Sentences; given: model and device as a request has them. RequestError with every fault of
    the model."""
    from engine.models.inspection import heads_said
    from engine.models.load_text_classifier import (
        inspect_text_model,
        load_text_classifier,
    )  # loads torch

    name, device = str(given.get("model") or ""), str(given.get("device") or "auto")
    info = inspect_text_model(name)
    classes = info.classes or tuple(str(at) for at in range(info.n_labels or 2))
    said = heads_said(info, lambda: load_text_classifier(name, classes, device=device).adapter)
    if not info.has_head:
        known = (
            "It is an encoder without a classifier: one is fitted on the audit's training texts."
        )
    elif info.classes:
        known = f"It tells apart: {', '.join(classes)}."
    else:
        known = (
            f"Its {info.n_labels} outputs have no names: which class each is must be said"
            " (--classes)."
        )
    return [said[0], known, *said[1:], *info.notes]
