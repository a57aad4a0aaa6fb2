"""How bias benchmarks are asked for: NAME=PATH, several times; read, checked, and told apart from
what a run has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.errors import Fault, unknown
from engine.core.files import in_full, is_special
from engine.core.types import Setting
from engine.data.benchmarks.load import WHERE, readers
from engine.tracks.language_models.benchmarks.base import scored_benchmarks

EXAMPLE = "crows_pairs=/data/crows_pairs_anonymized.csv"


BENCHMARK_PATHS = "Published benchmarks beside the texts, by path"


def benchmark_settings() -> tuple[Setting, ...]:
    """Every benchmark as a line of the form: its path."""
    titles = {name: one.title for name, one in scored_benchmarks().items()}
    return tuple(
        Setting(name, "text", "", f"Path of {reader.about}, as published.", label=titles[name])
        for name, reader in readers().items()
    )


def named_paths(where: str, words: Sequence[str], faults: list[Fault]) -> dict[str, str]:
    """["bbq=folder"] -> {"bbq": "/…/folder"}; paths in full, for a job's process may start
    elsewhere."""
    found: dict[str, str] = {}
    for item in words:
        name, equals, path = (part.strip() for part in item.partition("="))
        if not (name and equals and path):
            faults.append(
                Fault(where, f"{item[:200]!r} is no NAME=PATH.", f"Write for example {EXAMPLE}.")
            )
        elif name in found:
            faults.append(
                Fault(
                    where,
                    f"{name} is named twice.",
                    "Name a folder where a benchmark has several files.",
                )
            )
        else:
            found[name] = (
                path if name in readers() and readers()[name].is_name(path) else in_full(path)
            )
    return found


def benchmark_faults(asked: Mapping[str, Any]) -> list[Fault]:
    """Names that are not known, and values that are no paths; the files are read later."""
    faults = [unknown(WHERE, name, readers()) for name in asked if name not in readers()]
    for name, path in asked.items():
        if not isinstance(path, str) or not path:
            faults.append(Fault(f"{WHERE} {name}", f"{path!r} is not allowed.", "Give a path."))
        elif is_special(path):
            faults.append(
                Fault(
                    f"{WHERE} {name}",
                    f"{path[:200]!r} is neither a file nor a folder.",
                    "Name one.",
                )
            )
    return faults
