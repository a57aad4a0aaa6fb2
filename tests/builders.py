"""What made-up runs and worlds of all tracks share."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.files import write_whole
from engine.store.runs import RUN, SCHEMA, Run, Store
from engine.store.sealed import write_document
from tests.places import ROOT

SHARED = "PRUNEAUDIT_TESTS_SHARED"
Edit = Callable[[pd.DataFrame], pd.DataFrame]


def hash_of(*parts: object) -> str:
    """A hash of a thing that is not there, by its name."""
    return hashlib.sha256("\x1f".join(map(str, parts)).encode()).hexdigest()


def shared(compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """As functools.cache, of one argument, for all processes of a run of tests: what one of them
    computed the others read from the folder SHARED, if there is one."""

    @cache
    def found(given: Any) -> Any:
        name = f"{hash_of(compute.__module__, given)}.pickle"
        place = Path(os.environ[SHARED]) / name if SHARED in os.environ else None
        if place and place.exists():
            return pickle.loads(place.read_bytes())
        made = compute(given)
        if place:
            write_whole(place, lambda path: path.write_bytes(pickle.dumps(made)))
        return made

    return found


def instead(words: Sequence[object], *others: object) -> list[object]:
    """Words of a command line with `others` at their end; an option among these, with its values,
    goes before."""
    given, kept, skips = {str(word) for word in others if str(word).startswith("--")}, [], False
    for word in words:
        skips = str(word) in given if str(word).startswith("--") else skips
        kept += [] if skips else [word]
    return [*kept, *others]


def seal(folder: Path, meta: Mapping[str, Any]) -> None:
    """A run.json as somebody writes it who also adjusts the hash."""
    write_document(folder / RUN, meta, SCHEMA)


def options_of(given: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """The usual options with the given ones in their place; TypeError for one that does not
    exist."""
    if unknown := set(given) - set(usual):
        raise TypeError(f"unknown options {sorted(unknown)}")
    return {**usual, **given}


def changed(run: Run, folder: Path, table: str, edit: Edit | None, **meta: Any) -> Run:
    """The run with one table edited, or left out where `edit` is None, and with these values in its
    run.json."""
    tables = {name: run.table(name) for name in run.meta["tables"]}
    if edit is None:
        del tables[table]
    else:
        tables[table] = edit(tables[table].copy())
    kept = {name: value for name, value in run.meta.items() if name != "tables"}
    return Store(folder).write("changed", {**kept, **meta}, tables)


def assert_torch_stays_out(*statements: str) -> None:
    """These run in a process of their own, and load neither torch nor what rests on it."""
    heavy = "torch", "torchvision", "torch_pruning", "transformers"
    lines = [
        "import sys",
        *statements,
        f"bad = set({heavy}) & set(sys.modules)",
        "sys.exit(str(bad) if bad else 0)",
    ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


class Tags(HTMLParser):
    """Collects tags and attributes of what a browser would build."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict]] = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
