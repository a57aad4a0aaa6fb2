"""Choosing γ, the share of heads protected for perplexity, on validation measurements only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

GAMMAS: tuple[float, ...] = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
"""The paper's search range."""
MARGIN = 0.10
"""Perplexity may exceed the best baseline's by this share. The paper says "as close as possible"; we state a number."""


def candidates(sparsities: Sequence[float]) -> tuple[float, ...]:
    """The γ that leave enough heads to cut at every sparsity asked for (γ + α <= 1)."""
    return tuple(gamma for gamma in GAMMAS if gamma + max(sparsities, default=0.0) <= 1.0 + 1e-9)


def choose_gamma(measured: pd.DataFrame, baseline_log_ppl: dict[float, float]) -> float:
    """γ*: lowest bias among the γ whose perplexity stays within MARGIN of the best baseline.

    measured: columns gamma, sparsity, bias, log_ppl (validation). baseline_log_ppl: per sparsity, the lowest log
    perplexity among the baselines. Both are averaged over the sparsities. Where no γ stays within the margin, the one
    with the lowest perplexity is taken. Ties go to the smaller γ.
    """
    excess = measured["log_ppl"] - measured["sparsity"].map(baseline_log_ppl)
    table = measured.assign(excess=excess).groupby("gamma")[["bias", "excess"]].mean().sort_index()
    within = table[table["excess"] <= np.log1p(MARGIN)]
    return float(within["bias"].idxmin()) if len(within) else float(table["excess"].idxmin())
