"""Reading a run's tables: the variant a choice means, one result, the sentence about how it was measured."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from engine import words
from engine.audit import variants
from engine.errors import RequestError, unknown
from engine.export import say
from engine.export.panels.base import Choice
from engine.store.runs import Run

REPORTED = "test"


@lru_cache(maxsize=64)
def _read(path: Path, name: str, sha256: str) -> pd.DataFrame:
    return Run(path).table(name)


def frame(run: Run, name: str) -> pd.DataFrame:
    """A table of the run, read once per content. Shared: callers must not change it in place."""
    listed = run.meta["tables"].get(name)
    return run.table(name) if listed is None else _read(run.path, name, listed["sha256"])


def reported(run: Run) -> pd.DataFrame:
    """Variants to report: the dense model and the chosen ones."""
    table = frame(run, "variants")
    return table[table["chosen"].astype(bool)]


def of_axis(run: Run, table: pd.DataFrame, axis: str) -> pd.DataFrame:
    """Variants aimed at the axis, and those aimed at none: of these, where γ was searched, the ones at the axis' γ*."""
    return variants.of_axis(table, axis, run.meta.get("gamma") or {})


def sparsities(run: Run, method: str, axis: str) -> list[float]:
    """Asked sparsities for which this method has a reported variant; 0 is the dense model."""
    table = _of_method(run, method, axis)
    return sorted({0.0, *(float(value) for value in table["sparsity"])})


def methods(run: Run, axis: str | None = None) -> list[str]:
    """Methods with reported variants (without "dense"), FASP first, in the order of words.METHODS."""
    table = reported(run)
    if axis is not None:
        table = of_axis(run, table, axis)
    found = [name for name in table["method"].unique() if name != "dense"]
    known = list(words.METHODS)
    return sorted(found, key=lambda name: (known.index(name) if name in known else len(known), name))


def variant_of(run: Run, choice: Choice) -> dict[str, Any]:
    """The reported variant a choice means; the lowest selection seed where there are several.

    Sparsity 0 or method "dense" is the dense model. RequestError names the known methods or sparsities.
    """
    table = frame(run, "variants")
    if choice.method == "dense" or choice.sparsity == 0:
        return table[table["variant"] == "dense"].iloc[0].to_dict()
    if choice.method not in methods(run):
        raise RequestError(unknown("method", choice.method, methods(run)))
    mine = _of_method(run, choice.method, choice.axis)
    rows = mine[(mine["sparsity"] - choice.sparsity).abs() < 1e-9]
    if rows.empty:
        known = [say.percent(value) for value in sparsities(run, choice.method, choice.axis)]
        raise RequestError(unknown("sparsity", say.percent(choice.sparsity), known))
    return rows.sort_values(["seed", "variant"]).iloc[0].to_dict()


def _of_method(run: Run, method: str, axis: str) -> pd.DataFrame:
    table = of_axis(run, reported(run), axis)
    return table[table["method"] == method]


def result(run: Run, variant: str, metric: str, axis: str = "", split: str = REPORTED) -> dict[str, Any] | None:
    """One row of the results, or None where it was not measured."""
    table = frame(run, "results")
    rows = table[(table["variant"] == variant) & (table["metric"] == metric) & (table["split"] == split)]
    rows = rows[rows["axis"] == axis]
    return None if rows.empty else rows.iloc[0].to_dict()


def bias(run: Run, variant: str, choice: Choice, split: str = REPORTED) -> dict[str, Any] | None:
    return result(run, variant, f"bias:{choice.reading}", choice.measured, split)


def cut_units(variant: dict[str, Any]) -> list[int]:
    return [int(unit) for unit in json.loads(variant["cut"])]


def total_heads(run: Run) -> int:
    return int(run.meta["model"]["n_layers"]) * int(run.meta["model"]["n_heads"])


def variant_label(variant: dict[str, Any]) -> str:
    """A variant in words, e.g. "FASP, 20 % cut"."""
    if variant["variant"] == "dense":
        return words.METHODS["dense"].name
    return f"{words.method_name(variant['method'])}, {say.percent(variant['sparsity'])} cut"


def amount(run: Run, variant: dict[str, Any]) -> str:
    """How much was cut, asked and realised, e.g. "20 % of the heads asked, 6 of 32 (18.8 %) cut"."""
    n_cut, total = int(variant["n_cut"]), total_heads(run)
    return f"{n_cut} of {total} heads ({say.percent(variant['realised'])}; asked {say.percent(variant['sparsity'])})"


def measured_on(run: Run, row: dict[str, Any] | None, split: str = REPORTED) -> str:
    """How a prompt-based number was measured: prompts, seeds, judge."""
    request = run.meta["request"]
    n = "" if row is None or not math.isfinite(row["n"]) else f"{say.count(int(row['n']), split + ' prompt')}, "
    return f"{n}{say.count(int(request['seeds']), 'seed')} per prompt, judge {run.meta['judge']['name']}"


def caveat(run: Run, row: dict[str, Any] | None, split: str = REPORTED, more: str = "") -> str:
    """The line under a chart made from judged texts."""
    return f"Measured on {measured_on(run, row, split)}. {words.INTERVALS} {more}".strip()
