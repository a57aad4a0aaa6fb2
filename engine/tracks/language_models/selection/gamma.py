"""Choosing γ, the share of heads protected for perplexity, on validation measurements only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

GAMMAS: tuple[float, ...] = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
"""The paper's search range."""
MARGIN = 0.10
"""Perplexity may exceed the best baseline's by this share. The paper says "as close as possible";
we state a number."""


def candidates(sparsities: Sequence[float]) -> tuple[float, ...]:
    """The γ that leave enough heads to cut at every sparsity asked for (γ + α <= 1)."""
    return tuple(gamma for gamma in GAMMAS if gamma + max(sparsities, default=0.0) <= 1.0 + 1e-9)


def choose_gamma(
    bias: np.ndarray, log_ppl: np.ndarray, baseline: np.ndarray, margin: float = MARGIN
) -> np.ndarray:
    """Place of γ* among the candidates, [...] int: lowest bias among those whose perplexity stays
    within the margin of the best baseline.

    bias, log_ppl [..., gammas, sparsities] on validation; baseline [..., sparsities]: the lowest
    log perplexity among the baselines. Both are averaged over the sparsities. Where no γ stays
    within the margin, the one with the lowest perplexity is taken. Ties go to the earlier γ.
    Leading axes, such as bootstrap draws, are chosen for one by one.
    """
    level = bias.mean(axis=-1)
    excess = (log_ppl - baseline[..., None, :]).mean(axis=-1)
    within = excess <= np.log1p(margin)
    lowest = np.where(within, level, np.inf).argmin(axis=-1)
    return np.where(within.any(axis=-1), lowest, excess.argmin(axis=-1))
