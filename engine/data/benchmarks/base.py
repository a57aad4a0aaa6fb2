"""Benchmarks by name and path, read and checked: items, each with texts of which a model finds one
likelier than others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pandas as pd

from engine.core.discover import named
from engine.core.errors import Fault, chosen, each, refusal, refuse
from engine.core.types import Values, digest_of
from engine.data.sources import explained
from engine.data.tables import few

MAX_TEXT = 10_000
"""Characters of one text; a benchmark's longest is far below."""


MAX_NAME = 200
"""Characters of an item's id and of its group, which are columns and rows of charts; those of
published files have at most 29."""


@dataclass(frozen=True)
class Item:
    """One item as its reader found it in the row `row`.

    texts: by role (what a role is, the reader says). prefix: what stands before each of them and is
    not scored; "": the whole text is scored. cluster: items that share a template, and are no
    independent evidence. more: further columns.
    """

    row: str
    item_id: str
    group: str
    cluster: str
    texts: Mapping[str, str]
    prefix: str = ""
    more: Values = field(default_factory=dict)


Read = tuple[list[Item], list[Fault], list[str]]
"""Items, what is wrong with single rows, and notes."""


@dataclass(frozen=True)
class Benchmark:
    """A benchmark that was read and found sound.

    items: item_id, group, cluster and the reader's further columns. choices: item_id, role, prefix,
    text; one row per text, items in their order. digest: of both tables. notes: what must be said
    of the file.
    """

    name: str
    source: str
    items: pd.DataFrame
    choices: pd.DataFrame
    digest: str
    notes: tuple[str, ...] = ()
    path: str = ""
    """Where it was read, or what it was called; not part of what it is."""


class BenchmarkReader(ABC):
    """Reads one benchmark in its published form. Final subclasses live beside this and are found,
    not registered."""

    name: str
    about: str
    """The benchmark and its file in a few words, for faults and the form."""
    roles: tuple[str, ...]

    def is_name(self, place: str) -> bool:
        """Whether what was given is no path but a name that the reader knows what to do with."""
        return False

    @abstractmethod
    def read(self, path: Path) -> Read:
        """RequestError where the file cannot be read."""


def row_faults(name: str, items: Sequence[Item], roles: Sequence[str]) -> list[Fault]:
    """Texts that are empty or too long, ids and groups that are too long, groups that are empty.
    Texts of one item that are equal, and items that are there twice."""
    faults: list[Fault] = []
    seen: dict[str, str] = {}
    for item in items:
        where = f"{name}, {item.row}"
        for role in roles:
            text = item.texts.get(role, "")
            if not text.strip() or len(text) > MAX_TEXT:
                what = f"has {len(text):,} characters" if text.strip() else "is empty"
                fix = "Use the published file."
                faults.append(Fault(f"{where}, {role}", f"The text {what}.", fix))
        for what, name in (("id", item.item_id), ("group", item.group)):
            if len(name) > MAX_NAME:
                fix = f"At most {MAX_NAME}: use the published file."
                faults.append(Fault(where, f"The {what} has {len(name):,} characters.", fix))
        if not item.group.strip():
            faults.append(
                Fault(where, "It belongs to no group.", "Name its group, or leave it out.")
            )
        if len(set(item.texts.values())) < len(item.texts):
            faults.append(
                Fault(
                    where, "Two of its texts are equal.", "Nothing can be told from such an item."
                )
            )
        if (first := seen.setdefault(item.item_id, item.row)) != item.row:
            faults.append(Fault(where, f"The same id as {first}.", "Give every item once."))
    return faults


def text_at(value: Values, name: str, where: str, faults: list[Fault]) -> str:
    """A field that must be text; "" and a fault where it is not."""
    found = value.get(name)
    if isinstance(found, str):
        return found.strip()
    what = f"{name} is missing." if name not in value else f"{name} is no text."
    faults.append(Fault(where, what, "Use the published file."))
    return ""


WHERE = "benchmark"
FEWEST = 2
"""Items; one alone has no interval."""


@cache
def readers() -> Mapping[str, BenchmarkReader]:
    """Every reader there is, by the benchmark's name."""
    return named(__package__, BenchmarkReader)


def load_benchmark(name: str, path: str | Path) -> Benchmark:
    """The benchmark at `path`. Raises RequestError with all that is wrong with the file."""
    reader = chosen(WHERE, name, readers())
    with explained(str(path)):
        path = Path(path).expanduser()
        if not path.exists() and not reader.is_name(str(path)):
            what = f"{str(path)[:200]!r}: there is no such file or folder."
            raise refusal(f"{WHERE} {name}", what, f"Name {reader.about}.")
        items, faults, notes = reader.read(path)
    faults = faults + row_faults(path.name, items, reader.roles)
    if not faults and len(items) < FEWEST:
        faults = [
            Fault(path.name, f"Only {len(items)} items can be used.", f"Name {reader.about}.")
        ]
    refuse(few(faults, path.name))
    rows = [
        {"item_id": one.item_id, "group": one.group, "cluster": one.cluster, **one.more}
        for one in items
    ]
    texts = [
        {"item_id": one.item_id, "role": role, "prefix": one.prefix, "text": one.texts[role]}
        for one in items
        for role in reader.roles
    ]
    return Benchmark(
        reader.name,
        path.name,
        pd.DataFrame(rows),
        pd.DataFrame(texts),
        digest_of([rows, texts]),
        tuple(notes),
        str(path),
    )


def load_benchmarks(asked: Mapping[str, str]) -> tuple[Benchmark, ...]:
    """All that are asked for, by name. Raises RequestError with the faults of all."""
    return tuple(each(lambda one: load_benchmark(*one), sorted(asked.items())))
