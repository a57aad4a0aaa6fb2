"""Labelled texts from a name or a path: read, split, grouped, sampled, checked, with a digest of
all of it."""

from __future__ import annotations

import contextlib
import hashlib
import json
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import engine.data.texts
from engine.core.errors import Fault, refusal, refuse, unknown
from engine.core.types import Corpus, digest_of
from engine.data.sources import (
    CLASS,
    MAX_GROUPS,
    SPLITS,
    Info,
    Reader,
    deal,
    explained,
    group_faults,
    joined,
    labels_of,
    most_faults,
    reader_of,
    sampled,
)
from engine.data.tables import column_of, decoded, in_order, regression_faults

HELD_OUT = {"test": 0.2}
"""Share of the texts that are tested on where nothing is split yet."""


@dataclass(frozen=True, eq=False)
class TextSet:
    """Labelled texts ready to be audited.

    `table`: one row per text: text_id (str, unique, the same in every order of the source's rows),
    text, text_b (the second text of a pair, else ""). label (int64, place in `classes`), split (one
    of SPLITS; validation may be absent), then one str column per name in `groups`. `metric`: the
    task's own, "accuracy" or "matthews". `digest`: SHA-256 over all that a number can depend on.
    `notes`: sentences a screen must show. `stand_in`: a sentence where the texts are made up.
    """

    name: str
    table: pd.DataFrame
    classes: tuple[str, ...]
    groups: tuple[str, ...]
    metric: str
    digest: str
    notes: tuple[str, ...] = ()
    stand_in: str = ""

    @property
    def pair(self) -> bool:
        """Whether there are second texts."""
        return bool((self.table["text_b"] != "").any())

    def rows(self, split: str) -> np.ndarray:
        """Positions of one split's texts, ascending, [n] int."""
        return np.flatnonzero((self.table["split"] == split).to_numpy())


def look_texts(source: str) -> TextInfo:
    """What a form must know of a source. Quick. Raises RequestError where nothing can read it."""
    with explained(source):
        return reader_of(source, engine.data.texts, TextReader, "texts").look()


def load_texts(source: str, ask: TextAsk | None = None) -> TextSet:
    """Read an embedded task, a GLUE folder, a GLUE task from the hub ("glue:rte"), or a CSV or TSV
    file.

    Where a source names no splits, a fifth of its texts is the test split, drawn with the seed.
    Texts that occur in train and in test are counted in the notes and stay. Raises RequestError
    with every fault found, among them a class without texts to train or to test on.
    """
    ask = ask or TextAsk()
    with explained(source):
        reader = reader_of(source, engine.data.texts, TextReader, "texts")
        info = reader.look()
        wanted = _checked(ask, info)
        return _Loading(reader.read(wanted), info, wanted, ask.max_texts).result()


def _checked(ask: TextAsk, info: TextInfo) -> Wanted:
    """The ask with defaults filled in. Raises RequestError with every fault."""
    where = f"data {info.name}, group column"
    text, text_b, target, faults = _columns(ask, info)
    own = (text, text_b, target)
    usual = (name for name in info.default_groups if name not in own)
    groups = tuple(dict.fromkeys(ask.groups or usual))
    for name in groups:
        column = name if name in info.groups else column_of(name, info.columns)
        if column not in (*info.groups, *info.columns):
            faults.append(unknown(where, name, info.groups))
        elif column in own or (column not in info.groups and column in COLUMNS):
            fix = f"Use {CLASS!r} for numbers of each class, or another column."
            faults.append(Fault(where, f"{name!r} is a column of the task itself.", fix))
    refuse([*faults, *most_faults("max_texts", ask.max_texts, "texts")])
    return Wanted(text, text_b, target, groups)


def _columns(ask: TextAsk, info: TextInfo) -> tuple[str, str, str, list[Fault]]:
    """Names of the columns of text, second text and target, and what is wrong with them."""
    where, faults = f"data {info.name}", []
    if not info.columns:
        usual = (info.default_text, "", info.default_target)
        named = (ask.text or usual[0], ask.text_b or "", ask.target or usual[2])
        if named != usual:
            fix = "Name columns (text, text_b, target) of CSV files only."
            faults.append(Fault(where, "Its columns are fixed.", fix))
        return *usual, faults
    text_b = ask.text_b if ask.text_b is not None else "text_b" if "text_b" in info.columns else ""
    named = (ask.text or "text", text_b, ask.target or "label")
    text, text_b, target = (column_of(name, info.columns) for name in named)
    for role, name, asked in (
        ("text", text, ask.text),
        ("target", target, ask.target),
        ("text_b", text_b, text_b),
    ):
        if name and name not in info.columns:
            also = "" if asked else f"Name the column to use as {role}."
            faults.append(unknown(f"{where}, column for {role}", name, info.columns, also))
    if len({text, text_b, target}) < 3:
        what = (
            f"Text ({text}), second text ({text_b or 'none'}) and target ({target}) are not"
            " different columns."
        )
        faults.append(Fault(where, what, "Name different ones."))
    return text, text_b, target, faults


@dataclass
class _Loading:
    """The steps that all sources share from a listing to a TextSet, collecting notes."""

    listing: Listing
    info: TextInfo
    wanted: Wanted
    max_texts: int | None

    def __post_init__(self) -> None:
        self.where = f"data {self.info.name}"
        self.notes = list(self.listing.notes)
        self.groups = tuple(group for group in self.wanted.groups if group != CLASS)
        self.table = self.listing.table.reset_index(drop=True)

    def result(self) -> TextSet:
        # What is read of each row (columns text, text_b), as 64 bits in hexadecimal:
        # the same for equal texts.
        pairs = zip(self.table["text"].tolist(), self.table["text_b"].tolist(), strict=True)
        self.table["text_id"] = [
            hashlib.blake2b(f"{len(one)}:{one}{two}".encode(), digest_size=8).hexdigest()
            for one, two in pairs
        ]
        self._split()
        classes = self.listing.classes or in_order(self.table["label"])
        faults = self._class_faults(classes)
        if LENGTH in self.groups:
            self.table[LENGTH] = self._lengths()
        faults += group_faults(self.where, self.table, self.groups, "texts", self.notes)
        refuse(faults)
        self.table["label"] = labels_of(self.table["label"], classes)
        self._note_repeats()
        table = self._ordered()
        groups = [table[group].astype(str) for group in self.groups]
        cells = joined([table["label"].astype(str), *groups], "\x1f")
        chosen = sampled(table, cells, self.max_texts, "text")
        table = table.iloc[chosen][[*COLUMNS, *self.groups]].reset_index(drop=True)
        listing = self.listing
        columns = {name: table[name].tolist() for name in table}
        digest = digest_of([list(classes), list(self.groups), listing.metric, columns])
        return TextSet(
            listing.name,
            table,
            classes,
            self.groups,
            listing.metric,
            digest,
            tuple(self.notes),
            listing.stand_in,
        )

    def _split(self) -> None:
        """Where nothing is split, a text that occurs twice stays on one side."""
        if (self.table["split"] != "").any():
            return
        ids = self.table[["text_id", "label"]].sort_values(["text_id", "label"])
        unique = ids.drop_duplicates("text_id", ignore_index=True)
        unique["target"] = unique["label"]
        split = deal(unique, HELD_OUT, "train", "text")
        dealt = dict(zip(unique["text_id"], split, strict=True))
        self.table["split"] = self.table["text_id"].map(dealt)
        self.notes.append(
            "No split is given: 80 % train and 20 % test, class by class, drawn with the seed."
        )

    def _class_faults(self, classes: tuple[str, ...]) -> list[Fault]:
        """Too few classes, too many, and classes without texts to train or test on."""
        where = f"{self.where}, {self.wanted.target}"
        if faults := regression_faults(where, classes):
            return faults
        if len(classes) < 2:
            what = f"There are fewer than two classes ({', '.join(classes) or 'none'})."
            return [Fault(where, what, "Give texts of at least two classes.")]
        if len(classes) > MAX_GROUPS:
            what = f"It has {len(classes)} values."
            return [Fault(where, what, f"At most {MAX_GROUPS} classes; name another column.")]
        faults = []
        for split in ("train", "test"):
            present = set(self.table["label"][self.table["split"] == split])
            if absent := [repr(name[:60]) for name in classes if name not in present]:
                named = ", ".join(absent[:5]) + (", …" if len(absent) > 5 else "")
                what = f"No {split} text has the class {named}."
                faults.append(Fault(where, what, "Give some, or leave the class out."))
        return faults

    def _lengths(self) -> np.ndarray:
        """Group of each text, "short" or "long", [rows] str, by the median number of words of all
        training texts."""
        pairs = zip(self.table["text"].tolist(), self.table["text_b"].tolist(), strict=True)
        words = np.array([len(one.split()) + len(two.split()) for one, two in pairs])
        train = words[(self.table["split"] == "train").to_numpy()]
        middle = float(np.median(train)) if len(train) else 0.0
        self.notes.append(
            f"long: more than {middle:g} words, the median of the training texts; short: at most"
            " that."
        )
        return np.where(words > middle, "long", "short").astype(object)

    def _note_repeats(self) -> None:
        """Texts to test on that were also trained on, or have several labels."""
        test = self.table[self.table["split"] == "test"]
        train = set(self.table["text_id"][self.table["split"] == "train"])
        if both := int(test["text_id"].isin(train).sum()):
            self.notes.append(
                f"{both} of {len(test)} test texts also occur in train: what is measured on them"
                " can be memory."
            )
        if torn := int((test.groupby("text_id")["label"].transform("nunique") > 1).sum()):
            self.notes.append(
                f"{torn} of {len(test)} test texts have several labels: no model is right on all of"
                " them."
            )

    def _ordered(self) -> pd.DataFrame:
        """The table with text_id, sorted by split and id, so that the order of the source's rows no
        longer shows."""
        # Equal contents are told apart by what else their rows say; rows equal in everything may
        # change places.
        table = self.table.sort_values(["text_id", "split", "label", *self.groups], kind="stable")
        again = table.groupby("text_id").cumcount()
        numbered = table["text_id"] + "-" + (again + 1).astype(str)
        table["text_id"] = table["text_id"].where(again == 0, numbered)
        table["_place"] = labels_of(table["split"], SPLITS)
        return table.sort_values(["_place", "text_id"], ignore_index=True)


LENGTH = "length"
"""A group column every source has: short and long texts."""
COLUMNS = ("text_id", "text", "text_b", "label", "split")
"""Columns of every set of texts; no group can have one of these names."""


@dataclass(frozen=True)
class TextAsk:
    """What is wanted of a source; None and () mean its defaults.

    `text`, `text_b`, `target`: columns of the text, of the second text ("": none) and of the label;
    a CSV only. `groups`: group columns, single ones; intersections are made when groups are
    measured. `max_texts`: at most this many per split, in proportion to label x
    groups.
    """

    text: str | None = None
    text_b: str | None = None
    target: str | None = None
    groups: tuple[str, ...] = ()
    max_texts: int | None = None


@dataclass(frozen=True)
class TextInfo(Info):
    """`columns`: those a person may choose text, second text and target from; () where they are
    fixed."""

    columns: tuple[str, ...] = ()
    default_text: str = "text"


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


class TextReader(Reader):
    """One source of labelled texts."""

    @abstractmethod
    def look(self) -> TextInfo:
        """Quick. Raises RequestError where the layout is broken."""

    @abstractmethod
    def read(self, wanted: Wanted) -> Listing:
        """All texts. Raises RequestError listing all faults."""


MIN_CHARACTERS = 200
"""A text for perplexity has at least so many."""


def load_corpus(path: str | Path) -> Corpus:
    """Read a text file; its digest is the SHA-256 of the file's bytes, of its text where lines end
    as on Windows.

    Raises RequestError when the file is missing, not UTF-8, empty, shorter than MIN_CHARACTERS, or
    JSON.
    """
    path = Path(path)
    where = f"text {path}"
    if not path.is_file():
        raise refusal(where, "There is no such file.", "Check the path; it must be a text file.")
    content = path.read_bytes()
    text = decoded(content, where)
    if "\0" in text:
        raise refusal(
            where, "It holds zero bytes: no text does.", "Give a text file, saved as UTF-8."
        )
    if not text.strip():
        raise refusal(where, "The file is empty.", f"Give at least {MIN_CHARACTERS} characters.")
    if len(text.strip()) < MIN_CHARACTERS:
        what = f"Only {len(text.strip())} characters: too short for a perplexity."
        raise refusal(where, what, f"Give at least {MIN_CHARACTERS} characters, better 100,000.")
    if _is_json(text):
        what = "It is JSON: its brackets and names of fields would be read as text."
        raise refusal(where, what, "Save the texts alone, as plain text.")
    if "\r" in text:  # no text that a model was trained on ends its lines so
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        content = text.encode("utf-8")
    return Corpus(path.name, text, hashlib.sha256(content).hexdigest())


def _is_json(text: str) -> bool:
    """Whether a text, or its first line, is an object or a list of JSON."""
    start = text.lstrip()[:1]
    for part in (text.strip().partition("\n")[0], text) if start in ("{", "[") else ():
        with contextlib.suppress(ValueError, RecursionError):
            return isinstance(json.loads(part), dict | list)
    return False
