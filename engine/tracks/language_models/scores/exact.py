"""z_ppl by masking: perplexity of the held-out text with the head on minus with the head off."""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.stats.fdr import benjamini_hochberg
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.perplexity import perplexity
from engine.tracks.language_models.perplexity_intervals import paired_perplexity_difference
from engine.tracks.language_models.scores.base import VALIDATION, ScoreJob, ScoreMethod, head_shards, score_rows


class ExactPerplexity(ScoreMethod):
    """FASP Eq. 3: z_ppl(h) = ppl | do(y_h = 1) − ppl | do(y_h = 0).

    y_h is the output of head h before the output projection. Very negative means a critical head. No sampling, so no
    seeds.
    """

    name = "exact"
    score = "z_ppl"

    def shards(self, job: ScoreJob) -> list[Shard]:
        return head_shards(job, lambda cut: [Shard("windows", cut, split=VALIDATION)])

    def table(self, job: ScoreJob) -> pd.DataFrame:
        dense, *masked = job.fetch(self.shards(job))
        window = job.context.settings.window
        changes = [paired_perplexity_difference(dense, table, job.n_boot) for table in masked]
        values = [perplexity(dense, window) - perplexity(table, window) for table in masked]
        p = np.array([change.p for change in changes])
        return score_rows(
            job,
            self,
            values,
            low=[np.nan if window.published else -change.high for change in changes],
            high=[np.nan if window.published else -change.low for change in changes],
            p=p,
            q=benjamini_hochberg(p),
            n=int(dense["tokens"].sum()),
            note="published window: no interval" if window.published else "",
        )
