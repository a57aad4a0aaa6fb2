"""Families of image classifiers: what each is made of, one family, one class, found by being
here."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from engine.core.discover import members
from engine.core.errors import RequestError, unknown
from engine.models.vision.base import Architecture
from engine.models.vision.hub_folders import hub_architecture, timm_architecture

__all__ = ["Architecture", "architectures", "architecture_for", "is_known"]


@cache
def architectures() -> Mapping[str, Architecture]:
    """Every architecture by the name of its models, in the order of the names."""
    found = members(sys.modules[__name__], Architecture)
    return MappingProxyType(dict(sorted((name, one) for one in found for name in one.names)))


def _found(name: str) -> Architecture | None:
    return architectures().get(name) or hub_architecture(name) or timm_architecture(name)


def architecture_for(name: str) -> Architecture:
    """The architecture that builds `name`. RequestError names the known ones."""
    found = _found(name)
    if found is None:
        raise RequestError(unknown("architecture", name, architectures()))
    return found


def is_known(name: str) -> bool:
    """Whether `architecture_for` has an answer. RequestError for a model of a package that is not
    installed."""
    return _found(name) is not None
