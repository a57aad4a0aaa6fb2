"""Finding the classes of a package, so that adding a method, a format or an adapter is adding one file."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def concrete_classes(package: ModuleType, base: type[T]) -> list[type[T]]:
    """Every non-abstract subclass of `base` defined in a module of `package`, ordered by the module's name.

    Modules whose name starts with an underscore are passed over.
    """
    found: list[type[T]] = []
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        if info.name.startswith("_"):
            continue
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        for _, member in sorted(inspect.getmembers(module, inspect.isclass)):
            if issubclass(member, base) and not inspect.isabstract(member) and member.__module__ == module.__name__:
                found.append(member)
    return found
