"""Magnitude: the L2 norm of a head's query, key, value and output weights and biases (Han et al.
2015)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.scores.base import VALIDATION, ScoreJob, ScoreMethod, score_rows


class Magnitude(ScoreMethod):
    """Lowest is cut first. Reads weights only: no prompts, no text, no interval."""

    name = "magnitude"
    score = "magnitude"

    def shards(self, job: ScoreJob) -> list[Shard]:
        return [Shard("magnitude")]

    def table(self, job: ScoreJob) -> pd.DataFrame:
        return score_rows(job, self, job.fetch(self.shards(job))[0]["value"], n=1)


# Gradient importance of heads: |∂L/∂ξ_h| summed over windows, L2-normalised per layer (Michel et
# al. 2019).


class Michel(ScoreMethod):
    """I_h = Σ_windows |∂L/∂ξ_h|, then I_h / ‖I_layer‖₂ (Michel et al. 2019, Sec. 4.1), ξ_h the
    factor of the head's output, L the window's negative log-likelihood. Lowest is cut first. One
    backward pass per window gives all heads.
    """

    name = "michel"
    score = "gradient"

    def shards(self, job: ScoreJob) -> list[Shard]:
        return [Shard("michel", split=VALIDATION)]

    def table(self, job: ScoreJob) -> pd.DataFrame:
        sums = (
            job.fetch(self.shards(job))[0]["value"].to_numpy().reshape(-1, job.context.lm.n_heads)
        )
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        values = np.divide(sums, norms, out=np.zeros_like(sums), where=norms > 0)
        return score_rows(job, self, values.reshape(-1), n=len(job.context.tokens[VALIDATION]))
