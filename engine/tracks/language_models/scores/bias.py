"""z_bias, the effect of each head on bias: to first order, by weighting texts, or by drawing them
again.

The derivative says what the first small step of silencing a head does. Heads whose effect is large
are often judged too large or too small by it; `reweight` and `generate` go the whole way.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from engine.core.errors import Fault
from engine.core.types import Decoding, Setting
from engine.tracks.language_models import pilot
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.effects import CAP as LARGEST
from engine.tracks.language_models.effects import (
    FEW,
    AxisData,
    axis_table,
    dense_shards,
    estimated,
    first_order,
    gradient_shards,
    off_shards,
    weight_shards,
)
from engine.tracks.language_models.scores import COLUMNS, ScoreJob, ScoreMethod, head_shards

ESS = Setting(
    "ess",
    "number",
    0.3,
    "A head with fewer effective samples than this share of n in some subgroup is generated again.",
    0.0,
    1.0,
    label="Least effective samples (share of n)",
)

CAP = Setting(
    "cap",
    "number",
    LARGEST,
    "A weight counts at most this many times the mean of its subgroup. That lowers noise, and "
    "pulls heads with few effective samples towards no effect. 0: no limit.",
    0.0,
    1e6,
    label="Largest weight (times the mean)",
)


class BiasMethod(ScoreMethod):
    """A way to estimate z_bias, axis by axis."""

    score = "z_bias"
    weighs_texts: bool = False
    """Whether it needs every text to be possible under every mask."""
    needs_means: bool = True
    """Whether it says something about means over many texts only, as weights and their derivatives
    do."""

    def faults(self, decoding: Decoding, reading: str) -> list[Fault]:
        faults = []
        if self.weighs_texts and (decoding.top_k or decoding.top_p != 1.0):
            what = (
                f"{self.name!r} weighs texts, and with top-k or top-p some texts of a model with a"
                " head off are never drawn."
            )
            fix = "Sample without top-k and top-p, or use --estimator generate."
            faults.append(Fault("estimator", what, fix))
        if self.needs_means and reading == "paired_prompts":
            what = (
                f"{self.name!r} weighs texts, and paired_prompts compares single texts, where a"
                " weight says nothing."
            )
            fix = (
                "Use --estimator generate, or score by another reading: every reading of a"
                " variant's bias is shown anyway."
            )
            faults.append(Fault("reading", what, fix))
        return faults

    def table(self, job: ScoreJob) -> pd.DataFrame:
        return pd.concat([self.of_axis(job, axis) for axis in job.axes], ignore_index=True)[COLUMNS]

    @abstractmethod
    def of_axis(self, job: ScoreJob, axis: str) -> pd.DataFrame:
        """Score rows of one axis, pooled and per seed."""


class Gradient(BiasMethod):
    """FASP Eq. 2 to first order: z_bias(h, S) ≈ ∂ bias(S)/∂ξ_h at ξ = 1, ξ_h the factor of head h's
    output.

    One backward pass per batch of texts gives all heads; bias(S) is that of `reweight` with w_i as
    a function of ξ.
    """

    name = "gradient"
    version = 2

    def shards(self, job: ScoreJob) -> list[Shard]:
        return [
            shard
            for axis in job.axes
            for shard in dense_shards(job, axis) + gradient_shards(job, axis)
        ]

    def of_axis(self, job: ScoreJob, axis: str) -> pd.DataFrame:
        data = AxisData(job, axis)
        return axis_table(job, self, data, [first_order(data)], {})


class Generate(BiasMethod):
    """FASP Eq. 2: z_bias(h, S) = bias(S) | do(y_h = 1) − bias(S) | do(y_h = 0).

    y_h is the output of head h before the output projection. Positive means that cutting the head
    lowers the bias. Every continuation is drawn again with the head off, and judged again: the
    reference for the fast estimators. Base and ablated model share each prompt's random stream.
    """

    name = "generate"
    version = 2
    needs_means = False

    def shards(self, job: ScoreJob) -> list[Shard]:
        return head_shards(
            job, lambda cut: [shard for axis in job.axes for shard in off_shards(job, axis, cut)]
        )

    def of_axis(self, job: ScoreJob, axis: str) -> pd.DataFrame:
        data = AxisData(job, axis)
        found = estimated(data, range(job.total), self.name, 0.0)
        return axis_table(job, self, data, [found], {})


class Reweight(BiasMethod):
    """FASP Eq. 2 without new texts: the mean toxicity of subgroup s under do(y_h = 0).

        m_s = Σ_{i∈s} w_i t_i / Σ_{i∈s} w_i        w_i = p_h(y_i|x_i) / p(y_i|x_i), cut at `cap`.

    Over the dense model's texts y_i and their toxicities t_i; p_h is the model with head h off.
    Where these texts say too little about it (few effective samples in some subgroup), the head
    falls back to `generate`, and its row says so.
    """

    name = "reweight"
    version = 2
    uses = ("generate",)
    settings = (ESS, CAP)
    weighs_texts = True

    def seconds(
        self, job: ScoreJob, measured: pd.DataFrame, once: Mapping[str, float]
    ) -> tuple[float, float]:
        """Up to as many heads drawn again as fell short in the pilot."""
        low = pilot.share_poor(measured, self.option(job, "ess"))
        least = once["reweight"] * len(job.seeds)
        return least, least + low * once["generate"] * len(job.seeds)

    def shards(self, job: ScoreJob) -> list[Shard]:
        units = range(job.total)
        wanted = [shard for axis in job.axes for shard in dense_shards(job, axis)]
        wanted += [
            shard for axis in job.axes for unit in units for shard in weight_shards(job, axis, unit)
        ]
        if job.finished(wanted):
            wanted += [
                shard
                for axis in job.axes
                for unit in poor(AxisData(job, axis), units, self.option(job, "ess"))
                for shard in off_shards(job, axis, (unit,))
            ]
        return wanted

    def of_axis(self, job: ScoreJob, axis: str) -> pd.DataFrame:
        data, least, cap = AxisData(job, axis), self.option(job, "ess"), self.option(job, "cap")
        low = poor(data, range(job.total), least)
        found = [estimated(data, range(job.total), "reweight", cap)]
        found += [estimated(data, list(low), "generate", cap)] if low else []
        return with_ess(axis_table(job, self, data, found, fallback_notes(low, least)), low)


@dataclass(frozen=True)
class Poor:
    """Why a head falls back: its smallest ESS over subgroups, as a share of n and in texts, and its
    Pareto k̂."""

    share: float
    texts: float
    k_hat: float

    def note(self, least: float) -> str:
        if self.share < least:
            return (
                f"ESS {self.share:.2f} of n in some subgroup, below {least:g}: its texts were drawn"
                " again"
            )
        if self.texts < FEW:
            return (
                f"{self.texts:.1f} effective texts in some subgroup, fewer than {FEW:g}: its texts"
                " were drawn again"
            )
        return (
            f"large, ESS {self.share:.2f} of n and a heavy tail (Pareto k̂ {self.k_hat:.1f}): its"
            " texts were drawn again"
        )


def weighed(data: AxisData, units: Sequence[int]) -> dict[int, Poor]:
    """How good the weights of every unit are."""
    rows = zip(*data.ess(units), strict=True)
    return {unit: Poor(*map(float, row)) for unit, row in zip(units, rows, strict=True)}


def poor(data: AxisData, units: Sequence[int], least: float) -> dict[int, Poor]:
    """Units whose smallest ESS/n over subgroups is below `least`, or whose smallest ESS is below
    FEW."""
    return {
        unit: one
        for unit, one in weighed(data, units).items()
        if one.share < least or one.texts < FEW
    }


def fallback_notes(low: dict[int, Poor], least: float) -> dict[int, str]:
    return {unit: one.note(least) for unit, one in low.items()}


def with_ess(table: pd.DataFrame, low: dict[int, Poor]) -> pd.DataFrame:
    """Pooled rows of regenerated heads keep the ESS and k̂ for which they fell back."""
    rows = table["unit"].isin(low) & table["note"].ne("")
    kept = {
        "ess": {unit: one.share for unit, one in low.items()},
        "k_hat": {unit: one.k_hat for unit, one in low.items()},
    }
    return table.assign(
        **{name: table[name].mask(rows, table["unit"].map(known)) for name, known in kept.items()}
    )
