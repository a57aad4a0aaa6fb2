"""The bench: which heads a reader switched off, and what that is said to do, predicted beside
measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from engine.core import words
from engine.core.ids import is_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel, nothing
from engine.report.contract import Bench
from engine.report.hand_sets import tried_said, tried_variant
from engine.store.runs import Run
from engine.surgery.heads.named import units_of, written
from engine.tracks.language_models.panels.heads import critical_units, picture, pooled_scores
from engine.tracks.language_models.panels.who_pays import who_pays
from engine.tracks.language_models.predicted import Guess, ahead_of_set, heads_beside, predicted
from engine.tracks.language_models.tables import TEST, VALIDATION

NOTHING = (
    "Nothing can be predicted here: effects of single heads on this axis are not known. It can be"
    " measured."
)


def bench_map(run: Run, choice: Choice, off: tuple[int, ...], held: tuple[int, ...] = ()) -> Panel:
    """Every head's effect on bias; critical ones black (white when dark), those that are off
    crossed, those that the reader protects marked. off, held: units."""
    question = (
        "Which heads are off, and what does each do to the bias of"
        f" {words.axis_name(choice.measured)}?"
    )
    table = pooled_scores(run, "z_bias", choice.measured)
    if table.empty:
        return nothing("bench_map", question, "This run has no effects on bias for this axis.")
    critical = table["unit"].isin(critical_units(run, choice))
    table = table.assign(
        critical=critical, cut=table["unit"].isin(off), held=table["unit"].isin(held)
    )
    shown = table[["layer", "head", "value", "low", "high", "critical", "cut", "held"]]
    shown = shown.rename(columns={"cut": "off", "held": "protected by you"})
    answer = f"{_off_said(len(off), len(table))} Click a head to switch it."
    if both := int((table["critical"] & table["cut"]).sum()):
        answer += (
            f" {phrasing.count(both, 'head')} of these {'is' if both == 1 else 'are'} needed to"
            " predict text."
        )
    if against := int((table["held"] & table["cut"]).sum()):
        answer += (
            f" {phrasing.count(against, 'head')} that you protect {'is' if against == 1 else 'are'}"
            " off by hand."
        )
    return Panel("bench_map", question, answer, picture(run, choice, table), shown, words.COUNTING)


def _off_said(off: int, total: int) -> str:
    return (
        f"{phrasing.count(off, 'head')} of {total} off ({phrasing.percent(off / total)})."
        if off
        else "None is off."
    )


def on_validation(run: Run, choice: Choice, off: tuple[int, ...]) -> Panel | None:
    """A set that was measured on validation prompts: what was predicted beside what came out. None
    where it was not."""
    variant = tried_variant(run, off, cut_of)
    rows = (
        [lookup.result(run, variant, metric, axis, VALIDATION) for metric, axis in _shown(choice)]
        if variant
        else []
    )
    bias, text = rows or (None, None)
    if bias is None:
        return None
    found = predicted(run, off, choice.measured)
    lines = [{"number": "change of bias", **_guess(found.change), **_came(bias, "delta")}]
    dense = lookup.result(run, "dense", "perplexity", "", VALIDATION)
    if text is not None and dense is not None:
        lines.append({"number": "change of perplexity", "measured": text["value"] - dense["value"]})
    inside = found.change.low <= bias["delta"] <= found.change.high
    answer = (
        f"On validation prompts the bias changes by {phrasing.change(bias)};"
        f" {phrasing.signed(found.change.value)} was predicted, and what came out lies"
        f" {'inside' if inside else 'outside'} the predicted interval."
    )
    note = (
        f"n = {int(bias['n'])} validation prompts. The effects on the map come from these prompts"
        " too: a set chosen by them looks better here than it is. What is predicted is the change"
        " on test prompts, which are others."
    )
    return Panel(
        "on_validation", "Does it do what was predicted?", answer, None, pd.DataFrame(lines), note
    )


def _shown(choice: Choice) -> tuple[tuple[str, str], ...]:
    return (f"bias:{choice.reading}", choice.measured), ("perplexity", "")


def _guess(guess: Guess) -> dict[str, float]:
    return {"predicted": guess.value, "predicted low": guess.low, "predicted high": guess.high}


def _came(row: dict[str, Any], what: str) -> dict[str, float]:
    return {
        "measured": row[what],
        "measured low": row[f"{what}_low"],
        "measured high": row[f"{what}_high"],
    }


def said(run: Run, choice: Choice) -> str:
    """How many sets were tried, and what chance makes of the best."""
    where = "validation prompts", "test prompts"
    return tried_said(run, f"bias:{choice.reading}", choice.measured, VALIDATION, TEST, where)


def as_method(run: Run, choice: Choice, held: Sequence[int]) -> tuple[int, ...]:
    """The heads that the chosen method cuts at the chosen level; others in place of those to
    spare."""
    if not held and is_level(choice.level, lookup.levels(run, choice.method, choice.axis)):
        return tuple(lookup.cut_units(lookup.variant_of(run, choice)))
    return heads_beside(run, choice.method, choice.axis, choice.level, held)


def cut_of(variant: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(lookup.cut_units(dict(variant)))


def head_name(run: Run, unit: int) -> str:
    return ".".join(map(str, divmod(unit, run.meta["model"]["n_heads"])))


BENCH = Bench(
    picture=bench_map,
    ahead=ahead_of_set,
    nothing=lambda run, choice: NOTHING,
    tried=on_validation,
    said=said,
    who=who_pays,
    units=units_of,
    written=written,
    cut_of=lambda run, variant: cut_of(variant),
    as_method=as_method,
    name=head_name,
    example="0.5, 3.2",
    first=lambda run: "validation prompts",
    last="test prompts",
    first_split=lambda run: VALIDATION,
)
