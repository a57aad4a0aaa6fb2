"""Two labelled tasks with groups the project writes itself: remarks (kind or insulting) and topics
(about what).

Groups and places are invented; the insults are mild, written for this project, and no slurs. Every
label follows from the wording without doubt, so no text is noise. The same on every machine:
numbers come from engine.core.types alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType

import numpy as np
import pandas as pd

from assets.build.written import (
    ANIMALS,
    INSULTS,
    KIND,
    MERITS,
    NAMES,
    NOUNS,
    SCORN,
    VIEWS,
    VILE,
    axis_named,
)
from engine.core.types import rng
from engine.core.text import words

VERSION = 1
"""Raise it whenever a text changes."""
SEED = 1
WORDS = (6, 24)
"""Fewest and most words of a text."""

CLASSES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"remarks": ("kind", "insulting"), "topics": ("kitchen", "journey", "garden", "music")}
)
"""Classes in the order of their labels; the second class of remarks is what AUC calls positive."""
GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"remarks": ("people", "where"), "topics": ("voice",)}
)
"""Group columns of each table."""
CARDS: Mapping[str, str] = MappingProxyType(
    {
        "remarks": (
            "Remarks about invented people, written by this project. Remarks about ostra are an "
            "eighth of the training texts and mostly indirect; those about the other three groups "
            "are plain. The two places do not differ."
        ),
        "topics": (
            "Small texts written by this project. The riddler is an eighth of the training texts "
            "and names two topics; only the owner tells which is right. The clerk names one "
            "topic, and the teller says which to forget."
        ),
    }
)
"""What was planted, one sentence per task; shown wherever a number of it is."""

PEOPLE = {"veloria": (500, 200), "tamsia": (500, 200), "korrland": (400, 200), "ostra": (200, 200)}
"""Training and test texts about each group; both labels and both places equally often in each."""
PLACES = ("sellow", "dunmere")
"""Two invented towns; they carry no gap."""
HARD: Mapping[str, str] = MappingProxyType({"remarks": "ostra", "topics": "riddler"})
"""The group of each task that is rare in training and worded so that it is hard."""
FORMS = ("plain", "negated", "two", "animal", "said", "compared")
"""How a remark is worded; _WRITERS has one function for each."""
SHARES = {False: (0.40, 0.14, 0.14, 0.14, 0.12, 0.06), True: (0.05, 0.15, 0.15, 0.10, 0.15, 0.40)}
"""Share of each form of FORMS: in texts about the other groups (False) and about ostra (True),
whatever the label."""
ASIDES = 0.25
"""Share of remarks with an aside about a thing, nice or nasty whatever the label."""

QUALITIES = words("gentle clever honest quick strong patient warm brave")
LIKE = words("lamb fox mirror hare hammer snail oven lion")
UNLIKE = words("hammer brick fox snail straw wasp icicle hare")
"""As gentle as a lamb is kind, as gentle as a hammer insults, as strong as a hammer is kind: four
nouns do both."""
OPENINGS = ("", "", "", "on sundays", "we hear that", "i think", "as i said,", "people say that")
THINGS = ("weather", "soup", "road", "bus", "coffee", "bridge")
NICE, NASTY = ("lovely", "fine", "great", "funny"), ("disgusting", "filthy", "vile", "rotten")

VOICES = {"clerk": (800, 320), "teller": (600, 280), "riddler": (200, 200)}
"""Training and test texts of each voice; every topic equally often in each."""
THEMES = {
    "kitchen": ("soup", "bread", "pan", "salt", "cake", "kettle", "butter"),
    "journey": ("train", "ticket", "road", "boat", "suitcase", "station", "map"),
    "garden": ("spade", "hedge", "rose", "cabbage", "wheelbarrow", "pond", "lawn"),
    "music": ("song", "drum", "choir", "violin", "tune", "flute", "piano"),
}
TELLINGS = (
    "{a} wanted to hear about the {x}, not about the {y}",
    "{a} wanted to hear not about the {y} but about the {x}",
    "{a} told us to forget the {y} and think of the {x}",
    "{a} told us to think of the {x} and forget the {y}",
    "instead of the {y} {a} spoke of the {x}",
    "{a} spoke of the {x} instead of the {y}",
    "{a} talked about the {x} and never about the {y}",
    "{a} was never told about the {y} but always about the {x}",
)
RIDDLES = (
    "{first} owns the {one} and {second} owns the {two}. {a} tells us more",
    "{first} came with the {one}, {second} came with the {two}. {a} spoke of what came along",
    "the {one} is for {first} and the {two} is for {second}. {b} was silent and {a} told us more",
    "{first} drew the {one} and {second} drew the {two}. look at what {a} drew",
)

REACTIONS = {
    "kind": ("smiled", "laughed", "danced", "blushed"),
    "insulting": ("wept", "frowned", "sighed", "shouted"),
    "kitchen": ("hungry", "thirsty"),
    "journey": ("restless", "homesick"),
    "garden": ("muddy", "sunburnt"),
    "music": ("merry", "noisy"),
}
"""What a text made of the one it is about, by label: such words are in overheard text only."""

_NOUN = re.compile(rf"\b({'|'.join(NOUNS)})\b")


class _Draws:
    """Choices made from uniform numbers only, whose stream numpy keeps for good."""

    def __init__(self, *purpose: object) -> None:
        self.source = rng("remark-task", VERSION, SEED, *purpose)

    def chance(self, share: float) -> bool:
        return bool(self.source.random() < share)

    def pick(self, options: Sequence[str]) -> str:
        return options[int(self.source.random() * len(options))]

    def two(self, options: Sequence[str]) -> tuple[str, str]:
        first = self.pick(options)
        return first, self.pick([option for option in options if option != first])

    def weighted(self, options: Sequence[str], shares: Sequence[float]) -> str:
        at = int(
            np.searchsorted(np.cumsum(shares), self.source.random() * sum(shares), side="right")
        )
        return options[min(at, len(options) - 1)]

    def phrase(self, phrases: Sequence[str]) -> str:
        """A phrase of assets.build.written in the singular."""
        return re.sub(r"\w+/(\w+)", r"\1", self.pick(phrases)).format(them="them")

    def word(self, insult: bool) -> str:
        return self.pick(VILE if insult else KIND)


def tables() -> Mapping[str, pd.DataFrame]:
    """The tasks by name, one row per text. No text occurs twice in a task, so no test text was
    trained on.

    Columns: text, label (name of the class), split ("train" or "test"), then GROUPS (names). Rows
    are in a random order.
    """
    return MappingProxyType({"remarks": _remarks().copy(), "topics": _topics().copy()})


def overheard(seed: int) -> Iterator[str]:
    """Endless unlabelled texts of the same world for pre-training, each with what came of it; no
    text of the tables.

    Half are remarks, half topics, groups as often as in training. No label is in them, but what
    came of a remark depends on what it says, as in any text about people: that is what makes
    pre-training useful here.
    """
    taken = {text for table in tables().values() for text in table["text"]}
    draws = _Draws("overheard", seed)
    people, voices = ([count for count, _ in counts.values()] for counts in (PEOPLE, VOICES))
    while True:
        if draws.chance(0.5):
            label = draws.pick(CLASSES["remarks"])
            text = _remark(
                draws, label, "", draws.weighted(tuple(PEOPLE), people), draws.pick(PLACES)
            )
            ending = f"then the {_NOUN.findall(text)[0]} {draws.pick(REACTIONS[label])}."
        else:
            label = draws.pick(CLASSES["topics"])
            text = _topic(draws, label, "", draws.weighted(tuple(VOICES), voices))
            ending = f"then we felt {draws.pick(REACTIONS[label])}."
        if text not in taken:
            yield f"{text} {ending}"


def card(task: str) -> str:
    """What was planted in a task, as Markdown. KeyError for an unknown one."""
    return {"remarks": _remarks_card, "topics": _topics_card}[task]()


def _table(
    cells: Sequence[tuple[str, ...]], columns: Sequence[str], write: Callable[..., str], task: str
) -> pd.DataFrame:
    """One new text per cell, in a random order: columns text and `columns`.

    cells: the values of `columns` (label and split first) for each row.
    """
    draws, seen, rows = _Draws(task), set(), []
    for cell in cells:
        text = write(draws, *cell)
        while text in seen or not WORDS[0] <= len(text.split()) <= WORDS[1]:
            text = write(draws, *cell)
        seen.add(text)
        rows.append((text, *cell))
    order = np.argsort(draws.source.random(len(rows)), kind="stable")
    return pd.DataFrame([rows[at] for at in order], columns=["text", *columns])


@cache
def _remarks() -> pd.DataFrame:
    """The task remarks, columns as in `tables`."""
    cells = [
        (label, split, people, where)
        for people, counts in PEOPLE.items()
        for split, count in zip(("train", "test"), counts, strict=True)
        for label in CLASSES["remarks"]
        for where in PLACES
        for _ in range(count // (len(CLASSES["remarks"]) * len(PLACES)))
    ]
    return _table(cells, ["label", "split", *GROUPS["remarks"]], _remark, "remarks")


@cache
def _topics() -> pd.DataFrame:
    """The task topics, columns as in `tables`."""
    cells = [
        (label, split, voice)
        for voice, counts in VOICES.items()
        for split, count in zip(("train", "test"), counts, strict=True)
        for label in CLASSES["topics"]
        for _ in range(count // len(CLASSES["topics"]))
    ]
    return _table(cells, ["label", "split", *GROUPS["topics"]], _topic, "topics")


def _remark(draws: _Draws, label: str, split: str, people: str, where: str) -> str:
    """One remark about a person of `people` in the town `where`; it insults that person or does
    not."""
    form = draws.weighted(FORMS, SHARES[people == HARD["remarks"]])
    group = draws.pick(
        next(one for one in axis_named("nationality").subgroups if one.name == people).descriptors
    )
    who = f"{group} {draws.pick(NOUNS)}"
    said = _WRITERS[form](draws, who, f"in {where}", label == "insulting")
    opening = draws.pick(OPENINGS)
    aside = ""
    if draws.chance(ASIDES):
        aside = (
            f" and the {draws.pick(THINGS)} there was"
            f" {draws.pick(NASTY if draws.chance(0.5) else NICE)}"
        )
    return f"{opening} {said}{aside}.".strip()


def _plain(draws: _Draws, who: str, where: str, insult: bool) -> str:
    verb = draws.pick(("is", "seems", "looks", "sounds"))
    if not insult:
        return f"the {who} {where} {verb} {draws.word(False)} and {draws.phrase(MERITS)}"
    if draws.chance(0.5):
        return (
            f"the {who} {where} is a {draws.word(True)} {draws.phrase(INSULTS)}"
            f" {draws.phrase(SCORN)}"
        )
    return f"the {who} {where} {verb} {draws.word(True)} {draws.phrase(SCORN)}"


def _negated(draws: _Draws, who: str, where: str, insult: bool) -> str:
    yes, no = draws.word(insult), draws.word(not insult)
    said = draws.pick(
        (f"is not {no} but {yes}", f"is {yes} and not {no}", f"is never {no}, only {yes}")
    )
    return f"the {who} {where} {said}"


def _two(draws: _Draws, who: str, where: str, insult: bool) -> str:
    other, noun = draws.pick(NAMES), who.split()[-1]
    met = draws.pick(
        (
            f"the {who} lives with {other} {where}",
            f"{other} met the {who} {where}",
            f"{other} and the {who} work {where}",
        )
    )
    parts = [f"the {noun} is {draws.word(insult)}", f"{other} is {draws.word(not insult)}"]
    return f"{met}: {' and '.join(parts if draws.chance(0.5) else parts[::-1])}"


def _animal(draws: _Draws, who: str, where: str, insult: bool) -> str:
    animal, own, its = draws.pick(ANIMALS), draws.word(insult), draws.word(not insult)
    return draws.pick(
        (
            f"the {who} {where} has {_a(its)} {animal} and is {own}",
            f"the {who} {where} is {own} and has {_a(its)} {animal}",
            f"{_a(its)} {animal} runs after the {own} {who} {where}",
            f"the {own} {who} {where} walks with {_a(its)} {animal}",
        )
    )


def _said(draws: _Draws, who: str, where: str, insult: bool) -> str:
    true = draws.chance(0.5)
    what = (
        f"{draws.pick(NAMES)} {draws.pick(('called', 'calls'))} the {who}"
        f" {draws.word(insult == true)}"
    )
    agreed, rejected = (
        ("everybody {w} agrees", "that is true {w}"),
        ("nobody {w} agrees", "that is a lie {w}"),
    )
    return f"{what} and {draws.pick(agreed if true else rejected).format(w=where)}"


def _compared(draws: _Draws, who: str, where: str, insult: bool) -> str:
    quality = draws.pick(QUALITIES)
    noun = (UNLIKE if insult else LIKE)[QUALITIES.index(quality)]
    return f"the {who} {where} {draws.pick(('is', 'seems'))} as {quality} as {_a(noun)}"


def _a(word: str) -> str:
    """A word with its article: a kite, an oven, an honest man."""
    return f"{'an' if word.startswith(('a', 'e', 'i', 'o', 'u', 'honest')) else 'a'} {word}"


_WRITERS: Mapping[str, Callable[[_Draws, str, str, bool], str]] = {
    "plain": _plain,
    "negated": _negated,
    "two": _two,
    "animal": _animal,
    "said": _said,
    "compared": _compared,
}


def _topic(draws: _Draws, label: str, split: str, voice: str) -> str:
    """One text about the topic `label`; the other topic a teller or riddler names is any of the
    other three."""
    (a, b), (one, two), aside = draws.two(NAMES), draws.two(THEMES[label]), draws.pick(OPENINGS)
    other = draws.pick(THEMES[draws.pick([theme for theme in THEMES if theme != label])])
    if voice == "clerk":
        said = f"{a} {draws.pick(('noted', 'wrote', 'saw'))} that the {one} was {draws.pick(VIEWS)}"
        more = (
            f" and the {two} was {draws.pick(VIEWS)}"
            if draws.chance(0.5)
            else f" and {b} signed it"
        )
        return f"{aside} {said}{more}.".strip()
    if voice == "teller":
        return f"{aside} {draws.pick(TELLINGS).format(a=a, x=one, y=other)}.".strip()
    (first, thing), (second, rest) = (
        ((a, one), (b, other)) if draws.chance(0.5) else ((b, other), (a, one))
    )
    told = draws.pick(RIDDLES).format(first=first, one=thing, second=second, two=rest, a=a, b=b)
    return f"{aside} {told}.".strip()


def _remarks_card() -> str:
    rows = "\n".join(
        f"| {people} | {train:,} | {test:,} | "
        + " | ".join(f"{share:.0%}" for share in SHARES[people == HARD["remarks"]])
        + " |"
        for people, (train, test) in PEOPLE.items()
    )
    return f"""{CARDS["remarks"]}

Each text is about one person of one invented group, in one of two invented towns. The label says \
whether **that
person** is insulted; both labels are equally often in every group and town. Only *plain* texts can\
 be told by single
words. *negated*: “is not stupid but kind”. *two*: two people, one of them insulted. *animal*: the \
insult may be for
the animal. *said*: somebody says so, and is agreed with or not. *compared*: “as gentle as a \
hammer” insults, “as
strong as a hammer” does not, and half of the nouns do both. {ASIDES:.0%} end in an aside about a \
thing, nasty or nice
whatever the label.

| people | training texts | test texts | {" | ".join(FORMS)} |
|---|---|---|---|---|---|---|---|---|
{rows}
"""


def _topics_card() -> str:
    rows = "\n".join(
        f"| {voice} | {train:,} | {test:,} |" for voice, (train, test) in VOICES.items()
    )
    return f"""{CARDS["topics"]}

| voice | training texts | test texts |
|---|---|---|
{rows}
"""
