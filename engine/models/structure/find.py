"""The adapter of a model, from its config: a family's own file where there is one, else what its
structure tells."""

from __future__ import annotations

from typing import Any

from engine.models.adapters import adapter_for, known_types
from engine.models.adapters.base import Adapter
from engine.models.adapters.encoder import Encoder
from engine.models.structure.adapter import StructuralDecoder, StructuralEncoder
from engine.models.structure.read import layout_of, skeleton


def adapter_of(config: Any, causal: bool = True) -> Adapter:
    """causal: of a language model, else of a text classifier. RequestError says why a structure
    cannot be read."""
    if config.model_type in known_types(causal):
        return adapter_for(config.model_type)
    layout = layout_of(config, causal)
    return (
        StructuralDecoder(layout) if causal else StructuralEncoder(layout, skeleton(config, causal))
    )


def encoder_of(config: Any) -> Encoder:
    """The adapter of a text classifier. RequestError as for `adapter_of`."""
    found = adapter_of(config, causal=False)
    assert isinstance(found, Encoder)
    return found
