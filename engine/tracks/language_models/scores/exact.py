"""z_ppl by masking: perplexity of the held-out text with the head on minus with the head off."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from engine.stats.fdr import benjamini_hochberg
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.perplexity import perplexity
from engine.tracks.language_models.perplexity_intervals import paired_perplexity_difference
from engine.tracks.language_models.scores.base import (
    VALIDATION,
    ScoreJob,
    ScoreMethod,
    head_shards,
    score_rows,
)


class ExactPerplexity(ScoreMethod):
    """FASP Eq. 3: z_ppl(h) = ppl | do(y_h = 1) − ppl | do(y_h = 0).

    y_h is the output of head h before the output projection. Very negative means a critical head.
    No sampling, so no seeds.
    """

    name = "exact"
    score = "z_ppl"

    def shards(self, job: ScoreJob) -> list[Shard]:
        return head_shards(job, lambda cut: [Shard("windows", cut, split=VALIDATION)])

    def table(self, job: ScoreJob) -> pd.DataFrame:
        found = effects_of(job, range(job.total))
        window, values = job.context.settings.window, found.pop("value")
        return score_rows(
            job,
            self,
            values,
            **found,
            q=benjamini_hochberg(found["p"]),
            n=int(job.fetch([Shard("windows", (), split=VALIDATION)])[0]["tokens"].sum()),
            note="published window: no interval" if window.published else "",
        )


def effects_of(
    job: ScoreJob, units: Sequence[int], intervals: bool = True
) -> dict[str, np.ndarray]:
    """value of each of these units, [units] float64, and where asked for low, high and p."""
    shards = [Shard("windows", cut, split=VALIDATION) for cut in [(), *((unit,) for unit in units)]]
    dense, *masked = job.fetch(shards)
    window = job.context.settings.window
    value = np.array([perplexity(dense, window) - perplexity(table, window) for table in masked])
    if not intervals:
        return {"value": value}
    changes = [paired_perplexity_difference(dense, table, job.n_boot) for table in masked]
    nan = window.published
    return {
        "value": value,
        "low": np.array([np.nan if nan else -change.high for change in changes]),
        "high": np.array([np.nan if nan else -change.low for change in changes]),
        "p": np.array([change.p for change in changes]),
    }
