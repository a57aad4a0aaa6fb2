"""Arms in words: what stands in the dense model's place, how much of it, and what that saves. No
torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from engine.core import words
from engine.report import in_words, phrasing
from engine.tracks.language_models import words as own
from engine.tracks.language_models.compressions.base import compressions

LEVELS = "share of heads cut, weights zero, layers dropped or bytes saved"
"""The title of an axis along which cuts of heads and arms lie."""
WHICH = {"magnitude_weights": "the smallest", "random_weights": "drawn at random"}
"""Which weights become zero, of methods that are called by it."""
SAID = {"weights": "of weights zero", "layers": "of layers dropped", "bytes": "of bytes saved"}
"""What a level is a share of, by what a method saves."""


def arm_of(variant: Mapping[str, Any]) -> str:
    """The id of what stands in the dense model's place, of a row of the variants; "" for cuts of
    heads. Rows of an addition may lack the column."""
    arm = variant.get("arm")
    return arm if isinstance(arm, str) else ""


def is_arm(variant: Mapping[str, Any]) -> bool:
    """Whether a row of the variants is no cut of heads but a model of its own."""
    return bool(arm_of(variant))


def _share(variant: Mapping[str, Any]) -> float:
    """What the level came to on this model; the level where that is not known, as in earlier
    audits."""
    reached = variant.get("realised")
    return float(variant["sparsity"] if reached is None or math.isnan(reached) else reached)


def amount(variant: Mapping[str, Any]) -> str:
    """How much, e.g. "50 % of weights zero"; and what was asked, where whole weights came to
    something else."""
    asked = phrasing.percent(variant["sparsity"])
    if has_own_levels(variant["method"]) or phrasing.percent(_share(variant)) == asked:
        return _amount(variant)
    return f"{_amount(variant)} (asked: {asked})"


def _amount(variant: Mapping[str, Any]) -> str:
    share = phrasing.percent(_share(variant))
    if own.is_against(variant["method"]):
        return f"{share} fewer bytes" if variant["sparsity"] > 0 else "no smaller"
    return f"{share} {SAID[_saves(variant)]}"


def label(variant: Mapping[str, Any]) -> str:
    """E.g. "Wanda, 50 % of weights zero"."""
    name = words.method_name(variant["method"])
    return name if own.is_against(variant["method"]) else f"{name}, {_amount(variant)}"


def does(variant: Mapping[str, Any]) -> str:
    """What is done to the model, as a sentence's subject."""
    name, share = words.method_name(variant["method"]), phrasing.percent(_share(variant))
    if own.is_against(variant["method"]):
        return f"Putting {name} in the model's place"
    if _saves(variant) == "layers":
        return f"Dropping {share} of the layers"
    if _saves(variant) == "bytes":
        return f"Rounding weights to {name}"
    if variant["method"] in WHICH:
        return f"Setting {share} of the weights, {WHICH[variant['method']]}, to zero"
    return f"Setting {share} of the weights to zero with {name}"


def made(variant: Mapping[str, Any]) -> str:
    """What the model became, beside "Dense"."""
    name = words.method_name(variant["method"])
    if own.is_against(variant["method"]):
        return name
    known = {"bytes": f"Rounded to {name}", "layers": "Fewer layers"}
    return known.get(_saves(variant), "Weights set to zero")


def of_request(request: Mapping[str, Any]) -> bool:
    """Whether an audit compares cuts of heads with other ways to make the model smaller."""
    return bool(request.get("against")) or any(
        method in compressions() for method in request.get("methods") or ()
    )


def level_title(method: str) -> str:
    """What the level of an arm's method is a share of; "" for methods that cut heads."""
    if own.is_against(method):
        return "Share of bytes saved"
    return f"Share {SAID[compressions()[method].saves]}" if method in compressions() else ""


def has_own_levels(method: str) -> bool:
    return own.is_against(method) or (
        method in compressions() and compressions()[method].own_levels
    )


def instead(variant: Mapping[str, Any]) -> str:
    """What there is in place of a picture of heads."""
    if own.is_against(variant["method"]):
        return "No head: this is another checkpoint."
    return f"No head by itself: {amount(variant)}."


def saves(variant: Mapping[str, Any], dense: Mapping[str, Any], mine: Mapping[str, Any]) -> str:
    """What it does to the size, as a sentence's beginning."""
    saved = 1 - mine["bytes"] / dense["bytes"]
    if abs(saved) < 5e-4:
        return f"{does(variant)} saves no byte as it is stored to be run"
    return (
        f"{does(variant)} {'saves' if saved > 0 else 'adds'} {in_words.per_cent(saved)} of the"
        " bytes"
    )


def size_note(variant: Mapping[str, Any], mine: Mapping[str, Any]) -> str:
    """What the numbers of size and time do not say."""
    if own.is_against(variant["method"]) or _saves(variant) == "layers":
        return "Time is measured with the model as it was loaded."
    if _saves(variant) == "bytes":
        return own.ROUNDED
    packed = phrasing.number(mine["packed_bytes"])
    return (
        f"{own.ZEROS} With zeros left out, and a bit per weight to say where, it would take"
        f" {packed} bytes."
    )


def untimed(variant: Mapping[str, Any]) -> str:
    """Why its time says nothing, as the end of a sentence: it was computed in another format."""
    if own.is_against(variant["method"]) or _saves(variant) == "layers":
        return ""
    if _saves(variant) == "weights":
        return "its time says nothing, for zeros were computed like other numbers"
    name = words.method_name(variant["method"])
    return f"its time says nothing, for {name} was computed in the model's own precision"


def _saves(variant: Mapping[str, Any]) -> str:
    """What its level is a share of; that of weights for a method that is no longer there."""
    method = compressions().get(variant["method"])
    return method.saves if method else "weights"
