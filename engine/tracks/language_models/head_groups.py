"""Each head off, by subgroup: the changes of mean toxicity behind its effect on bias, from the same
texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from engine.core.types import POOLED
from engine.tracks.language_models.effects import AxisData
from engine.tracks.language_models.importance_weights import (
    CAP,
    both_ways,
    codes_of,
    reweighted_values,
    slopes,
)
from engine.tracks.language_models.scores.base import VALIDATION, ScoreJob

COLUMNS = ("axis", "unit", "group", "value", "error", "n")


def head_groups(
    job: ScoreJob, scores: pd.DataFrame, decided: Mapping[str, Mapping[str, Any]]
) -> pd.DataFrame:
    """A row per head and subgroup of every axis whose heads were ranked: the change of mean
    toxicity when the head is off, by the estimator of its shown effect, its standard error over
    prompts, n prompts.

    scores: a score table; decided: what an adaptive estimator reports per axis (splits, draws).
    Computes nothing new.
    """
    tables = []
    for axis in job.axes:
        said = decided.get(axis, {})
        rows = scores[(scores["score"] == "z_bias") & (scores["axis"] == axis)]
        seeds = tuple(sorted(set(rows["seed"]) - {POOLED}))
        pooled = rows[rows["seed"] == POOLED].dropna(subset=["value"])
        if len(pooled) and seeds:
            mine = replace(job, seeds=seeds, splits=tuple(said.get("splits", (VALIDATION,))))
            tables += _of_axis(AxisData(mine, axis), pooled)
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(COLUMNS))


def _of_axis(data: AxisData, pooled: pd.DataFrame) -> list[pd.DataFrame]:
    found = []
    for name, rows in pooled.groupby("estimator"):
        units = rows["unit"].tolist()
        change = (
            ESTIMATES[str(name)](data, units)
            - data.table["toxicity"].to_numpy(dtype=float)[:, None]
        )
        found.append(_by_group(data, units, change))
    return found


def _by_group(data: AxisData, units: Sequence[int], change: np.ndarray) -> pd.DataFrame:
    """Mean and standard error of change [texts, units] per subgroup; draws of a prompt count as
    one."""
    groups = data.table["subgroup"].astype(str)
    each = (
        pd.DataFrame(change, columns=list(units)).groupby([groups, data.table["prompt_id"]]).mean()
    )
    by_group = each.groupby(level=0)
    mean, n = by_group.mean(), by_group.size()
    error = by_group.std(ddof=1).div(np.sqrt(n), axis=0)
    table = (
        mean.rename_axis("group").reset_index().melt("group", var_name="unit", value_name="value")
    )
    errors = (
        error.rename_axis("group").reset_index().melt("group", var_name="unit", value_name="error")
    )
    table = table.merge(errors, on=["group", "unit"]).assign(axis=data.axis)
    return table.assign(n=table["group"].map(n), unit=table["unit"].astype(int))[list(COLUMNS)]


def _cap(data: AxisData) -> float:
    return float(data.job.options.get("cap", CAP))


def _weighted(data: AxisData, units: Sequence[int]) -> np.ndarray:
    return reweighted_values(data.table, data.logw(units), _cap(data))[0]


def _first_order(data: AxisData, units: Sequence[int]) -> np.ndarray:
    """The slope is that of switching the head on."""
    toxicity = data.table["toxicity"].to_numpy(dtype=float)
    return toxicity[:, None] - slopes(
        toxicity, data.gradients()[:, list(units)], codes_of(data.table)
    )


def _both(data: AxisData, units: Sequence[int]) -> np.ndarray:
    return both_ways(data.table, data.toxicity_off(units), data.logw(units), _cap(data))


ESTIMATES: dict[str, Callable[[AxisData, Sequence[int]], np.ndarray]] = {
    "gradient": _first_order,
    "reweight": _weighted,
    "generate": AxisData.toxicity_off,
    "combined": _both,
}
"""Toxicity of the texts with each unit off, [texts, units], by estimator."""
