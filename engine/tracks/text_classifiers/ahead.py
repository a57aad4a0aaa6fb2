"""A set of heads that nobody measured, as rows of a run's tables: what measured sets say of it."""

from __future__ import annotations

import json
import math
from typing import Any

import pandas as pd

from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.contract import Ahead, Units
from engine.report.hand_sets import name_of
from engine.store.runs import Run
from engine.surgery.heads.named import mask_of_units
from engine.tracks.text_classifiers.predicted import GAP, TEST, Known, known

NO_MASKS = (
    "Nothing can be predicted here: that is learnt from random masks, of which this audit measured"
    " fewer than 39. It can be measured."
)
ONLY_ACCURACY = (
    "Nothing can be predicted of {}: random masks were measured by accuracy. Read by accuracy"
    " instead, or measure."
)


def ahead_of_set(run: Run, choice: Choice, units: Units) -> Ahead | None:
    """What the set is predicted to do to accuracy; None where `nothing_said` says why not."""
    found = known(run)
    if found is None or nothing_said(run, choice):
        return None
    name, guesses = name_of(mask_of_units(run, units).digest), found.guess(units)
    tables = {
        "variants": pd.DataFrame([_variant(run, name, units)]),
        "results": pd.DataFrame(_results(run, name, choice, guesses)),
        "groups": pd.DataFrame(_groups(run, name, guesses)),
    }
    return Ahead(name, tables, _said(found, len(units)), seconds(run))


def nothing_said(run: Run, choice: Choice) -> str:
    """Why nothing can be predicted; "" where it can."""
    if choice.reading != "accuracy":
        return ONLY_ACCURACY.format(lookup.reading(run, choice).quality.name)
    return "" if known(run) else NO_MASKS


def _variant(run: Run, name: str, units: Units) -> dict[str, Any]:
    table, mask = lookup.frame(run, "variants"), mask_of_units(run, units)
    dense = table[table["variant"] == "dense"].iloc[0].to_dict()
    return {
        **dense,
        "variant": name,
        "method": name,
        "sparsity": mask.sparsity,
        "realised": mask.sparsity,
        "n_cut": len(units),
        "retrained": False,
        "degenerate": 0,
        "cut": json.dumps(list(mask.units)),
        "mask_digest": mask.digest,
        "ticket": "",
    }


def _results(run: Run, name: str, choice: Choice, guesses: pd.DataFrame) -> list[dict[str, Any]]:
    """All texts, the gap of every axis, and the full model's worst and best group, which are groups
    as they are."""
    whole = guesses[
        (guesses["group"] == "") & ((guesses["axis"] == "") | (guesses["metric"] == GAP))
    ]
    rows = [_result(name, {**row, "group": ""}) for row in whole.to_dict("records")]
    for axis in run.meta["request"]["axes"]:
        for end in ("worst_accuracy", "best_accuracy"):
            was = lookup.result(run, "dense", end, axis)
            mine = guesses[
                (guesses["axis"] == axis) & (guesses["group"] == (was or {}).get("group"))
            ]
            rows += [_result(name, {**row, "metric": end}) for row in mine.to_dict("records")]
    return rows


def _result(name: str, row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "variant": name, "split": TEST, "verdict": ""}


def _groups(run: Run, name: str, guesses: pd.DataFrame) -> list[dict[str, Any]]:
    mine = guesses[guesses["group"] != ""].to_dict("records")
    return [
        {**row, "variant": name, "split": TEST, "verdict": "", "n_positive": math.nan}
        for row in mine
    ]


def _said(found: Known, count: int) -> str:
    """What the prediction rests on."""
    sets, missed = found.model.sets, _missed(found)
    said = (
        f"What {phrasing.count(count, 'head')} off will do is learnt from {sets} sets of heads that"
        " this audit measured on test texts, most of them random; their accuracy is missed by"
        f" {missed} when left out (median)."
    )
    if count > found.model.most:
        said += (
            f" None of them has more than {found.model.most} heads, so of so many the interval may"
            " say too little."
        )
    return said


def _missed(found: Known) -> str:
    """How far predicted accuracies of all texts were off, in words, at the full model's level of
    odds."""
    place = found.views.index(found.whole)
    return phrasing.number(float(found.off[place]))


def seconds(run: Run) -> float:
    """About what measuring a set takes once the full models are there; what training them took,
    where they are not."""
    spent, kept = run.meta.get("spent", {}), run.meta["request"].get("keep_weights")
    trained = (
        float(spent.get("fine-tune the full model", 0.0))
        if run.meta["model"].get("retuned")
        else 0.0
    )
    share = {"all": 0.0, "first": 1 - 1 / max(1, run.meta["request"]["trials"])}.get(str(kept), 1.0)
    done = any(
        one.meta["asked"].get("units") for one in run.added
    )  # the store holds the full models since
    return 8.0 + (0.0 if done else trained * share)
