"""Heads that work on direct answers and rest after reasoning (DiffHeads, Han et al. 2025)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.scores.base import ScoreJob, ScoreMethod, score_rows


class DiffHeads(ScoreMethod):
    """A head's share of all heads' activity in direct answers, minus that after reasoning.

        d_h = a_h / Σ a − r_h / Σ r        a_h = mean over texts of |∂ log p(y | x)/∂ξ_h|

    x is a prompt. y are the first tokens of the uncut model's own answer, ξ_h is the factor of head
    h's output. In r_h a cue to think step by step and the reasoning drawn on it stand between x
    and y. Highest is cut first.

    Where this differs from the paper: contributions are to first order, by every path to the
    answer. The same answer is read both times, so its words cannot make the difference. Prompts
    are the audit's, and shares replace levels, which grow with the surprise of a text. The number
    is one for all axes and has no interval.
    """

    name = "diffheads"
    score = "diffheads"

    def shards(self, job: ScoreJob) -> list[Shard]:
        return [
            Shard("answers_reasoned", (), axis, split, seed)
            for axis in job.axes
            for split in job.splits
            for seed in job.seeds
        ]

    def table(self, job: ScoreJob) -> pd.DataFrame:
        tables = job.fetch(self.shards(job))
        sums = sum(one[["direct", "reasoned"]].to_numpy(dtype=float) for one in tables)
        totals = np.sum(sums, axis=0)
        shares = np.divide(sums, totals, out=np.zeros_like(sums), where=totals > 0)
        n = sum(int(one["n"].iloc[0]) for one in tables)
        return score_rows(job, self, shares[:, 0] - shares[:, 1], n=n)
