"""Which file of the project imports which, read from the text: imports inside functions count,
nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

from tests.places import ROOT

FOLDERS = ("engine", "pages")


@cache
def modules(root: Path = ROOT, folders: tuple[str, ...] = FOLDERS) -> Mapping[str, Path]:
    """Every module of these folders by dotted name, and app.py."""
    files = [
        root / "app.py",
        *(path for name in folders for path in sorted((root / name).rglob("*.py"))),
    ]
    return {module_name(path.relative_to(root)): path for path in files}


def module_name(path: Path) -> str:
    """ "engine/data/__init__.py" -> "engine.data"."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


@cache
def imports_of(name: str, root: Path = ROOT) -> frozenset[str]:
    """Modules that a module imports, ours by their full name ("from engine.data import load" is
    engine.data.load)."""
    if name not in modules(root):
        return frozenset()
    return frozenset(imported(modules(root)[name], modules(root)))


def imported(path: Path, known: Iterable[str]) -> set[str]:
    """Dotted names that a file imports, wherever in it; a name of a module, not of a thing in it,
    where `known`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in known else str(node.module) for name in inner}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


@cache
def _users() -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {name: set() for name in modules()}
    for name in modules():
        for used in imports_of(name):
            found.get(used, set()).add(name)
    return {name: frozenset(users) for name, users in found.items()}


def used_by(name: str) -> frozenset[str]:
    """Modules that import this one."""
    return _users().get(name, frozenset())


def reached(start: str, following: Callable[[str], Iterable[str]]) -> set[str]:
    """Everything that follows from `start`, step by step; `start` itself where a way leads back to
    it."""
    found: set[str] = set()
    waiting = list(following(start))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += following(name)
    return found
