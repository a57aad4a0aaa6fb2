"""What every source of labelled texts offers: a quick look for the form, and a listing that loading
starts from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

LENGTH = "length"
"""A group column every source has: short and long texts."""
METRICS = ("accuracy", "matthews")
COLUMNS = ("text_id", "text", "text_b", "label", "split")
"""Columns of every set of texts; no group can have one of these names."""


@dataclass(frozen=True)
class TextAsk:
    """What is wanted of a source; None and () mean its defaults.

    `text`, `text_b`, `target`: columns of the text, of the second text ("": none) and of the label;
    a CSV only. `groups`: group columns, single ones; intersections are made when groups are
    measured. `max_texts`: at most this many per split, drawn with `seed` in proportion to label x
    groups.
    """

    text: str | None = None
    text_b: str | None = None
    target: str | None = None
    groups: tuple[str, ...] = ()
    max_texts: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class TextInfo:
    """What a form must know of a source before anything is loaded.

    `columns`: those a person may choose text, second text and target from; () where they are fixed.
    `groups`: possible axes, single ones, the last is the class itself. `metric`: one of METRICS.
    `n`: texts, all splits. `note`: a sentence for the form, such as that the texts are made up.
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    targets: tuple[str, ...]
    groups: tuple[str, ...]
    default_target: str
    default_text: str
    default_groups: tuple[str, ...]
    metric: str
    n: int
    note: str = ""


@dataclass(frozen=True)
class Wanted:
    """An ask after it was checked against the info. `text_b` is "" where there is none; `groups`
    are single columns."""

    text: str
    text_b: str
    target: str
    groups: tuple[str, ...]


@dataclass(frozen=True)
class Listing:
    """Every text of a source, before splits and sampling are dealt with.

    `table`: text, text_b, label (name of the class), split ("" throughout where the source names
    none) and the wanted group columns but "length", all str, stripped. `classes`: names in order of
    their labels; () = those in the table.
    """

    name: str
    table: pd.DataFrame
    classes: tuple[str, ...] = ()
    metric: str = "accuracy"
    notes: tuple[str, ...] = ()
    stand_in: str = ""


class TextReader(ABC):
    """One source of labelled texts."""

    name: str
    """What it reads, as errors and forms name it."""
    general: bool = False
    """True for layouts that nearly anything could have: asked last."""

    @abstractmethod
    def recognises(self, source: str, path: Path) -> bool:
        """Whether this is its layout. Cheap; may raise OSError."""

    @abstractmethod
    def look(self, source: str, path: Path) -> TextInfo:
        """Quick. Raises RequestError where the layout is broken."""

    @abstractmethod
    def read(self, source: str, path: Path, wanted: Wanted) -> Listing:
        """All texts. Raises RequestError listing all faults."""
