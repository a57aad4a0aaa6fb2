"""What made-up runs and worlds of all tracks share."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from engine.cli import main
from engine.core.errors import Fault, RequestError
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


def call(capsys: Any, *words: object) -> tuple[int, Any]:
    """The exit code of a command and what it prints, read where that is JSON."""
    code = main([str(word) for word in words])
    out = capsys.readouterr().out
    return code, json.loads(out) if out.strip().startswith(("{", "[")) else out


def instead(words: Sequence[object], *others: object) -> list[object]:
    """Words of a command line with `others` at their end; an option among these, with its values,
    goes before."""
    given, kept, skips = {str(word) for word in others if str(word).startswith("--")}, [], False
    for word in words:
        skips = str(word) in given if str(word).startswith("--") else skips
        kept += [] if skips else [word]
    return [*kept, *others]


def faults_of(call: Callable[..., Any], *given: Any, **more: Any) -> tuple[Fault, ...]:
    """What a call is refused with."""
    with pytest.raises(RequestError) as caught:
        call(*given, **more)
    return tuple(caught.value.faults)


def refused(call: Callable[..., Any], *given: Any, **more: Any) -> list[str]:
    """The same in words."""
    return [str(fault) for fault in faults_of(call, *given, **more)]


@contextmanager
def exchanged(model: str, word: str, other: str) -> Iterator[None]:
    """Within it two words of a model's tokenizer have changed places."""
    path = Path(model) / "tokenizer.json"
    sound = path.read_text(encoding="utf-8")
    found = json.loads(sound)
    words = found["model"]["vocab"]
    words[word], words[other] = words[other], words[word]
    try:
        path.write_text(json.dumps(found), encoding="utf-8")
        yield
    finally:
        path.write_text(sound, encoding="utf-8")


def seal(folder: Path, meta: Mapping[str, Any]) -> None:
    """A run.json as somebody writes it who also adjusts the hash."""
    write_document(folder / RUN, meta, SCHEMA)


def options_of(
    given: dict[str, Any], told: dict[str, Any], **usual: Any
) -> tuple[dict[str, Any], tuple[tuple[str, Any], ...]]:
    """All options, the given ones in place of the usual; and those that numbers rest on, which are
    all but the ones that are only told. TypeError for one that does not exist."""
    every = usual | told
    if unknown := set(given) - set(every):
        raise TypeError(f"unknown options {sorted(unknown)}")
    every |= given
    return every, tuple(item for item in every.items() if item[0] not in told)


def parts_of(run: Run) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """What run.json says but for its tables, and the tables."""
    meta = {name: value for name, value in run.meta.items() if name != "tables"}
    return meta, {name: run.table(name) for name in run.meta["tables"]}


def changed(run: Run, folder: Path, table: str, edit: Edit | dict | None, **meta: Any) -> Run:
    """The run with one table edited (a dict: with these columns), or left out where `edit` is None,
    and with these values in its run.json."""
    kept, tables = parts_of(run)
    if edit is None:
        del tables[table]
    elif isinstance(edit, dict):
        tables[table] = tables[table].assign(**edit)
    else:
        tables[table] = edit(tables[table].copy())
    return Store(folder).write("changed", {**kept, **meta}, tables, run.rests_on)


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


def evaluated(capsys, *words: str) -> tuple[int, dict]:
    """Exit code and answer of `engine evaluate`."""
    return call(capsys, "evaluate", *words, "--device", "cpu", "--json")


def accuracy(found: dict) -> float:
    """Of all items, in what `evaluated` answers."""
    return next(
        row["value"] for row in found["results"] if row["metric"] == "accuracy" and not row["axis"]
    )
