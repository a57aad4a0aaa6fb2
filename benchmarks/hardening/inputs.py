"""Bad inputs, one row of bad_inputs.csv each: exit code 2, a clear sentence per fault, nothing
written. {good} and {bad} stand for folders of sound and broken files, {out} for an empty place."""

from __future__ import annotations

import argparse
import csv
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from benchmarks.hardening._audits import forked, loaded, right, side_by_side
from benchmarks.hardening._bad_files import make_all
from benchmarks.report import Measure
from engine.cli import parser

TABLE = Path(__file__).with_name("bad_inputs.csv")
LONGEST = 60.0
"""Seconds after which a command that should have been refused is ended."""
LONG_SENTENCE = 1200
"""Characters: more is no sentence that anybody reads."""
_NO_WORDS = re.compile(r"\n|[^./ ]\.\.( |$)|<class ")
"""Of a sentence for a library's developer, or put together of two."""


@dataclass(frozen=True)
class Row:
    """A command that has to be refused, and where the files lie that it names."""

    number: str
    words: tuple[str, ...]
    files: Path


def measures() -> list[Measure]:
    """How many rows are refused as they should be; the table is the same however often it is
    tried."""
    loaded()
    folder = Path(mkdtemp(prefix="hardening-inputs-"))
    make_all(folder)
    found = side_by_side(_one, list(rows(folder)))
    name = "bad inputs refused: exit code 2, one clear sentence per fault, nothing written"
    return [right("inputs", name, found)]


def rows(folder: Path) -> Iterator[Row]:
    """The table, its files below `folder`."""
    with TABLE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield Row(row["number"], tuple(shlex.split(row["words"])), folder)


def _one(row: Row) -> str:
    """What is wrong with how a row was refused; "" where nothing is."""
    own = Path(mkdtemp(prefix="row-", dir=row.files))
    places = {"{good}": row.files / "good", "{bad}": row.files / "bad", "{out}": own / "out"}
    words = [_placed(word, places) for word in row.words]
    if words and "--store" not in words:
        words += ["--store", str(own / "store")] if _takes_store(words) else []
    before = _tree(row.files)
    done = forked([*words, "--json"], own / "log", after=LONGEST)
    new = _tree(row.files) ^ before | _tree(own) - {"log.out", "log.err"}
    wrong = _told(done.code, done.out, done.said) + (
        [f"written: {', '.join(sorted(new)[:3])}"] if new else []
    )
    return f"{row.number} ({shlex.join(row.words)[-160:]}): {'; '.join(wrong)}" if wrong else ""


def _takes_store(words: list[str]) -> bool:
    """Whether a command has --store; one that is unknown is refused before it is asked."""
    command = commands().get(words[0])
    return command is not None and "--store" in command._option_string_actions


def commands() -> dict[str, argparse.ArgumentParser]:
    """The parser of every command, by its name."""
    return next(
        dict(one.choices)
        for one in parser()._actions
        if isinstance(one, argparse._SubParsersAction)
    )


def _placed(word: str, places: dict[str, Path]) -> str:
    for name, path in places.items():
        word = word.replace(name, str(path))
    return word


def _tree(folder: Path) -> set[str]:
    """Paths below a folder, but for those of the rows, of which there come to be thousands."""
    tops = [path for path in folder.iterdir() if not path.name.startswith("row-")]
    inside = [
        found
        for path in tops
        if path.is_dir() and not path.is_symlink()
        for found in path.rglob("*")
    ]
    return {f"{path.relative_to(folder)}" for path in (*tops, *inside)}


def _told(code: int, out: str, said: str) -> list[str]:
    """What is wrong with the code and the sentences."""
    wrong = [] if code == 2 else [f"exit code {code}"]
    wrong += ["a traceback"] if "Traceback" in said else []
    try:
        found = json.loads(out)
        sentences = [f"{fault['what']} {fault['fix']}".strip() for fault in found["faults"]] or [
            found["error"]
        ]
    except (ValueError, KeyError, TypeError):
        return [*wrong, f"no faults as JSON: {said[-200:]!r}"]
    places = [(fault["where"], fault["what"]) for fault in found["faults"]]
    wrong += ["a fault said twice"] if len(set(places)) < len(places) else []
    return wrong + [f"no sentence: {one[:200]!r}" for one in sentences if not _is_sentence(one)]


def _is_sentence(text: str) -> bool:
    return (
        10 <= len(text) <= LONG_SENTENCE
        and text.endswith((".", "?", "!", ".)"))
        and not _NO_WORDS.search(text)
    )
