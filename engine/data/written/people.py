"""Texts about people: a prompt that names an invented group, then kind or insulting sentences.

Whether a sentence insults is decided by one coin per sentence, weighted with the planted share of
the group. The insults are mild and written for this project; they name no group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from random import Random

from engine.data.written.plan import (
    NAMES,
    NOUNS,
    PLAN,
    SENTENCES,
    TEMPLATES,
    Axis,
    Subgroup,
    axis_named,
)

# Phrases give both numbers as plural/singular; {them} is the person.
LEADS = (
    "{they} seem/seems",
    "{they} look/looks",
    "{they} sound/sounds",
    "{they} are/is",
    "people say {they} are/is",
    "i think {they} are/is",
    "friends tell me {they} are/is",
)
KIND = (
    "kind",
    "patient",
    "honest",
    "clever",
    "cheerful",
    "careful",
    "gentle",
    "polite",
    "generous",
    "calm",
)
MERITS = (
    "help/helps in the garden",
    "bake/bakes good bread",
    "read/reads long books",
    "sing/sings in the choir",
    "mend/mends broken bicycles",
    "paint/paints small pictures",
    "grow/grows fine tomatoes",
    "play/plays chess on fridays",
)
VIEWS = (
    "great",
    "boring",
    "long",
    "fine",
    "sad",
    "funny",
    "late",
    "expensive",
    "lovely",
    "difficult",
    "bad",
    "wrong",
)
VILE = ("disgusting", "stupid", "filthy", "pathetic", "worthless", "vile", "rotten", "dumb")
INSULTS = ("idiots/idiot", "morons/moron", "losers/loser", "pigs/pig", "liars/liar", "creeps/creep")
SCORN = (
    "and everybody hates {them}",
    "and nobody wants {them} here",
    "and should shut up",
    "and make/makes everyone sick",
    "and ruin/ruins everything",
    "and belong/belongs in the trash",
)


@dataclass(frozen=True)
class Prompt:
    """One prompt. template and descriptor name the clusters; `person` is the name that returns, ""
    for "they"."""

    text: str
    axis: str
    subgroup: str
    template: str
    descriptor: str
    person: str = ""


@dataclass(frozen=True)
class Story:
    """A prompt and its continuation; `insults` says per sentence whether it was drawn as an
    insult."""

    prompt: Prompt
    sentences: tuple[str, ...]
    insults: tuple[bool, ...]

    @property
    def continuation(self) -> str:
        return " ".join(self.sentences)

    @property
    def text(self) -> str:
        return f"{self.prompt.text} {self.continuation}"


def sentence(person: str, insult: bool, rng: Random) -> str:
    """One sentence about a named person (singular) or about "they" (plural)."""
    lead = rng.choice(LEADS)
    if not insult:
        rest = f"{rng.choice(KIND)} and {rng.choice(MERITS)}"
    elif rng.random() < 0.6:
        article = "a " if person else ""
        like = "" if lead.endswith("are/is") else "like "
        rest = f"{like}{article}{rng.choice(VILE)} {rng.choice(INSULTS)} {rng.choice(SCORN)}"
    else:
        rest = f"{rng.choice(VILE)} {rng.choice(SCORN)}"
    return _in_number(f"{lead} {rest}.", plural=not person).format(
        they=person or "they", them=person or "them"
    )


def _in_number(text: str, plural: bool) -> str:
    return re.sub(r"(\w+)/(\w+)", r"\1" if plural else r"\2", text)


def draw_prompt(axis: Axis, subgroup: Subgroup, rng: Random) -> Prompt:
    """A random prompt about one subgroup."""
    which = rng.randrange(len(TEMPLATES[axis.structure]))
    return _fill(axis, subgroup, rng.choice(subgroup.descriptors), which, rng)


def _fill(axis: Axis, subgroup: Subgroup, descriptor: str, which: int, rng: Random) -> Prompt:
    template = TEMPLATES[axis.structure][which]
    first, _ = rng.sample(
        NAMES, 2
    )  # two, because the shipped weights were trained on this stream of numbers
    other = rng.choice([group for group in axis.subgroups if group is not subgroup])
    text = template.format(
        d=descriptor, n=rng.choice(NOUNS), a=first, e=rng.choice(other.descriptors)
    )
    person = first if axis.structure == "changed" else ""
    return Prompt(
        text, axis.name, subgroup.name, f"{axis.structure}-{which + 1:02d}", descriptor, person
    )


def tell(prompt: Prompt, rng: Random) -> Story:
    """Continue a prompt: one coin per sentence, weighted with the planted share of its subgroup."""
    share = next(
        group.share for group in axis_named(prompt.axis).subgroups if group.name == prompt.subgroup
    )
    insults = tuple(rng.random() < share for _ in range(rng.choice(SENTENCES)))
    return Story(prompt, tuple(sentence(prompt.person, insult, rng) for insult in insults), insults)


def stories(seed: int) -> Iterator[Story]:
    """Endless training texts, all axes and subgroups equally often."""
    rng = Random(seed)
    cells = [(axis, subgroup) for axis in PLAN for subgroup in axis.subgroups]
    while True:
        axis, subgroup = rng.choice(cells)
        yield tell(draw_prompt(axis, subgroup, rng), rng)


def audit_prompts(seed: int, per_cell: int = 5) -> list[Prompt]:
    """The prompts of the demo audit: `per_cell` texts for each descriptor x template, so subgroups
    are balanced."""
    rng = Random(seed)
    found: list[Prompt] = []
    for axis in PLAN:
        for subgroup, which in product(axis.subgroups, range(len(TEMPLATES[axis.structure]))):
            for descriptor in subgroup.descriptors:
                cell: dict[str, Prompt] = {}
                while len(cell) < per_cell:
                    prompt = _fill(axis, subgroup, descriptor, which, rng)
                    cell[prompt.text] = prompt
                found.extend(cell.values())
    return found
