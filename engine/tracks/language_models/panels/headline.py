"""The overview's sentence for cut heads: what happened to the bias, and what it cost in
perplexity."""

from __future__ import annotations

import math
from typing import Any

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.headline import LEVELLING, inside_null_now, null_warning
from engine.report.charts.panel import Choice
from engine.store.runs import Run
from engine.tracks.language_models import arm_words, telling
from engine.tracks.language_models.panels.group_band import group_warning
from engine.tracks.language_models.panels.judges import disagreement
from engine.tracks.language_models.panels.who_pays import levelling_verdict

_VERBS = {
    "fell": "lowers",
    "rose": "raises",
    "unclear": "does not clearly change",
    "unknown": "moves",
}


def sentence(run: Run, choice: Choice, variant: dict[str, Any]) -> str:
    """Bias before and after with the change, then perplexity."""
    axis, name = words.axis_name(choice.measured), variant["variant"]
    bias, ppl = lookup.bias(run, name, choice), lookup.result(run, name, "perplexity")
    if bias is None:
        return (
            f"The bias of {axis} was not measured for {lookup.variant_label(run, variant)} on test"
            " prompts."
        )
    if name == "dense":
        return _dense_sentence(axis, bias, ppl)
    if said := telling.unusable(run, variant):
        return said
    dense = lookup.bias(run, "dense", choice)
    how = (
        "chosen by hand"
        if words.is_by_hand(variant["method"])
        else f"with {words.method_name(variant['method'])}"
    )
    start = (
        arm_words.does(variant)
        if arm_words.is_arm(variant)
        else f"Cutting {lookup.amount(run, variant)} {how}"
    )
    levels = (
        ("not measured",) * 2
        if dense is None
        else (phrasing.number(dense["value"]), phrasing.number(bias["value"]))
    )
    kind = phrasing.direction(bias)
    was = "from {} to {} (change" if kind in ("fell", "rose") else "({} before, {} after; change"
    first = (
        f"{start} {_VERBS[kind]} the bias of {axis} {was.format(*levels)} {phrasing.change(bias)})"
    )
    return f"{first}{_cost_words(ppl)}."


def warnings(run: Run, choice: Choice, variant: dict[str, Any]) -> tuple[str, ...]:
    """Null band of the dense model and of the variant, levelling down, judges that do not agree."""
    if telling.unusable(run, variant):
        return ()
    found = [null_warning(run, choice) or group_warning(run, choice)]
    if variant["variant"] != "dense":
        if lookup.bias(run, "dense", choice) is not None and not found[0]:
            found.append(inside_null_now(run, choice, variant))
        found += [text for text in (levelling_verdict(run, choice),) if text.startswith(LEVELLING)]
        found.append(disagreement(run, choice, variant))
    return tuple(filter(None, found))


def _dense_sentence(axis: str, bias: dict[str, Any], ppl: dict[str, Any] | None) -> str:
    text = (
        f"Uncut, the model's bias of {axis} is"
        f" {phrasing.with_interval(bias['value'], bias['low'], bias['high'])}"
    )
    if math.isfinite(bias["null_low"]):
        text += (
            "; labels exchanged within templates give"
            f" {phrasing.span(bias['null_low'], bias['null_high'])}"
        )
    if math.isfinite(bias.get("group_null_low", math.nan)):
        text += (
            ", whole descriptors exchanged"
            f" {phrasing.span(bias['group_null_low'], bias['group_null_high'])}"
        )
    if ppl is not None:
        text += (
            ". Its perplexity is"
            f" {phrasing.with_interval(ppl['value'], ppl['low'], ppl['high'], True)}"
        )
    return f"{text}."


def _cost_words(ppl: dict[str, Any] | None) -> str:
    if ppl is None:
        return "; perplexity was not measured"
    kind = phrasing.direction(ppl)
    before, after = (
        phrasing.number(ppl["value"] - ppl["delta"], True),
        phrasing.number(ppl["value"], True),
    )
    if kind in ("fell", "rose"):
        return (
            f", and {_VERBS[kind]} perplexity from {before} to {after} (change"
            f" {phrasing.change(ppl, True)})"
        )
    return (
        f"; it {_VERBS[kind]} perplexity ({before} before, {after} after; change"
        f" {phrasing.change(ppl, True)})"
    )
