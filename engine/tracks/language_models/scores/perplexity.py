"""Scores that are one for all axes: z_ppl (exact and to first order), size of weights, sensitivity
of the loss, and activity in direct answers (DiffHeads, Han et al. 2025)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.stats.resampling import difference_of
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.perplexity import (
    block_weights,
    paired_perplexity_difference,
    perplexity,
    widened,
)
from engine.tracks.language_models.scores import (
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
        window = job.context.settings.window
        dense, *masked = job.fetch(self.shards(job))
        level = perplexity(dense, window)
        changes = [paired_perplexity_difference(dense, table, job.n_boot) for table in masked]
        low, high, p = np.array([(-one.high, -one.low, one.p) for one in changes]).T
        ends = {} if window.published else {"low": low, "high": high, "p": p}
        return score_rows(
            job,
            self,
            [level - perplexity(table, window) for table in masked],
            **ends,
            n=int(dense["tokens"].sum()),
            note="published window: no interval" if window.published else "",
        )


class GradientPerplexity(ScoreMethod):
    """FASP Eq. 3 to first order, a preview from one backward pass; critical heads saturate.

    z_ppl(h) ≈ ∂ ppl/∂ξ_h = ppl · (Σ ∂nll/∂ξ_h) / tokens at ξ = 1.
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
        preset, n = job.context.settings.window, int(tokens.sum())
        if preset.published:  # mean of window means
            values = perplexity(windows, preset) * (slopes / tokens[:, None]).mean(axis=0)
            note = "published window: no interval; first order"
            return score_rows(job, self, values, n=n, note=note)
        values = perplexity(windows) * slopes.sum(axis=0) / tokens.sum()
        weights = block_weights(len(windows), job.n_boot)
        total = weights @ tokens
        draws = np.exp(weights @ nll / total)[:, None] * (weights @ slopes) / total[:, None]
        pairs = zip(values, widened(draws, len(windows)).T, strict=True)
        found = [difference_of(value, column, len(windows)) for value, column in pairs]
        low, high, p = np.array([(one.low, one.high, one.p) for one in found]).T
        note = "first order"
        return score_rows(job, self, values, low=low, high=high, p=p, n=n, note=note)


class Magnitude(ScoreMethod):
    """L2 norm of a head's query, key, value and output weights and biases (Han et al. 2015).

    Lowest is cut first. Reads weights only: no prompts, no text, no interval.
    """

    name = "magnitude"
    score = "magnitude"
    highest_first = False

    def shards(self, job: ScoreJob) -> list[Shard]:
        return [Shard("magnitude")]

    def table(self, job: ScoreJob) -> pd.DataFrame:
        return score_rows(job, self, job.fetch(self.shards(job))[0]["value"], n=1)


class Michel(ScoreMethod):
    """I_h = Σ_windows |∂L/∂ξ_h|, then I_h / ‖I_layer‖₂ (Michel et al. 2019, Sec. 4.1), ξ_h the
    factor of the head's output, L the window's negative log-likelihood. Lowest is cut first. One
    backward pass per window gives all heads.
    """

    name = "michel"
    score = "gradient"
    highest_first = False

    def shards(self, job: ScoreJob) -> list[Shard]:
        return [Shard("michel", split=VALIDATION)]

    def table(self, job: ScoreJob) -> pd.DataFrame:
        sums = (
            job.fetch(self.shards(job))[0]["value"].to_numpy().reshape(-1, job.context.lm.n_heads)
        )
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        values = np.divide(sums, norms, out=np.zeros_like(sums), where=norms > 0)
        return score_rows(job, self, values.reshape(-1), n=len(job.context.tokens[VALIDATION]))


class DiffHeads(ScoreMethod):
    """A head's share of all heads' activity in direct answers, minus that after reasoning (Han et
    al. 2025).

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
