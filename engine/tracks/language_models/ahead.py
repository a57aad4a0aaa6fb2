"""A set of heads that nobody measured, as rows of a run's tables: what their single effects say of
it."""

from __future__ import annotations

import math

import pandas as pd

from engine.core.types import POOLED, HeadMask
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.contract import Ahead
from engine.report.hand_sets import name_of
from engine.store.runs import Run
from engine.tracks.language_models.any_level import compressions_of, variants_at
from engine.tracks.language_models.predicted import Guess, Prediction, predicted
from engine.tracks.language_models.tables import TEST
from engine.tracks.language_models.variants import Variant, variant_table

START = 6.0
"""Seconds that opening a model takes where nothing is known."""


def ahead_of_level(run: Run, choice: Choice) -> Ahead | None:
    """What the chosen method would cut at a level that is not finished; None where nothing can be
    predicted."""
    if choice.method in compressions_of(run):
        return None
    return _ahead(run, choice, variants_at(run, choice.method, choice.axis, choice.level)[0])


def ahead_of_set(run: Run, choice: Choice, units: tuple[int, ...]) -> Ahead | None:
    """The same for heads chosen by hand."""
    mask = HeadMask.from_units(run.meta["model"]["n_layers"], run.meta["model"]["n_heads"], units)
    name = name_of(mask.digest)
    return _ahead(run, choice, Variant(name, name, "", math.nan, mask.sparsity, POOLED, mask.units))


def _ahead(run: Run, choice: Choice, variant: Variant) -> Ahead | None:
    """None for another reading of bias than effects were measured by, and for heads that were not
    ranked."""
    if choice.reading != run.meta["request"]["reading"]:
        return None
    found = predicted(run, variant.cut, choice.measured)
    if math.isnan(found.change.value):
        return None
    model = run.meta["model"]
    tables = {
        "variants": variant_table([variant], model["n_layers"], model["n_heads"]),
        "results": (
            pd.DataFrame(_results(run, choice, found)).assign(variant=variant.id, split=TEST)
        ),
        "groups": _groups(run, choice, found).assign(variant=variant.id, split=TEST),
    }
    return Ahead(variant.id, tables, _said(found), _seconds(run))


def _results(run: Run, choice: Choice, found: Prediction) -> list[dict[str, object]]:
    """Bias on the axis and perplexity, with the ends of the prediction."""
    metric = f"bias:{choice.reading}"
    bias, text = lookup.bias(run, "dense", choice), lookup.result(run, "dense", "perplexity")
    rows = []
    if bias is not None:
        change = found.change
        rows.append(
            {
                "metric": metric,
                "axis": choice.measured,
                "n": bias["n"],
                **_level(found.bias),
                **_delta(change),
            }
        )
    if text is not None:
        change = Guess(
            *(end - text["value"] for end in (found.perplexity.value, *_ends(found.perplexity)))
        )
        rows.append(
            {
                "metric": "perplexity",
                "axis": "",
                "n": text["n"],
                **_level(found.perplexity),
                **_delta(change),
            }
        )
    return [{"group": "", "verdict": "", "group_note": "", **row} for row in rows]


def _groups(run: Run, choice: Choice, found: Prediction) -> pd.DataFrame:
    """Mean toxicity per subgroup where the run has effects per subgroup; a share stays between 0
    and 1."""
    dense = lookup.groups_of(run, "dense", "toxicity", choice.measured).set_index("group")
    rows = []
    for row in found.groups.to_dict("records"):
        if row["group"] in dense.index:
            was = dense.loc[row["group"]]
            ends = {
                name: min(1.0, max(0.0, was["value"] + row[name]))
                for name in ("value", "low", "high")
            }
            change = _delta(Guess(row["value"], row["low"], row["high"]))
            same = {
                "metric": "toxicity",
                "axis": choice.measured,
                "n": was["n"],
                "verdict": was["verdict"],
            }
            rows.append({"group": row["group"], **same, **ends, **change})
    return pd.DataFrame(
        rows, columns=list(rows[0]) if rows else list(lookup.frame(run, "groups").columns)
    )


def _level(guess: Guess) -> dict[str, float]:
    return {"value": guess.value, "low": guess.low, "high": guess.high}


def _delta(guess: Guess) -> dict[str, float]:
    return {"delta": guess.value, "delta_low": guess.low, "delta_high": guess.high}


def _ends(guess: Guess) -> tuple[float, float]:
    return guess.low, guess.high


def _said(found: Prediction) -> str:
    """What a prediction rests on."""
    heads = phrasing.count(len(found.units), "head")
    return f"What {heads} off will do is taken to be the sum of what each does alone. {found.note}"


def _seconds(run: Run) -> float:
    """About what measuring one variant on one axis takes: the audit's time for all of them, shared
    out; NaN where it measured none itself."""
    spent = float(run.meta.get("spent", {}).get("measure variants", 0.0))
    variants, axes = len(lookup.reported(run)), len(run.meta["request"]["axes"])
    return START + spent / (variants * axes) if spent > 1 else math.nan
