"""The audit that is asked for by naming a model: small enough to wait for, and honest about how
little it can tell."""

from __future__ import annotations

from typing import Any

from engine.audit.fields import fields_of
from engine.audit.tracks import Quick
from engine.core.types import AXES
from engine.tracks.language_models import words
from engine.tracks.language_models.request import AuditRequest

FIRST = {field.name: field.quick for field in fields_of(AuditRequest) if field.quick is not None}
"""What the form's quick preset asks for."""


def quick_request(model: str) -> dict[str, Any]:
    """One axis of the embedded prompts, one draw of each, γ fixed; JSON-able. `model`: a name or a
    folder."""
    return {
        "track": "language_models",
        "model": model,
        "axes": [AXES[0]],
        "gamma": 0.3,
        **{
            name: list(value) if isinstance(value, tuple) else value
            for name, value in FIRST.items()
        },
        "title": f"Quick audit of {model}",
    }


QUICK = Quick(quick_request, words.quick_words(FIRST["max_prompts"]))
