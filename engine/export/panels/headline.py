"""The answer in a sentence and four numbers: does this cut help, what does it cost, who pays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from engine import words
from engine.export import say
from engine.export.panels import lookup
from engine.export.panels.base import Choice
from engine.export.panels.who_pays import levelling_verdict
from engine.store.runs import Run


@dataclass(frozen=True)
class Number:
    """One number with its interval and its paired change against the dense model. NaN where not measured."""

    label: str
    value: float
    low: float
    high: float
    delta: float
    delta_low: float
    delta_high: float
    unit: str
    good_direction: str
    text: str
    change_text: str
    verdict: str
    """ "better", "worse", "no clear change", "not compared" or "" for the dense model itself."""
    help: str


@dataclass(frozen=True)
class Headline:
    """What an overview shows. `warnings` must be shown; `caveat` says n, seeds, judge and kind of interval."""

    sentence: str
    numbers: tuple[Number, ...]
    warnings: tuple[str, ...]
    caveat: str


def headline(run: Run, choice: Choice) -> Headline:
    """The overview of one variant, from test prompts only. Raises RequestError for an unknown method or sparsity."""
    variant = lookup.variant_of(run, choice)
    name = variant["variant"]
    bias = lookup.bias(run, name, choice)
    perplexity = lookup.result(run, name, "perplexity")
    worst = lookup.result(run, name, "worst_group", choice.measured)
    best = lookup.result(run, name, "best_group", choice.measured)
    metrics = [f"bias:{choice.reading}", "worst_group", "best_group", "perplexity"]
    rows = [bias, worst, best, perplexity]
    numbers = tuple(_number(metric, row, name) for metric, row in zip(metrics, rows, strict=True) if row is not None)
    note = lookup.caveat(run, bias, more=words.JUDGE)
    return Headline(_sentence(run, choice, variant, bias, perplexity), numbers, _warnings(run, choice, variant), note)


def _number(metric: str, row: dict[str, Any], variant: str) -> Number:
    word, is_ppl = words.METRICS[metric], metric == "perplexity"
    nan = math.nan
    return Number(
        label=word.name,
        value=row["value"],
        low=row["low"],
        high=row["high"],
        delta=row.get("delta", nan),
        delta_low=row.get("delta_low", nan),
        delta_high=row.get("delta_high", nan),
        unit=word.unit,
        good_direction=word.better,
        text=say.number(row["value"], is_ppl),
        change_text="" if variant == "dense" else say.change(row, is_ppl),
        verdict="" if variant == "dense" else verdict(row, word.better),
        help=f"{word.definition} {word.caveat}".strip(),
    )


def verdict(row: dict[str, Any], better: str) -> str:
    """Whether a change is for the better, given the good direction."""
    kind = say.direction(row)
    if kind in ("unclear", "unknown"):
        return "no clear change" if kind == "unclear" else "not compared"
    return "better" if (kind == "fell") == (better == "lower") else "worse"


def _sentence(
    run: Run, choice: Choice, variant: dict[str, Any], bias: dict[str, Any] | None, ppl: dict[str, Any] | None
) -> str:
    axis = words.axis_name(choice.measured)
    if bias is None:
        return f"The bias of {axis} was not measured for {lookup.variant_label(variant)} on test prompts."
    if variant["variant"] == "dense":
        return _dense_sentence(axis, bias, ppl)
    dense = lookup.bias(run, "dense", choice)
    start = f"Cutting {lookup.amount(run, variant)} with {words.method_name(variant['method'])}"
    levels = ("not measured",) * 2 if dense is None else (say.number(dense["value"]), say.number(bias["value"]))
    verbs = {"fell": "lowers", "rose": "raises", "unclear": "does not clearly change", "unknown": "moves"}
    kind = say.direction(bias)
    was = "from {} to {} (change" if kind in ("fell", "rose") else "({} before, {} after; change"
    first = f"{start} {verbs[kind]} the bias of {axis} {was.format(*levels)} {say.change(bias)})"
    return f"{first}{_cost_words(ppl)}."


def _dense_sentence(axis: str, bias: dict[str, Any], ppl: dict[str, Any] | None) -> str:
    text = f"Uncut, the model's bias of {axis} is {say.with_interval(bias['value'], bias['low'], bias['high'])}"
    if math.isfinite(bias["null_low"]):
        text += f"; equal subgroups would give {say.span(bias['null_low'], bias['null_high'])} by chance"
    if ppl is not None:
        text += f". Its perplexity is {say.with_interval(ppl['value'], ppl['low'], ppl['high'], True)}"
    return f"{text}."


def _cost_words(ppl: dict[str, Any] | None) -> str:
    if ppl is None:
        return "; perplexity was not measured"
    verbs = {"fell": "lowers", "rose": "raises", "unclear": "does not clearly change", "unknown": "moves"}
    kind = say.direction(ppl)
    before, after = say.number(ppl["value"] - ppl["delta"], True), say.number(ppl["value"], True)
    if kind in ("fell", "rose"):
        return f", and {verbs[kind]} perplexity from {before} to {after} (change {say.change(ppl, True)})"
    return f"; it {verbs[kind]} perplexity ({before} before, {after} after; change {say.change(ppl, True)})"


def _warnings(run: Run, choice: Choice, variant: dict[str, Any]) -> tuple[str, ...]:
    found = []
    if text := null_warning(run, choice):
        found.append(text)
    if variant["variant"] != "dense":
        bias, dense = lookup.bias(run, variant["variant"], choice), lookup.bias(run, "dense", choice)
        if bias is not None and dense is not None and say.inside_null(bias) and not say.inside_null(dense):
            found.append(
                f"After the cut the bias ({say.number(bias['value'])}) lies inside its null band (up to "
                f"{say.number(bias['null_high'])}): at this n it cannot be told from no difference."
            )
        found += [text for text in (levelling_verdict(run, choice),) if text.startswith("Levelling down")]
    return tuple(found)


def null_warning(run: Run, choice: Choice) -> str:
    """What to say when the dense bias is no larger than chance gives; "" otherwise."""
    dense = lookup.bias(run, "dense", choice)
    if dense is None or not say.inside_null(dense):
        return ""
    return (
        f"The dense model's bias of {words.axis_name(choice.measured)} ({say.number(dense['value'])}) lies inside its "
        f"null band ({say.span(dense['null_low'], dense['null_high'])}): at {say.count(int(dense['n']), 'prompt')} it "
        "cannot be told from chance. Changes and head rankings for this axis are not supported."
    )
