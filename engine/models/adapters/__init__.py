"""Families of transformers: what each is made of, one family, one file, found by being here."""

from __future__ import annotations

import sys
from functools import cache

from engine.core.discover import concrete_classes
from engine.core.errors import RequestError, unknown
from engine.models.adapters.base import Adapter


@cache
def adapters() -> tuple[Adapter, ...]:
    """Every adapter in this folder, one instance each, ordered by its first model type."""
    found = concrete_classes(sys.modules[__name__], Adapter)
    return tuple(sorted((kind() for kind in found), key=lambda adapter: adapter.model_types))


def known_types(causal: bool | None = None) -> tuple[str, ...]:
    """The `model_type` values of config.json that some adapter reads; causal: of language models,
    or of encoders."""
    return tuple(
        sorted(
            kind
            for adapter in adapters()
            if causal in (None, adapter.causal)
            for kind in adapter.model_types
        )
    )


def adapter_for(model_type: str) -> Adapter:
    """The adapter of a `model_type`. RequestError names the known ones."""
    for adapter in adapters():
        if model_type in adapter.model_types:
            return adapter
    raise RequestError(unknown("architecture", model_type, known_types()))
