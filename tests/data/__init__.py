"""Prompts, texts, images and benchmarks: what is read, split and sampled, and what is refused."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.core.errors import RequestError


def refused(load: Callable[..., Any], *given: Any, **more: Any) -> list[str]:
    """The faults that loading is refused with."""
    with pytest.raises(RequestError) as caught:
        load(*given, **more)
    return [str(fault) for fault in caught.value.faults]


def notes_of(found: Any) -> str:
    """What is told of a set that was loaded."""
    return " ".join(found.notes)


def sizes(found: Any) -> tuple[int, int, int]:
    """Rows to train, validate and test on."""
    counts = found.table["split"].value_counts()
    return tuple(int(counts.get(name, 0)) for name in ("train", "validation", "test"))
