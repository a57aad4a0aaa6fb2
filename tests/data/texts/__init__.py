"""Labelled texts: from every source, split, grouped, sampled, and what is refused."""

from __future__ import annotations

from typing import Any

from engine.data.texts.load import TextAsk, TextSet, load_texts
from tests.builders import refused


def load(source: object, **ask: Any) -> TextSet:
    """Texts of a source."""
    return load_texts(str(source), TextAsk(**ask))


def faults_of(source: object, **ask: Any) -> list[str]:
    """The faults that loading a source is refused with."""
    return refused(load, source, **ask)
