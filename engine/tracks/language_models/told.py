"""What was predicted beside what was measured, for whoever asked for more of an audit. No torch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pandas as pd

from engine.audit.growth import Growth
from engine.report.charts import lookup
from engine.report.hand_told import told_of
from engine.store.runs import Run
from engine.tracks.language_models.growing import variants_of
from engine.tracks.language_models.growing_benchmarks import told_benchmarks
from engine.tracks.language_models.predicted import Guess, Prediction, predicted
from engine.tracks.language_models.tables import TEST

_NOTHING = Guess(math.nan, math.nan, math.nan)


def told(before: Run, after: Run, growth: Growth) -> dict[str, Any]:
    """As `told_of` says it; a row per number about a variant on an axis, or on a benchmark."""
    if growth.benchmarks:
        return told_of(before, after, TEST, {}, told_benchmarks(after, growth), [])
    if growth.judge:
        return _by_judge(before, after, growth)
    variants, split = variants_of(after, growth)
    n_heads = after.meta["model"]["n_heads"]
    rows, notes = [], []
    if split != TEST:
        notes.append(
            f"Predictions are of {TEST} prompts; these numbers are of {split} prompts, which are"
            " others."
        )
    for variant in variants:
        for axis in growth.axes:
            guess = None if variant.arm else predicted(before, variant.cut, axis)
            rows += list(_rows(guess, after, variant.id, len(variant.cut), axis, split))
        notes += [] if variant.arm else [predicted(before, variant.cut, growth.axis).note]
    heads = {one.id: [divmod(unit, n_heads) for unit in one.cut] for one in variants}
    return told_of(before, after, split, heads, rows, notes)


def _by_judge(before: Run, after: Run, growth: Growth) -> dict[str, Any]:
    """What the judge sees of every reported variant; nothing was predicted of it."""
    said = {"judge": growth.judge, "label": growth.label}
    names = {
        one.meta["asked"]["judge_hash"]
        for one in after.added
        if one.meta["provenance"].get("asked_as") == said
    }
    if not names:  # it was asked before, from another place
        from engine.tracks.language_models import opinions  # late: it loads torch

        names = {opinions.inspect_judge(growth.judge, label=growth.label).digest}
    table, metric = after.table("opinions"), f"bias:{after.meta['request']['reading']}"
    mine = table[
        table["judge_hash"].isin(names)
        & (table["metric"] == metric)
        & table["axis"].isin(growth.axes)
    ]
    cut = after.table("variants").set_index("variant")["n_cut"]
    rows = []
    for row in mine.to_dict("records"):
        same = {"variant": row["variant"], "n_cut": int(cut[row["variant"]]), "axis": row["axis"]}
        what = "value" if row["variant"] == "dense" else "delta"
        number = f"{'bias' if what == 'value' else 'change of bias'}, judged by {row['judge']}"
        rows.append({**same, "number": number, **_guessed(_NOTHING), **_measured(row, what)})
    return told_of(before, after, TEST, {}, rows, [])


def _rows(
    guess: Prediction | None, after: Run, name: str, n_cut: int, axis: str, split: str
) -> Iterator[dict[str, Any]]:
    """guess: None where nothing is predicted."""
    reading = after.meta["request"]["reading"]
    change, level, text_guess = (
        (guess.change, guess.bias, guess.perplexity) if guess else [_NOTHING] * 3
    )
    groups = guess.groups.set_index("group") if guess else pd.DataFrame()
    bias = lookup.result(after, name, f"bias:{reading}", axis, split)
    text = lookup.result(after, name, "perplexity", "", split)
    same = {"variant": name, "n_cut": n_cut, "axis": axis}
    if bias is not None:
        yield {**same, "number": "change of bias", **_guessed(change), **_measured(bias, "delta")}
        yield {**same, "number": "bias", **_guessed(level), **_measured(bias, "value")}
    if text is not None:
        yield {**same, "number": "perplexity", **_guessed(text_guess), **_measured(text, "value")}
    for row in lookup.groups_of(after, name, "toxicity", axis, split).to_dict("records"):
        known = groups.loc[row["group"]].to_dict() if row["group"] in groups.index else {}
        there = {f"predicted{end}": known.get(end[1:] or "value") for end in ("", "_low", "_high")}
        yield {
            **same,
            "number": f"change of toxicity, {row['group']}",
            **there,
            **_measured(row, "delta"),
        }


def _guessed(guess: Guess) -> dict[str, float]:
    return {"predicted": guess.value, "predicted_low": guess.low, "predicted_high": guess.high}


def _measured(row: dict[str, Any], what: str) -> dict[str, float]:
    ends = ("low", "high") if what == "value" else ("delta_low", "delta_high")
    return {"measured": row[what], "low": row[ends[0]], "high": row[ends[1]]}
