"""Which images belong to which group of which axis, who may be compared, and how images are redrawn
and exchanged.

Images are redrawn within each group of an axis, so that group sizes stay as they are. The same
draws serve every metric of the axis, the dense model and all variants. Draws depend on the images
and their groups, not on their order.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pandas as pd

from engine.core.errors import Fault, RequestError, refusal, unknown
from engine.core.types import digest_of, rng
from engine.data.images.load import ImageSet
from engine.data.texts.load import TextSet

CLASS = "class"
"""The axis whose groups are the classes themselves, alone or as part of an intersection
("class+artefact")."""
MIN_IMAGES = 10
"""Images below which a group gets no verdict."""
MIN_PER_CLASS = 5
"""Positives, or negatives, below which a group gets no verdict (two classes, and one class against
the rest)."""
ONE_CLASS = "one class only"
DRAWS = 1_000_000
"""Images drawn at once."""


@dataclass(frozen=True)
class Items:
    """What a classifier is asked about: the column that identifies one, and what it is called."""

    key: str
    one: str
    many: str

    @property
    def too_few(self) -> str:
        """The verdict on a group with fewer than may be judged."""
        return f"too few {self.many}"


IMAGES = Items("image_id", "image", "images")
TEXTS = Items("text_id", "text", "texts")


def split_faults(table: pd.DataFrame, splits: Sequence[str], items: Items) -> list[Fault]:
    """Splits whose items are of fewer than two classes; table: columns split and label."""
    faults = []
    for split in splits:
        labels = table.loc[table["split"] == split, "label"]
        if labels.nunique() < 2:
            what = (
                f"the {split} split has {len(labels)} {items.many} of {labels.nunique()} classes."
            )
            fix = f"Both splits need {items.many} of at least two classes."
            faults.append(Fault("data", what, fix))
    return faults


def columns_of(axes: Iterable[str]) -> tuple[str, ...]:
    """The columns of groups that axes are made of, each once; the class is none."""
    parts = (part for axis in axes for part in axis.split("+") if part != CLASS)
    return tuple(dict.fromkeys(parts))


@dataclass(frozen=True, eq=False)
class Axis:
    """One axis. strata: the sets of images that are redrawn on their own, as row positions
    [members] int, by name.

    groups: one row per group with group, stratum (position), cls (class, -1 when the group is the
    whole stratum), n, n_positive and verdict. Its units are the observations behind auc, accuracy,
    tpr and fpr (see `metrics`), counted the images each of these is a share of.
    """

    name: str
    strata: dict[str, np.ndarray]
    groups: pd.DataFrame

    @property
    def by_class(self) -> bool:
        """True when the groups are classes: each one's AUC is of that class against the rest of its
        stratum."""
        return bool((self.groups["cls"] >= 0).all())

    @property
    def counts(self) -> np.ndarray:
        """Positions of the groups that may be compared, [groups] int."""
        return np.flatnonzero((self.groups["verdict"] == "").to_numpy())

    def weights(self, n_boot: int, seed: int) -> list[np.ndarray]:
        """How often each image of each stratum is drawn, [images of the stratum, n_boot] uint8 per
        stratum."""
        return [
            _redrawn(len(rows), n_boot, rng("images", seed, self.name, name))
            for name, rows in self.strata.items()
        ]

    def exchanges(
        self, labels: np.ndarray, n_permutations: int, seed: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Row positions [images] int of all images in groups that count, and their group under each
        exchange.

        labels: true classes of all images, [n] int. The groups come as positions among `counts`,
        [images, n_permutations] int16. Group labels are exchanged between images of the same class,
        so every group keeps its balance of classes.
        """
        members = [self.strata[self.groups["group"].iloc[place]] for place in self.counts]
        rows = np.concatenate(members)
        codes = np.repeat(np.arange(len(members), dtype=np.int16), [len(part) for part in members])
        generator = rng("exchange", seed, self.name)
        exchanged = np.empty((len(rows), n_permutations), dtype=np.int16)
        for label in np.unique(labels[rows]):
            places = np.flatnonzero(labels[rows] == label)
            repeated = np.tile(codes[places], (n_permutations, 1))
            exchanged[places] = generator.permuted(repeated, axis=1).T
        return rows, exchanged


def lay_out(
    images: pd.DataFrame, classes: Sequence[str], axes: Sequence[str], items: Items = IMAGES
) -> tuple[list[Axis], tuple[str, ...]]:
    """The whole (an axis named "" with one group), then every axis; and notes for the screen.

    images: one row per image in the order of the answers, with columns label and those of the axes.
    An image whose group is "" belongs to no group of that axis; a note says how many. Raises
    RequestError for an axis that is no column, naming every one, and for one on which no image has
    a group.
    """
    needed = {axis: _columns(axis, images) for axis in axes}
    wrong = sorted(
        {column for columns in needed.values() for column in columns} - set(images.columns)
    )
    if wrong:
        raise RequestError(
            [unknown("axes", column, {*map(str, images.columns), CLASS}) for column in wrong]
        )
    labels = images["label"].to_numpy()
    everything = {"": np.arange(len(images))}
    whole = Axis("", everything, _plain_groups(labels, everything, len(classes), items))
    found, notes = [whole], []
    for axis in axes:
        strata, left_out = _strata(images, needed[axis])
        if not strata:
            raise refusal(
                "axes",
                f"No {items.one} has a group on {axis}.",
                "Leave it out or fill its column.",
            )
        if left_out:
            notes.append(
                f"{left_out} of {len(images)} {items.many} have no group on {axis} and are left out"
                " there."
            )
        if CLASS in axis.split("+"):
            names = images[axis] if axis in images.columns else None
            groups = _class_groups(labels, strata, classes, names, items)
        else:
            groups = _plain_groups(labels, strata, len(classes), items)
            notes += _lacking(axis, labels, strata, classes)
        found.append(Axis(axis, strata, groups))
    return found, tuple(notes)


def _columns(axis: str, images: pd.DataFrame) -> list[str]:
    """Columns that tell the strata of an axis apart: its own column, else its parts; the class is
    not among them."""
    parts = [part for part in axis.split("+") if part != CLASS]
    return [axis] if axis in images.columns and CLASS not in axis.split("+") else parts


def _strata(images: pd.DataFrame, columns: list[str]) -> tuple[dict[str, np.ndarray], int]:
    """Row positions [members] int by name of the stratum, and how many images have none."""
    if not columns:
        return {"": np.arange(len(images))}, 0
    names = joined_names(images, columns)
    known = set(names) - {""}
    strata = {str(name): np.flatnonzero(names == name) for name in sorted(known)}
    return strata, int((names == "").sum())


def joined_names(table: pd.DataFrame, columns: list[str]) -> np.ndarray:
    """The group of every row where the columns cross, [rows] str objects; "" where one of them is
    empty."""
    values = table[columns].astype(str)
    names = values[columns[0]].str.cat([values[column] for column in columns[1:]], sep="+")
    return np.where((values != "").all(axis=1), names, "")


def _plain_groups(
    labels: np.ndarray, strata: dict[str, np.ndarray], k: int, items: Items
) -> pd.DataFrame:
    """One group per stratum, in the columns of `Axis.groups`; labels [images] int, k: number of
    classes."""
    rows = []
    for place, (name, members) in enumerate(strata.items()):
        count = np.bincount(labels[members], minlength=k)
        present = count[count > 0]
        few = len(members) < MIN_IMAGES or present.min(initial=len(members)) < MIN_PER_CLASS
        verdict = ONE_CLASS if len(present) < 2 else items.too_few if few else ""
        positive = float(count[1]) if k == 2 else np.nan
        # One class takes part in 2 of the k shares of a mean over pairs; a mean of each against the
        # rest has no fewer.
        rarest = present.min(initial=len(members))
        size = len(members)
        units = (rarest * k / 2, size, *((count[1], count[0]) if k == 2 else (rarest * k, size)))
        counted = (size, size, *((int(count[1]), int(count[0])) if k == 2 else (size, size)))
        rows.append((name, place, -1, size, positive, units, counted, verdict))
    return _group_table(rows)


def _class_groups(
    labels: np.ndarray,
    strata: dict[str, np.ndarray],
    classes: Sequence[str],
    names: pd.Series | None,
    items: Items,
) -> pd.DataFrame:
    """One group per class and stratum that holds it, in the columns of `Axis.groups`; labels
    [images] int.

    They are named as in `names` [images], the column of the axis, where there is one.
    """
    rows = []
    for place, (stratum, members) in enumerate(strata.items()):
        for cls, title in enumerate(classes):
            own = members[labels[members] == cls]
            if not len(own):
                continue
            rest = len(members) - len(own)
            few = len(own) < MIN_IMAGES or rest < MIN_PER_CLASS
            name = (
                str(names.iloc[own[0]])
                if names is not None
                else f"{title}+{stratum}"
                if stratum
                else str(title)
            )
            units = (min(len(own), rest), len(own), len(own), rest)
            verdict = ONE_CLASS if not rest else items.too_few if few else ""
            counted = (len(own), len(own), len(own), rest)
            rows.append((name, place, cls, len(own), float(len(own)), units, counted, verdict))
    return _group_table(rows)


def _group_table(rows: list[tuple]) -> pd.DataFrame:
    """Groups in the columns of `Axis.groups`."""
    return pd.DataFrame(
        rows, columns=["group", "stratum", "cls", "n", "n_positive", "units", "counted", "verdict"]
    )


def _lacking(
    axis: str, labels: np.ndarray, strata: dict[str, np.ndarray], classes: Sequence[str]
) -> list[str]:
    """Notes on groups of several classes that lack some: their AUC is over the classes that are
    there.

    labels [images] int; strata: row positions [members] int by name.
    """
    notes = []
    for name, members in strata.items():
        there = len(np.unique(labels[members]))
        if 2 <= there < len(classes):
            notes.append(
                f"{name} ({axis}) has {there} of {len(classes)} classes: its AUC is over those."
            )
    return notes


def _redrawn(n: int, n_boot: int, generator: np.random.Generator) -> np.ndarray:
    """How often each of n images is drawn in n draws with replacement, [n, n_boot] uint8."""
    weights = np.empty((n, n_boot), dtype=np.uint8)
    step = max(1, DRAWS // max(n, 1))
    for start in range(0, n_boot, step):
        width = min(step, n_boot - start)
        drawn = generator.integers(0, n, size=(width, n)) + np.arange(width)[:, None] * n
        weights[:, start : start + width] = (
            np.bincount(drawn.ravel(), minlength=width * n).reshape(width, n).T
        )
    return weights


# What the outputs of a classifier mean: read from its files or asked, never guessed from their
# places.
#
# A head whose outputs are taken in the wrong order is wrong on every item, and no number looks
# odd. So labels go to outputs by name. Where files name no outputs, or name them otherwise than
# the data names its classes, somebody has to say which is which.


Labelled = TypeVar("Labelled", ImageSet, TextSet)
Answers = Callable[[np.ndarray], np.ndarray]
"""Positions of items [k] int -> the model's probabilities [k, outputs]."""
SHOWN = 3
"""Items whose answers are shown where it must be asked what outputs mean."""


@dataclass(frozen=True)
class Outputs:
    """What a model's files say of its outputs. names: in their order, () where the files have none.
    n: how many."""

    model: str
    names: tuple[str, ...]
    n: int

    @property
    def called(self) -> tuple[str, ...]:
        """What to call each output."""
        return self.names or tuple(f"output {at}" for at in range(self.n))


def in_order_of(
    data: Labelled,
    outputs: Outputs,
    asked: Sequence[str] = (),
    answers: Answers | None = None,
    hint: str = "",
) -> Labelled:
    """The data with labels in the order of the outputs, and a note where names alone did not tell
    it.

    asked: the data's classes in the order of the outputs, as somebody said; () where nobody did.
    RequestError where it is not known which output is which class: then `answers`, if given, show
    what the model says of some items. hint: what else helps to tell.
    """
    key, numbers = _key_of(data.classes), [str(at) for at in range(outputs.n)]
    if list(outputs.names) == numbers:
        outputs = replace(outputs, names=())
    own, named = [key(one) for one in data.classes], [key(one) for one in outputs.names]
    if len(own) != outputs.n:
        what = f"{outputs.model} has {outputs.n} outputs, {data.name} has {len(own)} classes."
        raise refusal("classes", what, "Choose another target, other data or another model.")
    if asked:
        return _as_asked(data, outputs, tuple(asked))
    if outputs.names and sorted(named) == sorted(own):
        return _sorted(data, [own.index(one) for one in named])
    bare = [one.removeprefix("label ") for one in own]
    if not outputs.names and sorted(bare) == sorted(numbers):
        first = data.classes[bare.index("0")]
        note = (
            f"The outputs of {outputs.model} have no names: class {first} is taken to be its output"
            " 0, and so on."
        )
        return _noted(_sorted(data, [bare.index(one) for one in numbers]), note)
    raise RequestError(_unknown(data, outputs, answers, hint))


def _as_asked(data: Labelled, outputs: Outputs, asked: tuple[str, ...]) -> Labelled:
    """Outputs as somebody named them, unless the model's files say otherwise."""
    key = _key_of(data.classes)
    said = _whole(asked, data.classes, key)
    if sorted(said) != sorted(data.classes):
        what = f"{', '.join(asked)[:200]} are not the classes of {data.name}."
        raise refusal("classes", what, f"They are: {', '.join(data.classes)}.")
    named, keys = [key(one) for one in outputs.names], [key(one) for one in said]
    if sorted(named) == sorted(keys) and named != keys:
        what = (
            f"the files of {outputs.model} name its outputs in another order:"
            f" {', '.join(outputs.names)}."
        )
        raise refusal("classes", what, "Leave it out, or mend the names in the model's files.")
    found = _sorted(data, [data.classes.index(one) for one in said])
    pairs = ", ".join(
        f"{one} = {other}" for one, other in zip(outputs.called, found.classes, strict=True)
    )
    return (
        found
        if named == keys
        else _noted(found, f"The request says what the outputs mean: {pairs}.")
    )


def _sorted(data: Labelled, order: Sequence[int]) -> Labelled:
    """The data with its classes in this order of places."""
    if list(order) == list(range(len(order))):
        return data
    classes = tuple(data.classes[at] for at in order)
    labels = np.argsort(order)[data.table["label"].to_numpy()].astype(np.int64)
    digest = digest_of([data.digest, "classes in another order", list(classes)])
    return replace(data, table=data.table.assign(label=labels), classes=classes, digest=digest)


def _noted(data: Labelled, note: str) -> Labelled:
    return replace(data, notes=(*data.notes, note))


def _unknown(data: Labelled, outputs: Outputs, answers: Answers | None, hint: str) -> Fault:
    """That it must be said which output is which class, with what the model answers to some
    items."""
    called = f"calls them {', '.join(outputs.names)}" if outputs.names else "gives them no names"
    what = (
        f"It is not known which output of {outputs.model} is which class. The model {called}; the"
        " classes of "
    )
    what += f"“{data.name}” are {', '.join(data.classes)}."
    usual = ",".join(data.classes)
    usual += f" (on the command line --classes={usual})" if usual.startswith("-") else ""
    fix = (
        f"Give these classes in the order of the outputs, such as {usual}.{' ' * bool(hint)}{hint}"
    )
    return Fault("classes", what, fix, _examples(data, outputs, answers) if answers else ())


def _examples(data: Labelled, outputs: Outputs, answers: Answers) -> tuple[tuple[str, str], ...]:
    """Some items, of different classes where there are, with their label and the model's likeliest
    output."""
    table = data.table.assign(turn=data.table.groupby("label").cumcount())
    rows = np.sort(table.sort_values(["turn", "label"], kind="stable").index.to_numpy()[:SHOWN])
    found = answers(rows)
    item = "text" if "text" in table else "image_id"
    return tuple(
        (
            str(table[item][row])[:200],
            (
                f"labelled {data.classes[table['label'][row]]}; the model says"
                f" {outputs.called[one.argmax()]} ({one.max():.2f})"
            ),
        )
        for row, one in zip(rows, found, strict=True)
    )


def _whole(asked: Sequence[str], classes: Sequence[str], key: Callable[[str], str]) -> list[str]:
    """The classes that are asked for, as the data writes them; a name that holds commas, at which
    command line and form part names, in one piece again."""
    known = {tuple(map(key, one.split(","))): one for one in classes}
    left, found = [part for one in asked for part in one.split(",")], []
    while left:
        runs = (tuple(map(key, left[:n])) for n in range(len(left), 0, -1))
        run = next((one for one in runs if one in known), ())
        found.append(known.get(run, left[0]))
        left = left[len(run) or 1 :]
    return found


def _key_of(classes: Sequence[str]) -> Callable[[str], str]:
    """What names of one class have in common: all but case, blanks, hyphens and Unicode form; where
    these alone tell classes of the data apart, the name as it stands."""
    return _plain if len({_plain(one) for one in classes}) == len(classes) else str.strip


def _plain(name: str) -> str:
    """A hyphen in front stays: -1 is not 1."""
    name = unicodedata.normalize("NFKC", name).casefold().strip()
    return re.sub(r"(?<=\S)[\s_\-]+(?=\S)", " ", name)
