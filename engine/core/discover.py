"""Finding what a package holds, so that adding a method, a format or an adapter is adding one file.

A file holds a class, or, where things differ by a few values only, a tuple `ROWS` of instances. A
base may be abstract: to a type checker that is a callable, not a `type[T]`, which would have to be
made.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")


def modules(package: ModuleType) -> Iterator[ModuleType]:
    """Every module of `package`, imported, by name; `_module` is passed over."""
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        if not info.name.startswith("_"):
            yield importlib.import_module(f"{package.__name__}.{info.name}")


def named(package: str, base: Callable[..., T]) -> dict[str, T]:
    """The members of a package, which is imported, by the `name` that each has."""
    found: list[Any] = members(importlib.import_module(package), base)
    return {one.name: one for one in found}


def members(package: ModuleType, base: Callable[..., T]) -> list[T]:
    """One of each kind: a module's `ROWS`, and an instance of each of its concrete classes, beside
    rows only of those that take no arguments."""
    found = []
    for module in modules(package):
        rows, kinds = getattr(module, "ROWS", None), _classes_of(module, base)
        if rows is not None:
            kinds = [one for one in kinds if not (one in map(type, rows) or _needed_by(one))]
        found += [*(rows or ()), *(kind() for kind in kinds)]
    return found


def _needed_by(kind: Callable[..., Any]) -> bool:
    """Whether a class takes arguments that it has no values for."""
    wanted = inspect.signature(kind).parameters.values()
    return any(
        one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        for one in wanted
    )


def _classes_of(module: ModuleType, base: Callable[..., T]) -> list[type[T]]:
    found: list[Any] = [kind for _, kind in sorted(inspect.getmembers(module, inspect.isclass))]
    return [
        kind
        for kind in found
        if base in kind.__mro__[1:]
        and not inspect.isabstract(kind)
        and kind.__module__ == module.__name__
    ]
