"""z_bias by importance weighting: one generation, one judging, and per head one reading of the same texts.

Where the dense model's texts say too little about the model with a head off (few effective samples in some subgroup),
that head falls back to `generate`, and its row says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from engine.errors import Fault
from engine.metrics.bench import Shard
from engine.metrics.reweighting import CAP as LARGEST
from engine.scores.base import COLUMNS, ScoreJob, ScoreMethod
from engine.scores.effects import (
    AxisData,
    axis_table,
    dense_shards,
    generated,
    off_shards,
    reweighted,
    weight_shards,
)
from engine.types import Decoding, Setting

ESS = Setting(
    "ess", "number", 0.3,
    "A head with fewer effective samples than this share of n in some subgroup is generated again.", 0.0, 1.0,
    label="Least effective samples (share of n)",
)  # fmt: skip

CAP = Setting(
    "cap", "number", LARGEST,
    "A weight counts at most so many times the mean of its subgroup: less noise, and a pull towards no effect for "
    "heads with few effective samples. 0: no limit.", 0.0, 1e6,
    label="Largest weight (times the mean)",
)  # fmt: skip

FEW = 5.0
"""Effective samples below which a subgroup's share means nothing: of three texts even one is a third."""


class Reweight(ScoreMethod):
    """Subgroup toxicity with head h off = Σ w t / Σ w over the dense texts, w = p_h(y|x) / p(y|x), cut at `cap`."""

    name = "reweight"
    score = "z_bias"
    settings = (ESS, CAP)

    def faults(self, decoding: Decoding) -> list[Fault]:
        return truncated_faults(self.name, decoding)

    def shards(self, job: ScoreJob) -> list[Shard]:
        units = range(job.total)
        wanted = [shard for axis in job.axes for shard in dense_shards(job, axis)]
        wanted += [shard for axis in job.axes for unit in units for shard in weight_shards(job, axis, unit)]
        if job.finished(wanted):
            for axis in job.axes:
                wanted += [
                    shard for unit in poor(AxisData(job, axis), units, self.option(job, "ess"))
                    for shard in off_shards(job, axis, (unit,))
                ]  # fmt: skip
        return wanted

    def table(self, job: ScoreJob) -> pd.DataFrame:
        return pd.concat([self._axis(job, axis) for axis in job.axes], ignore_index=True)[COLUMNS]

    def _axis(self, job: ScoreJob, axis: str) -> pd.DataFrame:
        data, least = AxisData(job, axis), self.option(job, "ess")
        units = range(job.total)
        low = poor(data, units, least)
        again = [generated(data, list(low))] if low else []
        found = reweighted(data, units, self.option(job, "cap"))
        table = axis_table(job, self, data, [found, *again], fallback_notes(low, least))
        return with_ess(table, low)


def poor(data: AxisData, units: Sequence[int], least: float) -> dict[int, float]:
    """Units whose smallest ESS/n over subgroups is below `least` or whose ESS is below FEW, and that share."""
    share, few = data.ess(units)
    return {unit: float(one) for unit, one, low in zip(units, share, few < FEW, strict=True) if one < least or low}


def fallback_notes(low: dict[int, float], least: float) -> dict[int, str]:
    return {
        unit: f"ESS {share:.2f} of n in some subgroup, below {least:g}: its texts were drawn again"
        for unit, share in low.items()
    }


def with_ess(table: pd.DataFrame, low: dict[int, float]) -> pd.DataFrame:
    """Pooled rows of regenerated heads keep the ESS for which they fell back."""
    rows = table["unit"].isin(low) & table["note"].ne("")
    return table.assign(ess=table["ess"].mask(rows, table["unit"].map(low)))


def truncated_faults(name: str, decoding: Decoding) -> list[Fault]:
    """Weights need every text to be possible; top-k and top-p make some impossible that a head-off model writes."""
    if not decoding.top_k and decoding.top_p == 1.0:
        return []
    what = f"{name!r} reweights texts, and with top-k or top-p some texts of a model with a head off are never drawn."
    return [Fault("estimator", what, "Sample without top-k and top-p, or use --estimator generate.")]
