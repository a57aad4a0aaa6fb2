"""Which heads FASP protects: those that perplexity needs most."""

from __future__ import annotations

import numpy as np

from engine.core.levels import exact_count
from engine.surgery.heads.ranking import best


def critical_heads(z_ppl: np.ndarray, gamma: float) -> tuple[int, ...]:
    """FASP Algorithm 1, step 2: the int(γ·N_h) heads with the lowest z_ppl, never cut. Flat units,
    ascending.

    z_ppl [units] float: ppl with the head on minus ppl with it off; ties go to the lower unit.
    ValueError where one is NaN: whether such a head is critical is not known.
    """
    return best(z_ppl, exact_count(gamma, len(z_ppl)), highest=False)
