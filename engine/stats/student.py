"""Values with a standard error and a t reference: interval, p-value, and the effect that a test
could have found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import nctdtrinc
from scipy.stats import false_discovery_control, t

MISSED = 0.05
"""Share of intervals that may miss, and the error rate of tests."""
TAILS = (MISSED / 2, 1 - MISSED / 2)
"""Shares of draws below the two ends of an interval."""
POWER = 0.8


@dataclass(frozen=True, eq=False)
class Student:
    """Arrays of one shape: value, error (standard error, in the unit of the value) and freedom
    (degrees of freedom). null is the error that the value would have were nothing moved (None: the
    same).

    The 95 % interval leaves out zero exactly where p < .05; p has no floor. An error of NaN gives
    neither.
    """

    value: np.ndarray
    error: np.ndarray
    freedom: np.ndarray
    null: np.ndarray | None = None

    @property
    def half(self) -> np.ndarray:
        """Half the width of the interval; 0 where the value does not vary."""
        return t.isf(MISSED / 2, self.freedom) * self.error

    @property
    def low(self) -> np.ndarray:
        return self.value - self.half

    @property
    def high(self) -> np.ndarray:
        return self.value + self.half

    @property
    def p(self) -> np.ndarray:
        """Two-sided, against zero; 1 for a zero that does not vary."""
        return self._p(self.error)

    @property
    def p_of_nothing(self) -> np.ndarray:
        """Two-sided, against nothing being moved. It may be small where the interval holds zero:
        something is moved, and which way the value goes is open."""
        return self.p if self.null is None else self._p(np.minimum(self.error, self.null))

    def _p(self, error: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            p = 2 * t.sf(np.abs(self.value) / error, self.freedom)
        return np.where((error == 0) & (self.value == 0), 1.0, p)


def smallest_effect(error: np.ndarray, freedom: np.ndarray, level: float) -> np.ndarray:
    """Effect that a two-sided t test at `level` finds with POWER, in the unit of the error.

    error · δ, δ the non-centrality at which t exceeds its critical value that often. error and
    freedom are arrays of one shape; more than a million degrees of freedom count as a million.
    """
    known, place = np.unique(
        np.round(np.minimum(freedom, 1e6), 3), return_inverse=True
    )  # few differ, and each is slow
    return (
        nctdtrinc(known, 1 - POWER, t.isf(level / 2, known))[place].reshape(np.shape(freedom))
        * error
    )


def benjamini_hochberg(p: Sequence[float] | np.ndarray) -> np.ndarray:
    """Adjusted p-values q, [tests] float64, of p [tests] (Benjamini & Hochberg 1995). NaN stays
    NaN."""
    values = np.asarray(p, dtype=float)
    q = np.full(values.shape, np.nan)
    known = np.isfinite(values)
    if known.any():
        q[known] = false_discovery_control(values[known], method="bh")
    return q
