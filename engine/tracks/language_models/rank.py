"""A rank among random cuts as a p-value, and whether more texts could still move it past a
level."""

from __future__ import annotations

from typing import Any

import numpy as np

LEVEL = 0.05
"""A rank at most so likely by chance is called better than chance."""


def rank_p(below: Any, n: Any) -> Any:
    """Chance of ranking so well among n controls when the method is one of them: (1 + controls no
    worse) / (1 + n).

    Of numbers or of arrays.
    """
    return (1 + below) / (1 + n)


def is_settled(below: np.ndarray, unclear: np.ndarray) -> bool:
    """Whether the rank lies on one side of LEVEL whichever way the controls that cannot be told
    apart turn out.

    below and unclear [controls] bool: no worse than the method; not told apart from it.
    """
    least, most = int((below & ~unclear).sum()), int((below | unclear).sum())
    return rank_p(most, len(below)) <= LEVEL or rank_p(least, len(below)) > LEVEL
