"""A model in words before an audit: what it is, where its heads are, how it was read and whether
that holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

OWN_FILE = (
    "Its family is known here. That silenced heads hand over nothing is proved again when an audit"
    " loads it."
)
PROVED = (
    "Proved on the loaded model: heads lie one after the other, a silenced head changes what its"
    " layer hands on and nothing below it, and with all of them silenced no token sees another."
)


def heads_said(info: Any, adapter_of_loaded: Callable[[], Any]) -> list[str]:
    """Sentences about a transformer; info: a ModelInfo. Where it was read by its structure it is
    loaded, by the adapter of which the proof is known (RequestError with what failed)."""
    what = (
        f"{info.name} is {_article(info.model_type)} {info.model_type} of {info.n_layers} layers"
        f" with {info.n_heads} heads each, {size_said(info.n_parameters)}, reading up to"
        f" {info.n_positions:,} tokens."
    )
    return [what, adapter_of_loaded().how, PROVED] if info.how else [what, OWN_FILE]


def size_said(numbers: int) -> str:
    """How many numbers a model has: "124 million numbers"."""
    for least, word in ((10**9, "billion"), (10**6, "million")):
        if numbers >= least:
            return f"{numbers / least:.3g} {word} numbers"
    return f"{numbers:,} numbers"


def _article(word: str) -> str:
    return "an" if word[:1].lower() in "aeio" else "a"
