"""What an image classifier is, before an audit of its filters, heads or weights is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.core.errors import Fault, RequestError


def inspected(given: Mapping[str, Any]) -> list[str]:
    """Sentences; given: model, weights and size as a request has them. RequestError with every fault of the model."""
    from engine.models.inspection import size_said
    from engine.models.load_image_classifier import fresh_info, inspect_classifier, is_architecture  # loads torch

    name, weights, size = str(given.get("model") or ""), given.get("weights"), given.get("size")
    if not name:
        raise RequestError(Fault("model", "is missing.", "Give an architecture, a model folder or a weight file."))
    new = is_architecture(name) and weights is None
    info = fresh_info(name, 2, size, 0) if new else inspect_classifier(name, weights, size=size)
    own = "a new " if new else "" if info.name == info.arch else f"{info.name}, "
    known = f" that tells {len(info.classes)} classes apart" if info.classes and not new else ""
    what = (
        f"This is {own}{info.arch}{known}: {size_said(info.n_parameters)}, images of {info.size} × {info.size} pixels."
    )
    if new:
        return [what, "Its weights are random: it is fitted on the audit's training images before anything is cut."]
    return [what, *info.notes, *([f"Classes: {', '.join(info.classes[:20])}."] if info.classes else [])]
