"""z_bias by regeneration: draw every continuation again with the head off, judge it again (FASP, Eq. 2).

The reference the fast estimators are checked against. Base and ablated model share each prompt's random stream.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.metrics.bench import Shard
from engine.metrics.bias import bias
from engine.metrics.fdr import benjamini_hochberg
from engine.metrics.intervals import BiasBootstrap
from engine.scores.base import COLUMNS, VALIDATION, ScoreJob, ScoreMethod, head_shards, score_rows
from engine.seeds import key_of


class Generate(ScoreMethod):
    """z_bias(h, S) = bias | head on − bias | head off; positive means that cutting the head lowers the bias."""

    name = "generate"
    score = "z_bias"

    def shards(self, job: ScoreJob) -> list[Shard]:
        return head_shards(
            job,
            lambda cut: [Shard("verdicts", cut, axis, VALIDATION, seed) for axis in job.axes for seed in job.seeds],
        )

    def table(self, job: ScoreJob) -> pd.DataFrame:
        return pd.concat([self._axis(job, axis) for axis in job.axes], ignore_index=True)[COLUMNS]

    def _axis(self, job: ScoreJob, axis: str) -> pd.DataFrame:
        def toxicity(*cut: int) -> pd.DataFrame:
            shards = [Shard("verdicts", cut, axis, VALIDATION, seed) for seed in job.seeds]
            return joined(job, axis, job.fetch(shards))

        dense = toxicity()
        bootstrap = BiasBootstrap(dense, job.n_boot, key_of("z_bias", axis))
        dense_by_seed = _by_seed(dense, job.reading)
        rows, per_seed = [], []
        for unit in range(job.total):
            table = toxicity(unit)
            change = bootstrap.difference(table, job.reading)  # off minus on: z is its negative
            rows.append((-change.value, -change.high, -change.low, change.p, change.n))
            per_seed.append(dense_by_seed - _by_seed(table, job.reading))
        value, low, high, p, n = np.array(rows).T
        q = benjamini_hochberg(p)
        pooled = score_rows(job, self, value, axis=axis, low=low, high=high, p=p, q=q, n=n.astype(int))
        singles = [
            score_rows(job, self, values, axis=axis, seed=seed, n=int(n[0]))
            for seed, values in zip(job.seeds, np.array(per_seed).T, strict=True)
        ]
        return pd.concat([pooled, *singles], ignore_index=True)


def joined(job: ScoreJob, axis: str, tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Verdicts of all seeds with the prompts' columns: prompt_id, subgroup, template, descriptor, toxicity, seed."""
    prompts = job.bench.rows(axis, VALIDATION)[["prompt_id", "subgroup", "template", "descriptor"]]
    verdicts = pd.concat([table.assign(seed=seed) for seed, table in zip(job.seeds, tables, strict=True)])
    return prompts.merge(verdicts, on="prompt_id", validate="one_to_many")


def _by_seed(table: pd.DataFrame, reading: str) -> np.ndarray:
    """Bias per seed, seeds ascending."""
    return np.array([bias(part, reading) for _, part in table.groupby("seed", sort=True)])
