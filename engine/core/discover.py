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


def members(package: ModuleType, base: Callable[..., T]) -> list[T]:
    """One of each kind: a module's `ROWS`, and an instance of each of its concrete classes that no
    row is of."""
    found: list[T] = []
    for module in modules(package):
        rows = getattr(module, "ROWS", ())
        kinds = {type(row) for row in rows}
        found += [*rows, *(kind() for kind in _classes_of(module, base) if kind not in kinds)]
    return found


def _classes_of(module: ModuleType, base: Callable[..., T]) -> list[type[T]]:
    found: list[Any] = [kind for _, kind in sorted(inspect.getmembers(module, inspect.isclass))]
    return [
        kind
        for kind in found
        if base in kind.__mro__[1:]
        and not inspect.isabstract(kind)
        and kind.__module__ == module.__name__
    ]
