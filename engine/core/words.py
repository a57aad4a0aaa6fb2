"""Names, definitions, units, directions and caveats a person reads, as far as tracks share them.

Words of one track are in engine/tracks/NAME/words.py; looking a word up here finds them too.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from engine.core.text import visible

PRODUCT = "PruneAudit"

COUNTING = "Layers and heads are counted from 0, as in mask.json."
NULL_BAND = (
    "The null band shows the gap after exchanging group labels between images of one class. The "
    "mix of classes in the subgroups and chance alone give that much."
)


@dataclass(frozen=True)
class Word:
    """A name as shown and what it means. `better` is the good direction: "lower", "higher" or ""
    for neither."""

    name: str
    definition: str
    better: str = ""
    caveat: str = ""


AXES = {
    "gender_and_sex": "gender and sex",
    "race_ethnicity": "race and ethnicity",
    "religion": "religion",
    "sexual_orientation": "sexual orientation",
    "nationality": "nationality",
}


METHODS = {
    "dense": Word("dense model", "The model as it is, nothing cut."),
    "by hand": Word(
        "by hand",
        "What a person chose after looking. The more sets were tried, the better the best one "
        "looks by chance.",
    ),
}

BY_HAND = "by hand"
PREFIX = "by-hand-"
"""How the method of a set that a person chose begins; its name follows, for each set is a method of
its own."""

ABOVE_ZERO = "It is above zero even when groups do not differ, so read it with its null band."

METRICS = {
    "auc": Word(
        "AUC",
        "ROC-AUC: how often an image or text of one class is ranked above one of the other. 1 is "
        "perfect, 0.5 a coin toss.",
        better="higher",
    ),
    "accuracy": Word("accuracy", "Share of images or texts put into their class.", better="higher"),
    "cross_entropy": Word(
        "cross-entropy", "How surprised the model is by the true classes.", better="lower"
    ),
    "tpr": Word(
        "true positive rate",
        "Of the images or texts of the class, the share that is found.",
        better="higher",
    ),
    "fpr": Word(
        "false positive rate",
        "Of the others, the share wrongly put into the class.",
        better="lower",
    ),
    "auc_gap": Word(
        "AUC gap",
        "AUC of the best-off subgroup minus that of the worst-off.",
        better="lower",
        caveat=ABOVE_ZERO,
    ),
    "accuracy_gap": Word(
        "accuracy gap",
        "Accuracy of the best-off subgroup minus that of the worst-off.",
        better="lower",
        caveat=ABOVE_ZERO,
    ),
    "tpr_gap": Word(
        "gap of true positive rates",
        "Highest minus lowest true positive rate.",
        better="lower",
        caveat=ABOVE_ZERO,
    ),
    "fpr_gap": Word(
        "gap of false positive rates",
        "Highest minus lowest false positive rate.",
        better="lower",
        caveat=ABOVE_ZERO,
    ),
    "worst_auc": Word(
        "worst-off subgroup", "AUC of the dense model's worst-off subgroup.", better="higher"
    ),
    "best_auc": Word(
        "best-off subgroup", "AUC of the dense model's best-off subgroup.", better="higher"
    ),
    "worst_accuracy": Word(
        "worst-off subgroup", "Accuracy of the dense model's worst-off subgroup.", better="higher"
    ),
    "best_accuracy": Word(
        "best-off subgroup", "Accuracy of the dense model's best-off subgroup.", better="higher"
    ),
}


PAGES = {
    "summary": "If we cut these heads, who pays, and how sure are we?",
    "reliability": "Would the head scores come out again?",
    "trade_off": "What does less bias cost in perplexity?",
    "measured": "How it was measured",
    "present": "Present",
    "export": "Export",
    "compare": "What differs between two audits?",
    "audits": "Audits",
    "new_audit": "New audit",
    "jobs": "Jobs",
    "models": "Models and data",
}


SETTINGS = {
    "track": "kind of audit",
    "max images": "images per split at most",
    "size": "side of the images in pixels",
    "train": "training of the dense model first",
    "mirror": "training images mirrored",
    "keep weights": "seeds or trials whose weights are kept",
    "ran with code": "version of the code for",
    "ran with device": "device it ran on",
    "ran with dtype": "number format",
    "rate": "learning rate",
    "gamma": "γ",
}
"""Settings of requests and methods whose own name says too little, with blanks for underscores."""

TERMS = {
    "null band": (
        "Where a value would lie by chance if subgroups did not differ. Inside it, it may be"
        " chance."
    ),
    "levelling down": (
        "A gap that shrinks because the better-off get worse, not because the others gain."
    ),
    "dense model": "The model as it is, nothing cut.",
    "sparsity": "How much of the model is cut, as a share of its parts.",
    "FLOPs": "Calculations that one answer takes. Fewer of them often, not always, means faster.",
    "false discovery rate": ("The share of the claimed differences that may be due to chance."),
    "95 % interval": (
        "Where the true value plausibly lies: intervals are made so that 19 of 20 contain it."
    ),
    "AUC": (
        "How often an item of one class is ranked above one of the other. 1 is perfect, 0.5 a "
        "coin toss."
    ),
}
"""Words that are explained where one points at them: as charts' sentences write them, and what they
mean."""

KINDS_ON_OTHER_IMAGES = (
    "These are two kinds of audit. They differ in what is cut, in training, in what a level means "
    "and in the test images. So each is read on its own: no common front is drawn, and nothing is "
    "ranked across them."
)


def model_name(name: str) -> str:
    """A model's name; of a path its last part."""
    return Path(name).name if name.startswith(("/", "~", ".")) else name


def axis_name(axis: str) -> str:
    """An axis in words; axes of the user's own files keep their name."""
    return AXES.get(axis) or visible(axis.replace("_", " "))


@cache
def _vocabularies() -> tuple[ModuleType, ...]:
    """The words of every track: engine/tracks/*/words.py."""
    package = importlib.import_module("engine.tracks")
    names = [
        f"{package.__name__}.{info.name}.words" for info in pkgutil.iter_modules(package.__path__)
    ]
    return tuple(importlib.import_module(name) for name in names)


@cache
def gathered(name: str) -> Mapping[str, Any]:
    """One of the tables of words (METHODS, METRICS, PAGES, CHOICES, SETTINGS), with what every
    track adds to it."""
    found = dict(globals().get(name, {}))
    for vocabulary in _vocabularies():
        found = {**getattr(vocabulary, name, {}), **found}
    return found


@cache
def terms(track: str = "") -> Mapping[str, str]:
    """Words that are explained where one points at them, those of the track before those that all
    share."""
    return {**TERMS, **of_track(track, "TERMS")}


def of_track(track: str, name: str) -> Mapping[str, Any]:
    """One of the tables of words as one track has it, where several call the same thing
    differently."""
    found = next((one for one in _vocabularies() if one.__name__.split(".")[-2] == track), None)
    return getattr(found, name, {})


_NO_TAGS = str.maketrans("<>", "‹›")


def method_name(method: str) -> str:
    """A method in words; an arm with its loss or score: "AutoBot + PW", "ISP by conductance".

    Names that users gave hold no tags: charts would draw them, and links of them.
    """
    method = method.translate(_NO_TAGS)
    if is_by_hand(method):
        return f"{BY_HAND}: {visible(method.removeprefix(PREFIX))}"
    for vocabulary in _vocabularies():
        if name := getattr(vocabulary, "arm_name", lambda method: "")(method):
            return name
    return _name_in("METHODS", method)


def _name_in(table: str, key: str) -> str:
    """What a table calls it; blanks for underscores where it has no name for it."""
    known = gathered(table).get(key)
    return known.name if known else visible(key.replace("_", " "))


def is_by_hand(method: str) -> bool:
    return method.startswith(PREFIX)


def method_definition(method: str) -> str:
    """What a method does, "" where nothing is said of it."""
    known = gathered("METHODS").get(method)
    return known.definition if known else ""


def work_name(what: str) -> str:
    """What a job is at, e.g. "snip, 67.2 % cut, seed 0", with the method's name where it begins
    with one."""
    method, comma, rest = str(what).partition(",")
    known = gathered("METHODS")
    return visible(
        f"{method_name(method)}{comma}{rest}" if method.partition("+")[0] in known else str(what)
    )


def choice_name(setting: str, value: str) -> str:
    """A value of a setting in words, for instance a reading of bias; blanks for underscores where
    it has none."""
    known = gathered("CHOICES").get(setting.replace(" ", "_"), {}).get(value)
    return known.name if known else visible(value.replace("_", " "))


def metric_name(metric: str) -> str:
    return _name_in("METRICS", metric)


def group_name(group: str) -> str:
    return visible(group.replace("_", " "))


def quoted(group: str) -> str:
    """A subgroup inside a sentence."""
    return f"\u201c{group_name(group)}\u201d"


def setting_name(setting: str) -> str:
    """A setting of a request or of a method in words."""
    plain = setting.replace("_", " ")
    return gathered("SETTINGS").get(plain, plain)


def title_said(title: str, axes: Iterable[str]) -> str:
    """A run's or job's title with its axes in words."""
    for axis in axes:
        title = title.replace(axis, axis_name(axis))
    return visible(title)


def head_name(layer: int, head: int) -> str:
    """One head, the same words everywhere. 0-based, as in mask.json."""
    return f"layer {layer}, head {head}"


PREDICTED = "Predicted:"
"""How a sentence begins that says how long work will take before any of it ran; the first of its
note."""


def duration(seconds: float) -> str:
    """Time in words: "40 seconds", "3 minutes", "2.5 hours"."""
    if seconds < 90:
        whole = max(1, round(seconds))
        return f"{whole} second{'' if whole == 1 else 's'}"
    if seconds < 5400:
        return f"{round(seconds / 60)} minutes"
    return f"{seconds / 3600:.1f} hours"
