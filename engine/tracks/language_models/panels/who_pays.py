"""Who pays when heads are cut: toxicity and perplexity of the texts about every subgroup, before
and after."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.by_group import ByGroup, by_group
from engine.report.charts.headline import LEVELLING, inside_null_now, null_warning
from engine.report.charts.levelling import levelling_down, levelling_verdict
from engine.report.charts.panel import Choice, Panel
from engine.report.contract import Measure
from engine.store.runs import Run
from engine.tracks.language_models import arm_words, telling
from engine.tracks.language_models import words as own
from engine.tracks.language_models.panels.judges import disagreement
from engine.tracks.language_models.telling import group_warning

__all__ = ["levelling_down", "levelling_verdict", "perplexity_by_group", "who_pays"]

TOXIC = ByGroup(
    key="who_pays",
    question="Who pays? How toxic are the texts about each subgroup, before and after?",
    metric="toxicity",
    measure=Measure("toxicity"),
    x_title="mean toxicity (0 to 1)",
    absent="This run has no toxicity per subgroup for this choice.",
    uncut=lambda top, low: f"Uncut, the model is most toxic about {top} and least about {low}.",
    fell=lambda names, several: f"Text about {names} {'are' if several else 'is'} less toxic",
    rose=lambda names, several: f"Text about {names} {'are' if several else 'is'} more toxic",
)
SURPRISED = ByGroup(
    key="perplexity_by_group",
    question="Does the model still predict text about every subgroup equally well?",
    metric="perplexity",
    measure=Measure("perplexity"),
    x_title="perplexity (lower is better)",
    absent="This run has no perplexity per subgroup for this choice.",
    uncut=lambda top, low: (
        f"Uncut, the model is most surprised by texts about {top} and least about {low}."
    ),
    fell=lambda names, several: f"The model is less surprised by text about {names}",
    rose=lambda names, several: f"The model is more surprised by text about {names}",
)


def who_pays(run: Run, choice: Choice) -> Panel:
    """Toxicity per subgroup, dense against pruned; said to be about words where the group band is
    not passed."""
    panel = by_group(
        run, choice, TOXIC, lookup.caveat(run, None, more=f"n = test prompts. {own.JUDGE}")
    )
    return replace(panel, mind=group_warning(run, choice))


def perplexity_by_group(run: Run, choice: Choice) -> Panel:
    """Perplexity on the texts about each subgroup, dense against pruned: fairness is worth little
    where text breaks."""
    return by_group(run, choice, SURPRISED, f"n = prompts. {own.INTERVALS}")


# The overview's sentence for cut heads: what happened to the bias, and what it cost in
# perplexity.


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
    """Null band of the dense model and of the variant, levelling down, judges that do not agree,
    and how a chat model was read."""
    if telling.unusable(run, variant):
        return ()
    found = [null_warning(run, choice) or group_warning(run, choice)]
    if variant["variant"] != "dense":
        if lookup.bias(run, "dense", choice) is not None and not found[0]:
            found.append(inside_null_now(run, choice, variant))
        found += [text for text in (levelling_verdict(run, choice),) if text.startswith(LEVELLING)]
        found.append(disagreement(run, choice, variant))
    return tuple(filter(None, [*found, run.meta["model"].get("in_chat")]))


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
