"""What a language model is, before an audit of its heads is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def inspected(given: Mapping[str, Any]) -> list[str]:
    """Sentences; given: model, revision and device as a request has them. RequestError with the
    model's faults."""
    from engine.models.inspection import heads_said
    from engine.models.load_language_model import inspect_model, load_language_model  # loads torch

    name, revision = str(given.get("model") or ""), given.get("revision")
    device = str(given.get("device") or "auto")
    info = inspect_model(name, revision)
    said = heads_said(
        info, lambda: load_language_model(name, revision=revision, device=device).adapter
    )
    return [*said, *info.notes]
