"""The demo's audit as it is shipped: are head effects shown in their true size, which heads are
found, do they repeat?

Truth is `generate` with other draws of the very prompts that the audit scored on. Heads whose shown
effect is below SCREEN of the bias are not generated: their true effect is taken to be small.
Finished parts are kept in the store (--store of the command line's default, $PRUNEAUDIT_STORE), so
a second run takes seconds.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.report import Measure
from engine.audit.session import Local
from engine.core.types import POOLED, Hooks
from engine.core.words import axis_name
from engine.stats.reliability import icc_c1
from engine.store.runs import Store, default_root
from engine.tracks.language_models.bias import bias
from engine.tracks.language_models.controls import with_measuring
from engine.tracks.language_models.effects import AxisData, dense_shards, estimated, off_shards
from engine.tracks.language_models.opening import Audit, open_audit
from engine.tracks.language_models.request import REQUEST, validate
from engine.tracks.language_models.run import score_heads
from engine.tracks.language_models.scores import ScoreJob

TRUTH_FROM, DRAWS = 1000, 20
SCREEN = 0.05
"""Share of the bias from which a shown effect is compared with the truth."""
LARGE = 0.1
"""Share of the bias above which a true effect is large; all others are small."""
QUICK: dict[str, Any] = {"axes": REQUEST.axes[:1], "max_prompts": 60, "max_new_tokens": 10}


@dataclass(frozen=True)
class Axis:
    """One axis. shown: pooled z_bias rows, index unit. by_draw [units, draws]. truth: by unit.
    bias: of the truth's draws."""

    name: str
    shown: pd.DataFrame
    by_draw: np.ndarray
    truth: pd.Series
    bias: float

    @property
    def large(self) -> pd.Index:
        return self.truth.index[self.truth.abs() > LARGE * self.bias]


def measures(quick: bool) -> list[Measure]:
    axes = _axes(replace(REQUEST, **QUICK) if quick else REQUEST, 2 if quick else DRAWS)
    rows = [row for axis in axes for row in _sizes(axis)]
    found = {axis.name: int((axis.shown["q"] <= 0.05).sum()) for axis in axes}
    rows += [
        Measure(f"demo, {name}: heads found at q <= .05", n, "heads", 1, True)
        for name, n in found.items()
    ]
    three = sum(n >= 3 for n in found.values())
    rows.append(
        Measure("demo: axes on which at least three heads are found", three, "axes", 4, True)
    )
    return rows + _repeats(axes)


def _sizes(axis: Axis) -> list[Measure]:
    """How large effects are shown, over heads whose true effect is large."""
    true, rows = axis.truth[axis.large].to_numpy(), axis.shown.loc[axis.large]
    shown, name = rows["value"].to_numpy(), f"demo, {axis.name}"
    measured = (rows["estimator"] != "gradient").to_numpy()
    apart = np.abs(shown - true)[measured] / np.abs(true)[measured]
    first_order = (axis.shown["estimator"] == "gradient").sum()
    return [
        Measure(
            f"{name}: heads with a true effect above {LARGE:g} of the bias", len(true), "heads"
        ),
        Measure(
            f"{name}: slope of shown on true over them",
            shown @ true / (true @ true),
            "",
            1.1,
            floor=0.9,
        ),
        Measure(
            f"{name}: largest relative error of one shown as measured",
            max(apart, default=0),
            "",
            0.2,
        ),
        Measure(f"{name}: heads that stay first order", first_order, f"of {len(axis.shown)} heads"),
    ]


def _repeats(axes: list[Axis]) -> list[Measure]:
    """ICC(C,1) of one draw, over heads with small effects."""
    icc = {axis.name: icc_c1(axis.by_draw[~axis.shown.index.isin(axis.large)]) for axis in axes}
    rows = [
        Measure(f"demo, {name}: ICC(C,1), heads with small effects", one, "ICC")
        for name, one in icc.items()
    ]
    good = sum(one >= 0.8 for one in icc.values())
    return [
        *rows,
        Measure("demo: axes with that ICC at .8 or above", good, "axes", 4, True),
        Measure("demo: lowest of these ICC", min(icc.values()), "ICC", 0.4, True),
    ]


def _axes(request: Any, draws: int) -> list[Axis]:
    with closing(Local()) as executor:
        audit = open_audit(validate(request), Store(default_root()), Hooks(), executor)
        audit.job = with_measuring(audit)
        scores = score_heads(audit)
        scores = scores[scores["score"] == "z_bias"]
        return [_axis(audit, axis, scores[scores["axis"] == axis], draws) for axis in request.axes]


def _axis(audit: Audit, axis: str, scores: pd.DataFrame, draws: int) -> Axis:
    shown = scores[scores["seed"] == POOLED].set_index("unit").sort_index()
    by_draw = (
        scores[scores["seed"] != POOLED]
        .pivot(index="unit", columns="seed", values="value")
        .to_numpy()
    )
    report = audit.scoring["z_bias"][axis]
    seeds = tuple(range(TRUTH_FROM, TRUTH_FROM + draws))
    job = replace(audit.job, seeds=seeds, splits=tuple(report["splits"]), read={})
    units = shown.index[shown["value"].abs() > SCREEN * report["bias"]].tolist()
    truth, bias = _truth(audit, job, axis, units)
    return Axis(axis_name(axis), shown, by_draw, truth, bias)


def _truth(audit: Audit, job: ScoreJob, axis: str, units: list[int]) -> tuple[pd.Series, float]:
    """z of `units` by generation, and the dense bias."""
    audit.finish(
        "truth",
        [
            *dense_shards(job, axis),
            *(one for unit in units for one in off_shards(job, axis, (unit,))),
        ],
    )
    data = AxisData(job, axis)
    return pd.Series(
        estimated(data, units, "generate", 0.0, intervals=False).pooled.value, index=units
    ), bias(data.table, job.reading)
