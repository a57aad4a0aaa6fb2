"""z_ppl to first order, from one backward pass over the perplexity text. A preview: critical heads
saturate."""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.stats.fdr import benjamini_hochberg
from engine.stats.resampling import difference_of
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.perplexity import perplexity
from engine.tracks.language_models.perplexity_intervals import block_weights
from engine.tracks.language_models.scores.base import VALIDATION, ScoreJob, ScoreMethod, score_rows


class GradientPerplexity(ScoreMethod):
    """FASP Eq. 3 to first order: z_ppl(h) ≈ ∂ ppl/∂ξ_h = ppl · (Σ ∂nll/∂ξ_h) / tokens at ξ = 1.

    ξ_h is the factor of head h's output. Very negative means a critical head.
    """

    name = "gradient"
    score = "z_ppl"

    def shards(self, job: ScoreJob) -> list[Shard]:
        return [Shard("window_gradients", split=VALIDATION)]

    def table(self, job: ScoreJob) -> pd.DataFrame:
        windows = job.fetch(self.shards(job))[0].sort_values("window")
        slopes = windows[[str(unit) for unit in range(job.total)]].to_numpy()
        tokens, nll = windows["tokens"].to_numpy(dtype=float), windows["nll"].to_numpy()
        preset = job.context.settings.window
        if preset.published:  # mean of window means
            values = perplexity(windows, preset) * (slopes / tokens[:, None]).mean(axis=0)
            return score_rows(
                job,
                self,
                values,
                n=int(tokens.sum()),
                note="published window: no interval; first order",
            )
        values = perplexity(windows) * slopes.sum(axis=0) / tokens.sum()
        weights = block_weights(len(windows), job.n_boot)
        total = weights @ tokens
        draws = np.exp(weights @ nll / total)[:, None] * (weights @ slopes) / total[:, None]
        found = [
            difference_of(value, column, len(windows))
            for value, column in zip(values, draws.T, strict=True)
        ]
        ends = {
            name: np.array([getattr(one, name) for one in found]) for name in ("low", "high", "p")
        }
        q = benjamini_hochberg(ends["p"])
        return score_rows(job, self, values, **ends, q=q, n=int(tokens.sum()), note="first order")
