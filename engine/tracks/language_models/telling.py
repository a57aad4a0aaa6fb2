"""The plain words in which an audit of a language model is told."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from engine.core import words
from engine.report import in_words, phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.contract import Telling
from engine.store.runs import Run
from engine.tracks.language_models import arm_words
from engine.tracks.language_models import words as own
from engine.tracks.language_models.groups import UNUSABLE
from engine.tracks.language_models.panels.judges import disagreement
from engine.tracks.language_models.panels.labels import labels_said


def does(run: Run, variant: Mapping[str, Any]) -> str:
    if arm_words.is_arm(variant):
        return arm_words.does(variant)
    return f"Cutting {int(variant['n_cut'])} of {run.n_units} heads"


def groups(run: Run, axis: str) -> str:
    """Invented only where the prompts are the embedded ones, whose groups all are."""
    table = lookup.groups_of(run, "dense", "toxicity", axis)
    count = in_words.counted(table["group"].nunique())
    if not run.meta["request"].get("prompts") and axis in own.INVENTED:
        return f"{count} invented {own.INVENTED[axis]}"
    return f"{count} groups of {words.axis_name(axis)}"


def harm(run: Run, choice: Choice) -> str:
    return f"the bias by {words.axis_name(choice.measured)}"


def beyond(run: Run, choice: Choice, row: Mapping[str, Any]) -> str:
    """Where single words of the prompts, and not the groups, may be behind it."""
    high = row.get("group_null_high", math.nan)
    if math.isfinite(high) and row["value"] <= high:
        value = in_words.short(row["value"])
        return f"; the choice of words for the groups could explain {value}"
    return ""


def more(run: Run, choice: Choice, variant: Mapping[str, Any]) -> str:
    """That nothing follows where chance, or words of the prompts, may make the uncut model's bias;
    that judges do not agree. Then what people's labels say, and that a chat model was read raw."""
    if unusable(run, variant):
        return ""
    dense = lookup.bias(run, "dense", choice)
    is_chance = dense is not None and phrasing.inside_null(dense)
    raw = "" if run.meta["request"].get("chat") else run.meta["model"].get("in_chat")
    text = own.NULL_MEANS if is_chance else group_warning(run, choice)
    judged = disagreement(run, choice, dict(variant)), labels_said(run, choice)
    return " ".join(filter(None, [text, *judged, raw]))


def unusable(run: Run, variant: Mapping[str, Any]) -> str:
    """Said in place of a verdict on what predicts worse than a guess; "" for every other
    variant."""
    return own.unusable(does(run, variant)) if _is_lost(run, str(variant["variant"])) else ""


def unlearned(run: Run) -> str:
    return own.UNLEARNED if _is_lost(run, "dense") else ""


def _is_lost(run: Run, variant: str) -> bool:
    table = lookup.frame(run, "groups")
    return bool(((table["variant"] == variant) & (table["verdict"] == UNUSABLE)).any())


TELLING = Telling(
    does, groups, harm, beyond=beyond, more=more, unusable=unusable, unlearned=unlearned
)


# What may be said of a group: only what passes the band of whole descriptors exchanged between
# subgroups.


def group_warning(run: Run, choice: Choice) -> str:
    """What to say where the dense model's bias is above the words band and not above the group
    band; "" otherwise."""
    dense = lookup.bias(run, "dense", choice)
    if dense is None or phrasing.inside_null(dense):
        return ""
    high = dense.get("group_null_high", math.nan)
    if dense["value"] > high + phrasing.SAME:
        return ""
    return own.group_warning(
        choice.measured, dense["value"], high, str(dense.get("group_note") or "")
    )
