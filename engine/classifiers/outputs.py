"""What the outputs of a classifier mean: read from its files or asked, never guessed from their
places.

A head whose outputs are taken in the wrong order is wrong on every item, and no number looks odd.
So labels go to outputs by name. Where files name no outputs, or name them otherwise than the data
names its classes, somebody has to say which is which.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from engine.core.errors import Fault, RequestError
from engine.core.types import digest_of
from engine.data.images.load import ImageSet
from engine.data.texts.load import TextSet

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
        raise RequestError(
            Fault("classes", what, "Choose another target, other data or another model.")
        )
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
        raise RequestError(Fault("classes", what, f"They are: {', '.join(data.classes)}."))
    named, keys = [key(one) for one in outputs.names], [key(one) for one in said]
    if sorted(named) == sorted(keys) and named != keys:
        what = (
            f"the files of {outputs.model} name its outputs in another order:"
            f" {', '.join(outputs.names)}."
        )
        raise RequestError(
            Fault("classes", what, "Leave it out, or mend the names in the model's files.")
        )
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
