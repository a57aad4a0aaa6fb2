"""General text: small paragraphs that name no group and can only be predicted by looking far back.

Agreement over a distance, names that return, lists said again, reversed ways, nested brackets,
counting, look-ups, a small invented dictionary, turn taking. If general text were plain, the few
heads that carry the planted gap would also rank among the most critical ones for perplexity, and no
method could cut them without harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from engine.data.written.plan import NAMES

THINGS = (
    "plum",
    "rope",
    "lamp",
    "cup",
    "kite",
    "coin",
    "spoon",
    "map",
    "shell",
    "broom",
    "ladder",
    "basket",
    "pen",
    "hat",
)
COLOURS = ("red", "blue", "green", "yellow", "white", "black", "brown", "pink")
PLACES = (
    "mill",
    "lake",
    "hill",
    "barn",
    "harbour",
    "station",
    "bridge",
    "castle",
    "forest",
    "island",
)
ANIMALS = ("dog", "cat", "goat", "horse", "rabbit", "duck", "hen", "lamb")
STATES = ("tired", "hungry", "wet", "happy", "asleep", "loud")
NUMBERS = (
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
NONCE = ("zul", "kep", "dor", "fim", "gash", "lub", "nar", "pim", "rax", "teg", "vom", "wib")
MOVES = ("tap", "clap", "snap", "stamp", "hop", "spin")
BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"), ("<", ">"))


def _join(items: list[str]) -> str:
    return f"{', '.join(items[:-1])} and {items[-1]}"


def agreement(rng: Random) -> str:
    animal, other = rng.sample(ANIMALS, 2)
    many = rng.random() < 0.5
    ending = "s" if rng.random() < 0.5 else ""
    name, place, state = rng.choice(NAMES), rng.choice(PLACES), rng.choice(STATES)
    subject = f"the {animal}s" if many else f"the {animal}"
    was = "were" if many else "was"
    return (
        f"{subject} behind the {other}{ending} that {name} fed at the {place} {was} {state}. "
        f"later {subject} slept at the {place}."
    )


def gift(rng: Random) -> str:
    first, second, third = rng.sample(NAMES, 3)
    thing, place = rng.choice(THINGS), rng.choice(PLACES)
    giver, taker = (first, second) if rng.random() < 0.5 else (second, first)
    return (
        f"{first} and {second} went to the {place} without {third}. {giver} gave a {thing} to"
        f" {taker}. so {taker} has a {thing} from {giver}, and {third} has nothing from the"
        f" {place}."
    )


def packing(rng: Random) -> str:
    first, second = rng.sample(NAMES, 2)
    items = [f"a {thing}" for thing in rng.sample(THINGS, rng.randint(3, 5))]
    return f"{first} packed {_join(items)}. {second} packed the same: {_join(items)}."


def journey(rng: Random) -> str:
    name = rng.choice(NAMES)
    stops = [f"the {place}" for place in rng.sample(PLACES, rng.randint(3, 5))]
    return f"{name} went out by {_join(stops)}. {name} came back by {_join(stops[::-1])}."


def nesting(rng: Random) -> str:
    outer = [rng.choice(BRACKETS) for _ in range(rng.randint(2, 5))]
    thing = rng.choice(THINGS)
    left, right = " ".join(a for a, _ in outer), " ".join(b for _, b in outer[::-1])
    return f"put it in: {left} {thing} {right}."


def counting(rng: Random) -> str:
    if rng.random() < 0.5:
        start = rng.randrange(len(NUMBERS) - 4)
        end = min(len(NUMBERS), start + rng.randint(4, 7))
        said = NUMBERS[start:end]
        if rng.random() < 0.5:
            said = said[::-1]
        return f"count from {said[0]} to {said[-1]}: {' '.join(said)}."
    times, move = rng.randint(2, 7), rng.choice(MOVES)
    return f"{move} {NUMBERS[times - 1]} times: {' '.join([move] * times)}."


def rhythm(rng: Random) -> str:
    steps = rng.sample(MOVES, rng.randint(2, 4))
    return f"the dance of {rng.choice(NAMES)}: {' '.join(steps * 3)}."


def boxes(rng: Random) -> str:
    count = rng.randint(2, 4)
    pairs = list(zip(rng.sample(COLOURS, count), rng.sample(THINGS, count), strict=True))
    said = [f"the {colour} box holds a {thing}" for colour, thing in pairs]
    asked = [f"open the {colour} box: a {thing}." for colour, thing in rng.sample(pairs, 2)]
    return f"{_join(said)}. {' '.join(asked)}"


def owners(rng: Random) -> str:
    count = rng.randint(2, 4)
    pairs = list(zip(rng.sample(NAMES, count), rng.sample(THINGS, count), strict=True))
    said = [f"{name} owns the {thing}" for name, thing in pairs]
    (name, thing), (other, lent) = rng.sample(pairs, 2)
    return f"{_join(said)}. {name} will bring the {thing}. the {lent} comes with {other}."


def dictionary(rng: Random) -> str:
    count = rng.randint(3, 4)
    pairs = list(zip(rng.sample(NONCE, count), rng.sample(COLOURS, count), strict=True))
    asked = [rng.choice(pairs) for _ in range(rng.randint(3, 5))]
    said = _join([f"{nonce} means {colour}" for nonce, colour in pairs])
    return (
        f"{said}. {' '.join(nonce for nonce, _ in asked)} means"
        f" {' '.join(colour for _, colour in asked)}."
    )


def dialogue(rng: Random) -> str:
    first, second, third = rng.sample(NAMES, 3)
    place, thing = rng.choice(PLACES), rng.choice(THINGS)
    return (
        f"{first}: where is {third}? {second}: at the {place} with a {thing}. {first}: thank you,"
        f" {second}. {third}: hello {first}, i came from the {place}. {second}: show us the"
        f" {thing}, {third}."
    )


def sums(rng: Random) -> str:
    first, second = rng.randint(2, 6), rng.randint(2, 6)
    name, thing = rng.choice(NAMES), rng.choice(THINGS)
    return (
        f"{name} has {NUMBERS[first - 1]} {thing}s and finds {NUMBERS[second - 1]} more. "
        f"now {name} has {NUMBERS[first + second - 1]} {thing}s."
    )


KINDS: tuple[Callable[[Random], str], ...] = (
    agreement,
    gift,
    packing,
    journey,
    nesting,
    counting,
    rhythm,
    boxes,
    owners,
    dictionary,
    dialogue,
    sums,
)


def paragraphs(seed: int) -> Iterator[str]:
    """Endless paragraphs, one line each, every kind equally often."""
    rng = Random(seed)
    while True:
        yield rng.choice(KINDS)(rng)
