"""What sources of images, texts and prompts share: which reader knows a layout, what the file
system refuses, groups, splits, and samples that keep the shares of all."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import numpy as np
import pandas as pd

from engine.core.discover import members
from engine.core.errors import Fault, refusal, refused_by_system
from engine.core.types import key_of


class Reader(ABC):
    """Reads a source, a name or a path, of one layout. Final subclasses live beside the loader that
    asks them, and are found, not registered."""

    name: str
    """What it reads, as errors and forms name it."""
    general: bool = False
    """True for layouts that nearly anything could have: asked last."""

    def __init__(self, source: str = "") -> None:
        self.source, self.path = source.strip(), Path(source).expanduser()

    @abstractmethod
    def recognises(self) -> bool:
        """Whether the source has this layout. Cheap; may raise OSError."""


CLASS = "class"
"""A group every source has: the class itself, for one-vs-rest numbers of each class."""


@dataclass(frozen=True)
class Info:
    """What a form must know of a source of images or texts before anything is loaded.

    `groups`: possible axes, single ones, the last is the class itself. `targets`: columns that may
    be predicted. `note`: a sentence for the form. `stand_in`: a sentence where the source is made
    up.
    """

    name: str
    groups: tuple[str, ...] = (CLASS,)
    default_groups: tuple[str, ...] = (CLASS,)
    targets: tuple[str, ...] = ("label",)
    default_target: str = "label"
    note: str = ""
    stand_in: str = ""


Found = TypeVar("Found", bound=Reader)


def readers_in(package: ModuleType, kind: Callable[..., Found]) -> list[Found]:
    """One of each reader of a kind, those of general layouts last."""
    return sorted(members(package, kind), key=lambda reader: reader.general)


def reader_of(
    source: str, package: ModuleType, kind: Callable[..., Found], things: str, where: str = "data"
) -> Found:
    """A reader of the source, the first that knows it. RequestError names what all of them
    read."""
    readers = readers_in(package, kind)
    known = f"Known: {'; '.join(reader.name for reader in readers)}."
    if not source.strip():
        raise refusal(where, f"No {where} is named.", known)
    for reader in readers:
        found = type(reader)(source)
        if found.recognises():
            return found
    what = (
        f"The layout of the {things} is not known."
        if Path(source).expanduser().exists()
        else "There is no such file or folder."
    )
    raise refusal(f"{where} {source[:200]}", what, known)


@contextlib.contextmanager
def explained(source: str) -> Iterator[None]:
    """Within it, what the file system refuses becomes a RequestError."""
    try:
        yield
    except (
        OSError,
        RuntimeError,
    ) as error:  # RuntimeError: a home folder that cannot be found, a loop of links
        what = f"It cannot be read ({refused_by_system(error)})."
        raise refusal(
            f"data {source[:200]}", what, "Check the path and its permissions."
        ) from error
    except ValueError as error:
        if "null" not in str(error):
            raise
        raise refusal(
            "data", "The path holds a character no path can hold.", "Check the path."
        ) from error


MAX_GROUPS = 64
"""More groups than this are no axis: hardly a text or image is left for each."""
NOT_STATED = "not stated"
"""Group of an image or text whose cell is empty."""


def most_faults(name: str, most: int | None, things: str) -> list[Fault]:
    """A fault where `most`, if it is given, is no number of things."""
    if most is None or most >= 1:
        return []
    return [Fault(name, f"{most} is not a number of {things}.", "Give 1 or more.")]


def usable(values: Mapping[str, int]) -> list[str]:
    """The columns that can be groups or targets, of how many different values each column holds."""
    return [name for name, n in values.items() if 2 <= n <= MAX_GROUPS]


def left_out(values: Mapping[str, int]) -> str:
    """One sentence on the columns that hold too many different values; "" where none does."""
    many = [f"{name} ({n:,})" for name, n in values.items() if n > MAX_GROUPS]
    said = f"Not offered, for more than {MAX_GROUPS} different values: {', '.join(many)}."
    return said if many else ""


def group_faults(
    where: str, table: pd.DataFrame, groups: Sequence[str], nouns: str, notes: list[str]
) -> list[Fault]:
    """Groups of too many values. Empty cells of groups get a name, in place, and that is said; so
    are groups of a single value."""
    faults = []
    for group in groups:
        blank = table[group] == ""
        if blank.any():
            said = f"{blank.sum()} {nouns} have no {group}; their group is called"
            notes.append(f"{said} “{NOT_STATED}”.")
            table[group] = table[group].where(~blank, NOT_STATED)
        values = table[group].unique()
        if len(values) > MAX_GROUPS and group != CLASS:
            fix = f"At most {MAX_GROUPS} groups; merge some."
            what = f"It has {len(values)} values."
            faults.append(Fault(f"{where}, group column {group}", what, fix))
        if len(values) == 1:
            notes.append(
                f"The column {group} has one value only ({values[0]}): there is no gap to see."
            )
    return faults


def labels_of(target: pd.Series, classes: Sequence[str]) -> pd.Series:
    """The place of each row's class in `classes`, [rows] int64."""
    return target.map({name: place for place, name in enumerate(classes)}).astype("int64")


def joined(columns: Sequence[pd.Series], sep: str = ", ") -> pd.Series:
    """Text columns [rows] as one, row by row."""
    return columns[0].str.cat(columns[1:], sep=sep) if len(columns) > 1 else columns[0]


SEED = 0
"""Of every draw from data: the same split and sample in every audit."""
SPLITS = ("train", "validation", "test")
ALL_THREE = {"test": 0.2, "validation": 0.1}
"""Shares where nothing is split yet; the rest trains."""
HELD_OUT = {"validation": 0.1}
"""Share of the training images where only validation is absent."""
WORDS = {"train": "train", "training": "train", "test": "test", "testing": "test"}
WORDS |= dict.fromkeys(("validation", "valid", "val", "dev"), "validation")
"""How files name the splits."""


def deal(
    table: pd.DataFrame, shares: Mapping[str, float], rest: str, noun: str = "image"
) -> np.ndarray:
    """A split name per row, [rows] str: the named shares, everything else `rest`. Seeded, in any
    order of rows.

    table: column NOUN_id names a row, where `noun` is what a row is. Every class (column target) is
    dealt out alone and gets at least one row in each split while there are enough. Where the column
    `unit` repeats (a person with several pictures), units stay whole and classes are not looked at.
    """
    units = table["unit"] if "unit" in table else table[f"{noun}_id"]
    keys = np.array([key_of(f"{noun}-split", SEED, unit) for unit in units], dtype=np.int64)
    strata = table["target"].to_numpy() if units.is_unique else np.full(len(table), "")
    out = np.full(len(table), rest, dtype=object)
    for stratum in sorted(set(strata)):
        rows = np.flatnonzero(strata == stratum)
        rows = rows[np.argsort(keys[rows], kind="stable")]
        _, first, unit = np.unique(keys[rows], return_index=True, return_inverse=True)
        start, edge = first[unit], 0
        for name, share in shares.items():
            least = int(len(rows) - edge > 1)
            after = edge + max(least, round(share * len(rows)))
            out[rows[(start >= edge) & (start < after)]] = name
            edge = after
    return out


def completed(table: pd.DataFrame) -> tuple[np.ndarray, tuple[str, ...]]:
    """The split of every row, [rows] str, and notes: as the column split has it, or dealt out where
    it names none.

    Where only validation is absent, it is dealt out of the training rows. Further columns as for
    `deal`.
    """
    split = table["split"].to_numpy(dtype=object)
    if (split == "").all():
        note = "No split is given: 70 % train, 10 % validation, 20 % test, drawn with the seed."
        return deal(table, ALL_THREE, "train"), (note,)
    if "validation" not in split:
        split = split.copy()
        train = np.flatnonzero(split == "train")
        split[train] = deal(table.iloc[train].reset_index(drop=True), HELD_OUT, "train")
        return split, (
            (
                "No validation split is given: 10 % of the training images, drawn with the seed,"
                " stand in."
            ),
        )
    return split, ()


def sampled(
    table: pd.DataFrame, cells: pd.Series, most: int | None, noun: str = "image"
) -> np.ndarray:
    """Positions [n] int of at most `most` rows per split, ascending.

    table: columns split, label and NOUN_id; cells: label x groups of every row, as one text,
    [rows]. Cells keep their shares, and at least one row each where `most` allows it; otherwise
    labels keep theirs. Raises RequestError where `most` is below the number of classes of a split.
    """
    if most is None:
        return np.arange(len(table))
    keys = np.array(
        [key_of(f"{noun}-sample", SEED, name) for name in table[f"{noun}_id"]], dtype=np.int64
    )
    keep = []
    for split, rows in table.groupby("split", sort=True).indices.items():
        labels = table["label"].iloc[rows].astype(str)
        if most < labels.nunique():
            what = f"{most} {noun}s cannot show {labels.nunique()} classes ({split} {noun}s)."
            raise refusal(f"max_{noun}s", what, f"Give at least {labels.nunique()}.")
        own = cells.iloc[rows] if cells.iloc[rows].nunique() <= most else labels
        names, cell = np.unique(own.to_numpy(dtype=str), return_inverse=True)
        take = allotted(np.bincount(cell, minlength=len(names)), most)
        for number, wanted in enumerate(take):
            inside = rows[cell == number]
            keep.append(inside[np.argsort(keys[inside], kind="stable")[:wanted]])
    return np.sort(np.concatenate(keep))


def allotted(counts: np.ndarray, total: int) -> np.ndarray:
    """How many to take of each cell, [cells] int, of counts [cells] int.

    In proportion, at least one, `total` in all (needs total >= cells).
    """
    if total >= counts.sum():
        return counts.copy()
    exact = counts * (total / counts.sum())
    take = np.maximum(1, np.floor(exact)).astype(np.int64)
    while take.sum() > total:
        take[np.argmax(np.where(take > 1, take - exact, -np.inf))] -= 1
    while take.sum() < total:
        take[np.argmax(np.where(take < counts, exact - take, -np.inf))] += 1
    return take
