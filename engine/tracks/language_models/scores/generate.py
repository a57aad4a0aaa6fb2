"""z_bias by regeneration: draw every continuation again with the head off, judge it again.

The reference the fast estimators are checked against. Base and ablated model share each prompt's
random stream.
"""

from __future__ import annotations

import pandas as pd

from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.effects import AxisData, axis_table, generated, off_shards
from engine.tracks.language_models.scores.base import COLUMNS, ScoreJob, ScoreMethod, head_shards


class Generate(ScoreMethod):
    """FASP Eq. 2: z_bias(h, S) = bias(S) | do(y_h = 1) − bias(S) | do(y_h = 0).

    y_h is the output of head h before the output projection. Positive means that cutting the head
    lowers the bias.
    """

    name = "generate"
    score = "z_bias"
    version = 2

    def shards(self, job: ScoreJob) -> list[Shard]:
        return head_shards(
            job, lambda cut: [shard for axis in job.axes for shard in off_shards(job, axis, cut)]
        )

    def table(self, job: ScoreJob) -> pd.DataFrame:
        return pd.concat([self._axis(job, axis) for axis in job.axes], ignore_index=True)[COLUMNS]

    def _axis(self, job: ScoreJob, axis: str) -> pd.DataFrame:
        data = AxisData(job, axis)
        return axis_table(job, self, data, [generated(data, range(job.total))], {})
