"""Words about audits of filters: methods, losses, caveats."""

from __future__ import annotations

import re

from engine.core.words import Word
from engine.store.runs import Run

INTERVALS_IMAGES = "Intervals are 95 %, over images and trials; changes are paired, image by image."

MADE_ON_IMAGES = (
    "Filters are chosen and models retrained on training images; results come from test images"
    " only."
)

NOT_RETRAINED = (
    "Filters are silenced in the dense model and nothing is trained again. The audit's other "
    "variants were retrained after their cut, so they differ in that, too."
)
"""Of a set that a person chose."""

NO_EFFECTS = (
    "No prediction here: nobody measured what each filter does alone. The page Filters (tab "
    "Scores) or `python -m engine measure RUN --effects` measures it."
)

METHODS = {
    "autobot": Word(
        "AutoBot",
        "Learns one gate per filter that holds information back until the FLOPs target is met.",
    ),
    "taylor": Word(
        "Taylor", "Cuts, a few at a time, the filters whose removal should change the loss least."
    ),
    "random": Word("random", "Cuts filters drawn at random, with a stated seed. The reference."),
    "magnitude": Word("magnitude", "Cuts the filters with the smallest weights; ignores data."),
    "fpgm": Word(
        "FPGM",
        "Cuts the filters nearest to the geometric median of their layer: the most replaceable"
        " ones.",
    ),
}
"""Methods that cut filters. An arm of an audit is one of them with a loss: "autobot+pw"."""

LOSSES = {
    "plain": Word("plain loss", "Cross-entropy as it is."),
    "pw": Word(
        "PW",
        "Performance-weighted loss: images that the original model was unsure about weigh more. "
        "Where that model was right, its own outputs are the labels. The loss never sees the "
        "groups.",
    ),
    "weights": Word("PW weights", "Only the weights of the PW loss; the labels stay as they are."),
    "labels": Word(
        "PW labels", "Only the corrected soft labels of the PW loss; every image weighs the same."
    ),
}

PLACES = {"prune": "in pruning", "retrain": "in retraining", "both": "in both"}
"""Where a part of the PW loss is switched on."""


def loss_name(loss: str) -> str:
    """A loss in words; a part of one with its place: "PW labels in retraining"."""
    part, _, place = loss.partition("@")
    name = LOSSES[part].name if part in LOSSES else part.replace("_", " ")
    return f"{name} {PLACES.get(place, place)}" if place else name


TERMS = {
    "AutoBot": METHODS["autobot"].definition,
    "Taylor": METHODS["taylor"].definition,
    "FPGM": METHODS["fpgm"].definition,
    "PW loss": LOSSES["pw"].definition,
    "PW": LOSSES["pw"].definition,
}

PAGES = {
    "bench": "What if these filters are off?",
    "filters": "Which subgroup pays, and does the PW loss help it?",
    "picture": "What does it answer to a picture, and where does it look?",
}


def arm_of(method: str) -> tuple[str, str]:
    """(base method, loss) of an arm's name: "autobot+pw" is ("autobot", "pw")."""
    base, plus, loss = method.partition("+")
    return base, loss if plus else "plain"


def arm_name(method: str) -> str:
    """A method with its loss in words, "AutoBot + PW"; "" where it has none."""
    base, loss = arm_of(method)
    if "+" not in method or base not in METHODS:
        return ""
    return f"{METHODS[base].name} + {loss_name(loss)}"


SETTINGS = {
    "retrain": "retraining",
    "pw": "PW loss",
    "theta": "θ",
    "beta": "β",
}


# What a run's units are called: filters of a CNN, heads of a vision transformer.


FILTERS, HEADS = "filters", "heads"
_OF_HEADS = {
    "filter": "head",
    "Filter": "Head",
    "filters": "heads",
    "Filters": "Heads",
    "first convolution": "attention layer",
}


def units_of(run: Run) -> str:
    """The units of a run in the plural."""
    return str(run.model.get("units", FILTERS))


def said(run: Run, text: str) -> str:
    """A text written about filters, about the run's units."""
    return in_units(text, units_of(run))


def in_units(text: str, units: str) -> str:
    """A text written about filters, about these units."""
    if units != HEADS:
        return text
    return re.sub(rf"\b({'|'.join(_OF_HEADS)})\b", lambda found: _OF_HEADS[found[0]], text)
