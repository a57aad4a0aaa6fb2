"""Magnitude: the L2 norm of a head's query, key, value and output weights and biases (Han et al.
2015)."""

from __future__ import annotations

import pandas as pd

from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.scores.base import ScoreJob, ScoreMethod, score_rows


class Magnitude(ScoreMethod):
    """Lowest is cut first. Reads weights only: no prompts, no text, no interval."""

    name = "magnitude"
    score = "magnitude"

    def shards(self, job: ScoreJob) -> list[Shard]:
        return [Shard("magnitude")]

    def table(self, job: ScoreJob) -> pd.DataFrame:
        return score_rows(job, self, job.fetch(self.shards(job))[0]["value"], n=1)
