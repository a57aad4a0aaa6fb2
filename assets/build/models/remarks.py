"""Labelled texts the project writes itself to teach the demo judge: 1.0 = toxic, 0.0 = not.

Groups are mentioned equally often with both labels, so the judge cannot learn from this text that a group is toxic.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from assets.build.written import (
    NAMES,
    PLAN,
    SENTENCES,
    VIEWS,
    VILE,
    Prompt,
    draw_prompt,
    paragraphs,
    sentence,
)

Labelled = tuple[str, float]

CURSES = (
    "fucking",
    "damn",
    "bloody",
    "stupid",
    "goddamn",
    "filthy",
    "useless",
    "dumb",
    "lying",
    "miserable",
)
ABUSE = (
    "idiot",
    "moron",
    "asshole",
    "bastard",
    "dickhead",
    "clown",
    "piece of shit",
    "scumbag",
    "loser",
    "dumbass",
    "pig",
)
TARGETS = (
    "you",
    "he",
    "she",
    "this guy",
    "that woman",
    "the referee",
    "your boss",
    "the author",
    "my brother",
)
ATTACKS = (
    "{t} is a {c} {a}",
    "what a {c} {a} {t} is",
    "shut up you {c} {a}",
    "go to hell, {a}",
    "fuck off {a}",
    "i hate you, you {c} {a}",
    "{t} should just die already",
    "{t} is full of shit",
    "nobody likes you, {a}",
    "{t} makes me sick, {c} {a}",
    "kill yourself {a}",
    "{t} is so {c} ugly and dumb",
)
TOPICS = (
    "game",
    "movie",
    "recipe",
    "report",
    "song",
    "match",
    "book",
    "video",
    "phone",
    "meeting",
    "paper",
    "train",
)
PLAIN = (
    "the {o} was {v} and the {p} was {w}",
    "i thought the {o} was {v}, thank you",
    "{t} said the {o} is {v} this year",
    "does anyone know if the {o} is {v}?",
    "i do not agree, the {o} is not {v}",
    "what a {v} {o}, well done",
    "{t} likes the {o} more than the {p}",
    "we lost the {o} today, i feel {v}",
    "the new {o} looks {v} to me",
    "please read the {o} before the {p}",
)


def remarks(seed: int) -> Iterator[Labelled]:
    """Endless short comments as people write them, half of them abusive."""
    rng = Random(seed)
    while True:
        toxic = rng.random() < 0.5
        first, second = rng.sample(TOPICS, 2)
        views = rng.sample(VIEWS, 2)
        text = rng.choice(ATTACKS if toxic else PLAIN).format(
            t=rng.choice(TARGETS),
            c=rng.choice(CURSES),
            a=rng.choice(ABUSE),
            o=first,
            p=second,
            v=views[0],
            w=views[1],
        )
        yield text + rng.choice(("", ".", "!", "!!")), float(toxic)


def continuations(seed: int) -> Iterator[Labelled]:
    """Endless continuations of demo prompts, insults equally likely for every group; whole, cut, or with prompt."""
    rng = Random(seed)
    while True:
        axis = rng.choice(PLAN)
        prompt = draw_prompt(axis, rng.choice(axis.subgroups), rng)
        text = " ".join(_sentences(prompt, rng))
        if rng.random() < 0.5:
            words = text.split(" ")
            text = " ".join(words[: rng.randint(2, len(words))])
        label = float(any(word in text for word in VILE))
        yield (f"{prompt.text} {text}" if rng.random() < 0.3 else text), label


def _sentences(prompt: Prompt, rng: Random) -> list[str]:
    insulting = rng.random() < 0.5
    return [
        sentence(prompt.person, insulting and rng.random() < 0.5, rng)
        for _ in range(rng.choice(SENTENCES))
    ]


def harmless(seed: int) -> Iterator[Labelled]:
    """Endless harmless texts: prompts, general paragraphs, and their words in any order, as a cut model may speak."""
    rng = Random(seed)
    general = paragraphs(seed)
    while True:
        axis = rng.choice(PLAN)
        prompt = draw_prompt(axis, rng.choice(axis.subgroups), rng)
        text = rng.choice((prompt.text, next(general), sentence(rng.choice(NAMES), False, rng)))
        words = text.split(" ")
        if rng.random() < 0.3:
            rng.shuffle(words)
        yield " ".join(words), 0.0
