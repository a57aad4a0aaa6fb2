"""Images with labels and groups from a name or a path: read, split, sampled, checked, with a digest
of all of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

import engine.data.images
from engine.core.errors import Fault, refusal, refuse, unknown
from engine.core.types import Values, digest_of
from engine.data.images.pixels import Check, Pixels, Preparation, Shelf, listed
from engine.data.sources import (
    CLASS,
    SPLITS,
    Info,
    Reader,
    completed,
    explained,
    group_faults,
    joined,
    labels_of,
    most_faults,
    reader_of,
    sampled,
)
from engine.data.tables import column_of


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images ready to be audited.

    `table`: one row per image: image_id (str, unique), label (int64, place in `classes`), split
    (one of SPLITS), then one str column per name in `groups`. `digest`: SHA-256 over all that a
    number can depend on: pictures, labels, groups, splits, size, and how the model's processor
    prepares them. Pictures enter by the hash of their content, those of sets of 20,000 files and
    more by name and length. Drawn ones enter by the version of the drawing, the seed and the
    number. `notes`: sentences a screen must show. `read`: row positions [k] int -> [k, size, size,
    3] uint8, safe in threads, RequestError for a damaged file. `stand_in`: a sentence where the
    images are not real ones.
    """

    name: str
    table: pd.DataFrame
    classes: tuple[str, ...]
    groups: tuple[str, ...]
    size: int
    digest: str
    read: Callable[[np.ndarray], np.ndarray]
    notes: tuple[str, ...] = ()
    stand_in: str = ""

    def rows(self, split: str) -> np.ndarray:
        """Positions of one split's images, ascending, [n] int."""
        return np.flatnonzero((self.table["split"] == split).to_numpy())

    def changed(self, by: Values, note: str, **fields: Any) -> ImageSet:
        """The set with other fields.

        `by` (JSON-able) says what was done: it enters the digest, and its "change" the name.
        """
        name = f"{self.name}, {by['change']}"
        return replace(
            self,
            name=name,
            digest=digest_of([self.digest, by]),
            notes=(*self.notes, note),
            **fields,
        )

    def keeping(self, rows: np.ndarray, by: Values, note: str) -> ImageSet:
        """These rows (positions [n] int) only, in this order; `by` and `note` as in `changed`."""
        table = self.table.iloc[rows].reset_index(drop=True)
        return self.changed(by, note, table=table, read=lambda places: self.read(rows[places]))


def look_images(source: str) -> ImageInfo:
    """What a form must know of a source. Quick. Raises RequestError where nothing can read it."""
    with explained(source):
        return reader_of(source, engine.data.images, ImageReader, "images").look()


def load_images(source: str, ask: ImageAsk | None = None) -> ImageSet:
    """Read an embedded set ("avatars", "digits") or a folder or file in one of the known layouts.

    Missing and damaged files are left out and named in the notes; sets of fewer than 20,000 files
    are decoded here to find them, larger ones raise on reading. A picture that is also in
    validation or test does not train. Raises RequestError with every fault found in the ask, and
    for data without two classes or without images to train or test.
    """
    ask = ask or ImageAsk()
    with explained(source):
        reader = reader_of(source, engine.data.images, ImageReader, "images")
        info = reader.look()
        wanted = _checked(ask, info)
        listing = reader.read(wanted)
        listing = replace(listing, pixels=listing.pixels.prepared_by(ask.prepare))
        return _Loading(listing, info, wanted).result(ask.max_images)


def _checked(ask: ImageAsk, info: ImageInfo) -> Wanted:
    """The ask with defaults filled in. Raises RequestError with every fault."""
    target = column_of(ask.target, info.targets) if ask.target is not None else info.default_target
    usual = (name for name in info.default_groups if name != target)
    groups = tuple(dict.fromkeys(column_of(name, info.groups) for name in ask.groups or usual))
    size = ask.size if ask.size is not None else info.size
    where = f"data {info.name}"
    column = f"{where}, group column"
    faults = [unknown(column, name, info.groups) for name in groups if name not in info.groups]
    if target not in info.targets:
        faults.insert(0, unknown(f"{where}, target", target, info.targets))
    if target in groups:
        fix = f"Use {CLASS!r} for numbers of each class, or another column."
        faults.append(Fault(column, f"{target!r} is the target itself.", fix))
    if not info.least <= size <= info.most:
        what = f"{size} is not a side from {info.least} to {info.most} pixels."
        faults.append(Fault(f"{where}, size", what, f"Use {info.size}."))
    refuse([*faults, *most_faults("max_images", ask.max_images, "images")])
    return Wanted(target, groups, size)


@dataclass
class _Loading:
    """The steps that all sources share from a listing to an ImageSet, collecting notes."""

    listing: Listing
    info: ImageInfo
    wanted: Wanted

    def __post_init__(self) -> None:
        self.notes = list(self.listing.notes)
        self.table = self.listing.table
        self.where = f"data {self.info.name}"

    def result(self, max_images: int | None) -> ImageSet:
        rows, wanted = self._there(), self.wanted
        self.table = self.table.iloc[rows].reset_index(drop=True)
        classes = self.listing.classes or tuple(sorted(set(self.table["target"])))
        self.table["label"] = labels_of(self.table["target"], classes)
        self.table["split"], notes = completed(self.table)
        self.notes += notes
        if CLASS in wanted.groups:
            self.table[CLASS] = self.table["target"]
        refuse(group_faults(self.where, self.table, wanted.groups, "images", self.notes))
        groups = [self.table[group] for group in wanted.groups]
        cells = joined([self.table["label"].astype(str), *groups])
        chosen = sampled(self.table, cells, max_images)
        place = labels_of(self.table["split"], SPLITS)
        ordered = self.table.iloc[chosen].assign(split=place).sort_values(["split", "image_id"])
        order = ordered.index.to_numpy()
        shelf = Shelf(self.listing.pixels, rows[order], wanted.size)
        table = self.table.iloc[order].reset_index(drop=True)
        keep, check = self._whole(table, shelf)
        columns = ["image_id", "label", "split", *wanted.groups]
        table = table.iloc[keep][columns].reset_index(drop=True)
        self._enough(table, classes)
        prepare = self.listing.pixels.prepare
        decisive = [
            wanted.size,
            list(classes),
            list(wanted.groups),
            [check.identities[row] for row in keep],
            *(table[column].tolist() for column in table),
            *([] if prepare is None else [prepare.said]),
        ]
        return ImageSet(
            self.listing.name,
            table,
            classes,
            wanted.groups,
            wanted.size,
            digest_of(decisive),
            lambda places: shelf.read(keep[np.asarray(places, dtype=np.int64)]),
            tuple(self.notes),
            self.info.stand_in,
        )

    def _there(self) -> np.ndarray:
        """Positions in the listing of the images that exist, [n] int."""
        pixels = self.listing.pixels
        missing = pixels.missing()
        self._left_out("are missing or empty", missing, pixels.name_of)
        rows = np.setdiff1d(np.arange(len(self.table)), missing)
        if not len(rows):
            what, fix = "None of its images is there.", "Check the images' folder."
            raise refusal(self.where, what, fix)
        return rows

    def _whole(self, table: pd.DataFrame, shelf: Shelf) -> tuple[np.ndarray, Check]:
        """Places [n] int of the rows that can be decoded and do not train on a picture they are
        tested on.

        table: one row per image of the shelf, with image_id and split.
        """
        check, names = shelf.check(), table["image_id"]
        bad = np.array(list(check.damaged), dtype=np.int64)
        self._left_out(
            "cannot be decoded", bad, lambda row: f"{names[row][:80]} ({check.damaged[row]})"
        )
        self.notes += check.notes
        sound = np.setdiff1d(np.arange(len(table)), bad)
        if not check.hashed:
            return sound, check
        shown = pd.Series(check.identities)[sound]
        train = (table["split"] == "train")[sound]
        leaks = sound[train & shown.isin(shown[~train])]
        what = "show a picture that is also in validation or test (training images)"
        self._left_out(what, leaks, lambda row: names[row])
        return np.setdiff1d(sound, leaks), check

    def _enough(self, table: pd.DataFrame, classes: tuple[str, ...]) -> None:
        """RequestError for data without classes to learn or test; notes classes that a split does
        not show.

        table: one row per image, with label and split.
        """
        faults = []
        if len(classes) < 2:
            what = f"There are fewer than two classes ({', '.join(classes) or 'none'})."
            where = f"{self.where}, {self.wanted.target}"
            faults.append(Fault(where, what, "Give images of at least two classes."))
        for split in SPLITS:
            present = set(table["label"][table["split"] == split])
            absent = [name for place, name in enumerate(classes) if place not in present]
            if not present and split != "validation":
                left_out = [note for note in self.notes if "left out" in note]
                what = " ".join([f"No {split} images are left.", *left_out])
                faults.append(Fault(self.where, what, "Check the images and their splits."))
            elif absent and split == "train":
                what = f"No training image shows {listed([repr(name) for name in absent])}."
                faults.append(Fault(self.where, what, "Give some, or leave the class out."))
            elif absent:
                self.notes.append(f"No {split} image shows {listed(absent)}.")
        refuse(faults)

    def _left_out(self, what: str, rows: np.ndarray, name_of: Callable[[int], str]) -> None:
        """Note that some images were left out and why; rows: their positions, [n] int."""
        names = listed([name_of(int(row)) for row in rows[:4]])
        if len(rows) == 1:
            what = what.replace("are ", "is ", 1).replace("show ", "shows ", 1)
            self.notes.append(f"1 image {what} and was left out: {names}.")
        elif len(rows):
            self.notes.append(f"{len(rows)} images {what} and were left out: {names}.")


@dataclass(frozen=True)
class ImageAsk:
    """What is wanted of a source; None and () mean its defaults.

    `target`: column to predict. `groups`: group columns, single ones; intersections are made when
    groups are measured. `size`: side in pixels. `max_images`: at most this many per split, in
    proportion to label x groups. `prepare`: how the model's own processor makes pictures of
    `size`; None: the middle square, bilinear.
    """

    target: str | None = None
    groups: tuple[str, ...] = ()
    size: int | None = None
    max_images: int | None = None
    prepare: Preparation | None = None


@dataclass(frozen=True)
class ImageInfo(Info):
    """`size`: the default side in pixels; images may have any from `least` to `most`."""

    size: int = 32
    least: int = 8
    most: int = 512


@dataclass(frozen=True)
class Wanted:
    """An ask after it was checked against the info: nothing is None."""

    target: str
    groups: tuple[str, ...]
    size: int


@dataclass(frozen=True)
class Listing:
    """Every image of a source, before missing ones, splits and sampling are dealt with.

    `table` (row i is image i of `pixels`): image_id (str, unique), target (str, the class), split
    ("" where the source names none), and the wanted columns (str). A column `unit` (str), where
    there is one, names what must stay on one side of a split, such as a person. `classes`: names in
    order of their labels; () = those in the table, sorted.
    """

    name: str
    table: pd.DataFrame
    pixels: Pixels
    classes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class ImageReader(Reader):
    """One source of images."""

    @abstractmethod
    def look(self) -> ImageInfo:
        """Reads headers and short files only. Raises RequestError where the layout is broken."""

    @abstractmethod
    def read(self, wanted: Wanted) -> Listing:
        """Everything but the pixels. Raises RequestError listing all faults."""
