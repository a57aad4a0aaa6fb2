"""The audit that is asked for by naming a model: small enough to wait for, and honest about how little it can tell."""

from __future__ import annotations

from typing import Any

from engine.audit.tracks import Quick
from engine.core.types import AXES
from engine.tracks.language_models import words

PROMPTS, TOKENS, TEXT = 60, 20, 4000
"""Prompts of the one axis, new tokens per text, and tokens of text for perplexity."""


def quick_request(model: str) -> dict[str, Any]:
    """One axis of the embedded prompts, one draw of each, γ fixed; JSON-able. `model`: a name or a folder."""
    return {
        "track": "language_models",
        "model": model,
        "axes": [AXES[0]],
        "methods": ["fasp", "bias_only", "random_noncritical"],
        "sparsities": [0.0, 0.1, 0.2],
        "gamma": 0.3,
        "controls": 0,
        "seeds": 1,
        "max_prompts": PROMPTS,
        "max_new_tokens": TOKENS,
        "max_corpus_tokens": TEXT,
        "title": f"Quick audit of {model}",
    }


QUICK = Quick(quick_request, words.quick_words(PROMPTS))
