"""Taking the first k heads of a ranking. Ties go to the lower head index, so a ranking has one
outcome."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def best(
    scores: np.ndarray, k: int, *, highest: bool, excluded: Iterable[int] = ()
) -> tuple[int, ...]:
    """Units of the k highest (or lowest) scores outside `excluded`, ascending. scores: [units]
    float.

    Raises ValueError where a score is NaN or too few units are left: a selection of the wrong size
    would be silent.
    """
    scores = np.asarray(scores, dtype=float)
    if np.isnan(scores).any():
        raise ValueError("a head has no score; rank only complete tables")
    out = set(excluded)
    allowed = [
        unit
        for unit in np.argsort(-scores if highest else scores, kind="stable").tolist()
        if unit not in out
    ]
    if len(allowed) < k:
        raise ValueError(f"{k} heads asked for, {len(allowed)} may be cut")
    return tuple(sorted(allowed[:k]))
