"""A benchmark by name and path, read by its reader and checked: every fault at once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pandas as pd

import engine.data.benchmarks
from engine.core.discover import members
from engine.core.errors import Fault, RequestError, unknown
from engine.core.types import digest_of
from engine.data.benchmarks.base import Benchmark, BenchmarkReader, Item, row_faults
from engine.data.json_lines import few
from engine.data.sources import explained

WHERE = "benchmark"
FEWEST = 2
"""Items; one alone has no interval."""


@cache
def readers() -> Mapping[str, BenchmarkReader]:
    """Every reader there is, by the benchmark's name."""
    return {one.name: one for one in members(engine.data.benchmarks, BenchmarkReader)}


def load_benchmark(name: str, path: str | Path) -> Benchmark:
    """The benchmark at `path`. Raises RequestError with all that is wrong with the file."""
    if name not in readers():
        raise RequestError(unknown(WHERE, name, readers()))
    reader = readers()[name]
    with explained(str(path)):
        path = Path(path).expanduser()
        if not path.exists() and not reader.is_name(str(path)):
            what = f"{str(path)[:200]!r}: there is no such file or folder."
            raise RequestError(Fault(f"{WHERE} {name}", what, f"Name {reader.about}."))
        items, faults, notes = reader.read(path)
    faults = faults + row_faults(path.name, items, reader.roles)
    if not faults and len(items) < FEWEST:
        faults = [
            Fault(path.name, f"Only {len(items)} items can be used.", f"Name {reader.about}.")
        ]
    if faults:
        raise RequestError(few(faults, path.name))
    return _benchmark(reader, path, items, notes)


def load_benchmarks(asked: Mapping[str, str]) -> tuple[Benchmark, ...]:
    """All that are asked for, by name. Raises RequestError with the faults of all."""
    found, faults = [], list[Fault]()
    for name, path in sorted(asked.items()):
        try:
            found.append(load_benchmark(name, path))
        except RequestError as error:
            faults += error.faults
    if faults:
        raise RequestError(faults)
    return tuple(found)


def _benchmark(
    reader: BenchmarkReader, path: Path, items: list[Item], notes: list[str]
) -> Benchmark:
    rows = [
        {"item_id": one.item_id, "group": one.group, "cluster": one.cluster, **one.more}
        for one in items
    ]
    texts = [
        {"item_id": one.item_id, "role": role, "prefix": one.prefix, "text": one.texts[role]}
        for one in items
        for role in reader.roles
    ]
    digest = digest_of([rows, texts])
    return Benchmark(
        reader.name,
        path.name,
        pd.DataFrame(rows),
        pd.DataFrame(texts),
        digest,
        tuple(notes),
        str(path),
    )
