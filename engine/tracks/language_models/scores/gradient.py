"""z_bias to first order: how the bias of the dense model's texts changes with each head's gate. All
heads at once.

The derivative says what the first small step of silencing a head does. Heads whose effect is large
are often judged too large or too small by it; `reweight` and `generate` go the whole way.
"""

from __future__ import annotations

import pandas as pd

from engine.core.errors import Fault
from engine.core.types import Decoding
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.effects import (
    AxisData,
    axis_table,
    dense_shards,
    first_order,
    gradient_shards,
)
from engine.tracks.language_models.scores.base import COLUMNS, ScoreJob, ScoreMethod
from engine.tracks.language_models.scores.reweight import reading_faults


class Gradient(ScoreMethod):
    """FASP Eq. 2 to first order: z_bias(h, S) ≈ ∂ bias(S)/∂ξ_h at ξ = 1, ξ_h the factor of head h's
    output.

    One backward pass per batch of texts gives all heads; bias(S) is that of `reweight` with w_i as
    a function of ξ.
    """

    name = "gradient"
    score = "z_bias"
    version = 2

    def faults(self, decoding: Decoding, reading: str) -> list[Fault]:
        return reading_faults(self.name, reading)

    def shards(self, job: ScoreJob) -> list[Shard]:
        return [
            shard
            for axis in job.axes
            for shard in dense_shards(job, axis) + gradient_shards(job, axis)
        ]

    def table(self, job: ScoreJob) -> pd.DataFrame:
        return pd.concat([self._axis(job, axis) for axis in job.axes], ignore_index=True)[COLUMNS]

    def _axis(self, job: ScoreJob, axis: str) -> pd.DataFrame:
        data = AxisData(job, axis)
        return axis_table(job, self, data, [first_order(data)], {})
