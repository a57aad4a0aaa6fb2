"""Prompts, texts, images and benchmarks: what is read, split and sampled, and what is refused."""

from typing import Any


def notes_of(found: Any) -> str:
    """What is told of a set that was loaded."""
    return " ".join(found.notes)


def sizes(found: Any) -> tuple[int, int, int]:
    """Rows to train, validate and test on."""
    counts = found.table["split"].value_counts()
    return tuple(int(counts.get(name, 0)) for name in ("train", "validation", "test"))
