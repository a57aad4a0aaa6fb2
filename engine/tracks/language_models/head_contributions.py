"""head_contributions.json of FASP's published code: a number per head for every model, read and
written.

    {MODEL: {"cont_to_AXIS_bias": [...], "cont_to_ppl": [...], more lists}}

A list has one number per head, layer by layer: its places count heads from 0 (the published CSV
files count from 1). The numbers are levels with that head removed, means over seeds. Lists of other
names (norms, gradients) have scales that the published code does not say; they are neither read nor
written. NaN: a head without a score (OPT-350M has one).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.core.types import POOLED
from engine.data.prompts.table import read_utf8
from engine.report.charts import lookup
from engine.store.runs import Run
from engine.tracks.language_models.panels.heads import pooled_scores

FILE = "head_contributions.json"
START, END, PPL = "cont_to_", "_bias", "cont_to_ppl"
SHAPE = f'{{"MODEL": {{"{START}AXIS{END}": [one number per head], "{PPL}": [...]}}}}'
COLUMNS = ("model", "axis", "head", "seed", "bias_after", "ppl_after")


def read_contributions(path: Path, n_heads: Mapping[str, int]) -> tuple[pd.DataFrame, list[Fault]]:
    """COLUMNS of every model of a file that has scores of bias, and all faults; head counts from 1,
    as in CSV files.

    n_heads: heads of known models. seed is POOLED: the file holds means over seeds and does not say
    over how many.
    """
    text, faults = read_utf8(path)
    if faults:
        return pd.DataFrame(), faults
    try:
        found = json.loads(
            text, parse_int=float
        )  # a whole number of any length is no reason to fail
    except (ValueError, RecursionError) as error:
        return pd.DataFrame(), [
            Fault(path.name, f"Not JSON ({str(error)[:200]}).", f"Its form is {SHAPE}.")
        ]
    if not isinstance(found, dict):
        return pd.DataFrame(), [
            Fault(path.name, f"A {type(found).__name__}, not models by name.", f"Use {SHAPE}.")
        ]
    if lists := [str(name) for name, part in found.items() if not isinstance(part, dict)]:
        what = f"{lists[0]!r} holds no lists by name; lists lie under the name of their model."
        return pd.DataFrame(), [
            Fault(path.name, what, f"Use {SHAPE}. Heads that were cut are a mask.json: `apply`.")
        ]
    scored = {model: part for model, part in found.items() if any(_axis_of(name) for name in part)}
    if not scored:
        what = "No model has scores of bias."
        return pd.DataFrame(), [
            Fault(path.name, what, f"Lists are named {START}AXIS{END}, as in {SHAPE}.")
        ]
    for model, part in scored.items():
        faults += _faults(f"{path.name}, {model}", part, n_heads.get(model))
    rows = [] if faults else [row for model, part in scored.items() for row in _rows(model, part)]
    return pd.DataFrame(rows, columns=list(COLUMNS)), faults


def contributions(run: Run) -> dict[str, dict[str, list[float]]]:
    """What a finished audit says, in the published form: the level that an effect leaves, dense
    minus z.

    The dense level is that of validation prompts where they were measured, else of test prompts;
    the order of heads does not depend on it. Only axes with a value for every head are written.
    RequestError where none has, or z_ppl not.
    """
    total, missing = lookup.total_heads(run), []
    lists: dict[str, list[float]] = {}
    for axis in run.meta["request"]["axes"]:
        metric = f"bias:{run.meta['request']['reading']}"
        if values := _levels(run, "z_bias", axis, metric, total):
            lists[f"{START}{axis}{END}"] = values
    ppl = _levels(run, "z_ppl", "", "perplexity", total)
    if not lists:
        missing.append(
            Fault(
                "head_contributions",
                "No axis has an effect on bias of every head.",
                "Ask for FASP.",
            )
        )
    if not ppl:
        missing.append(
            Fault(
                "head_contributions", "Not every head has an effect on perplexity.", "Ask for FASP."
            )
        )
    if missing:
        raise RequestError(missing)
    return {run.meta["model"]["name"]: {**lists, PPL: ppl}}


def written(run: Run) -> str:
    """The text of the file."""
    return json.dumps(contributions(run), allow_nan=False)


def _axis_of(name: str) -> str:
    """The axis that a list is about; "" where it is about none."""
    return name[len(START) : -len(END)] if name.startswith(START) and name.endswith(END) else ""


def _rows(model: str, part: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    axes = {axis: values for name, values in part.items() if (axis := _axis_of(name))}
    return [
        (model, axis, head, POOLED, bias, ppl)
        for axis, values in axes.items()
        for head, (bias, ppl) in enumerate(zip(values, part[PPL], strict=True), 1)
        if not math.isnan(bias) and not math.isnan(ppl)
    ]


def _faults(where: str, part: Mapping[str, Any], known: int | None) -> list[Fault]:
    """What is wrong with the lists of one model that are read."""
    read = {name: values for name, values in part.items() if _axis_of(name) or name == PPL}
    faults = (
        []
        if PPL in read
        else [Fault(where, f"{PPL} is missing.", "It says which heads are critical.")]
    )
    lengths = [len(values) for values in read.values() if isinstance(values, list)]
    expected = known or max(set(lengths), key=lengths.count, default=0)
    for name, values in read.items():
        faults += _list_faults(f"{where}, {name}", values, expected)
    return faults


def _list_faults(where: str, values: Any, expected: int) -> list[Fault]:
    if not isinstance(values, list) or not values:
        return [Fault(where, "Not a list of numbers.", "One number per head, layer by layer.")]
    if bad := [at for at, value in enumerate(values) if not _is_number(value)]:
        what = f"{len(bad)} values are not numbers, the first at place {bad[0]}."
        return [Fault(where, what, "Give every head a number; places count from 0.")]
    if _heads_instead(values, expected):
        what = "Different whole numbers only: numbers of heads, where a level per head is expected."
        return [Fault(where, what, "Heads that were cut are a mask.json, which `apply` replays.")]
    if len(values) == expected + 1:
        what = f"{len(values)} numbers for {expected} heads."
        return [
            Fault(
                where,
                what,
                "Places count heads from 0: leave out what stands before the first head.",
            )
        ]
    if len(values) != expected:
        return [
            Fault(
                where,
                f"{len(values)} numbers for {expected} heads.",
                "One number per head, layer by layer.",
            )
        ]
    return []


def _is_number(value: Any) -> bool:
    return isinstance(value, float) and not math.isinf(value)


def _heads_instead(values: list[float], expected: int) -> bool:
    """Whether a list names heads, counted from 0 or 1, and says nothing about each."""
    whole = all(
        float(value).is_integer() and 0 <= value <= max(expected, len(values)) for value in values
    )
    return whole and 1 < len(values) == len(set(values))


def _levels(run: Run, score: str, axis: str, metric: str, total: int) -> list[float]:
    """The level with each head removed, in the order of heads; empty where a head has no value or
    nothing is known."""
    table, results = pooled_scores(run, score, axis), run.table("results")
    dense = results[
        (results["variant"] == "dense") & (results["metric"] == metric) & (results["axis"] == axis)
    ]
    if dense.empty or len(table) != total or table["value"].isna().any():
        return []
    level = float(
        dense.set_index("split")["value"].sort_index(ascending=False).iat[0]
    )  # validation before test
    return [float(value) for value in level - table["value"]]
