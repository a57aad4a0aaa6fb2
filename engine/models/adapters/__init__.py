"""One file per architecture family. An adapter is found by being here; nobody registers it."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from engine.errors import RequestError, unknown
from engine.models.adapters.base import Adapter


@cache
def adapters() -> tuple[Adapter, ...]:
    """Every adapter in this folder, one instance each, ordered by its first model type."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    return tuple(sorted((found() for found in Adapter.__subclasses__()), key=lambda adapter: adapter.model_types))


def known_types() -> tuple[str, ...]:
    """The `model_type` values of config.json that some adapter reads."""
    return tuple(sorted(kind for adapter in adapters() for kind in adapter.model_types))


def adapter_for(model_type: str) -> Adapter:
    """The adapter of a `model_type`. RequestError names the known ones."""
    for adapter in adapters():
        if model_type in adapter.model_types:
            return adapter
    raise RequestError(unknown("architecture", model_type, known_types()))
