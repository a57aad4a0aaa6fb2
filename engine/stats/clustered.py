"""Covariance of means whose observations share clusters, in one way or in two that cross
(descriptors and templates).

Strata s have means m_s = Σ w y / Σ w; observation i moves m_s by u_i = w_i (y_i − m_s) / Σ w, its
influence. What one cluster does to all means at once is the sum of its influences, and V_A = Σ_a
(Σ_{i∈a} u_i)(Σ_{i∈a} u_i)ᵀ holds whatever the dependence inside clusters is. With two ways A and B,
V = V_A + V_B − V_AB, AB the clusters that share both (Cameron, Gelbach & Miller 2011, eq. 2.11):
noise of single observations is counted once, not thrice as where both ways are resampled.

Small samples: a stratum's sums are divided by √(1 − Σ_a p_a²), p_a the share of cluster a in the
stratum. That is G/(G − 1) where G clusters are equal, and makes every part unbiased for independent
noise, whatever the sizes. V_B − V_AB of a contrast may come out negative and then counts as 0. A
has 1/Σ p² − 1 degrees of freedom per stratum, B as many over the strata that a contrast weighs;
those of their sum are Satterthwaite's (1946). Where B has fewer than FEW, the noise of V_B − V_AB
is taken to be that of V_B: a small one by luck would claim certainty. With more of them, the heads'
test would so reject half as often as it may. In simulation there were 1 to 8 strata of 15 to 100
observations in 3 to 10 clusters, and 2 to 26 clusters across. Tests at .05 reject .024 to .058 of
true nulls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import nctdtrinc, stdtr, stdtrit

unwarned = partial(np.errstate, divide="ignore", invalid="ignore")
"""Around quotients whose divisor may be 0: what they become is looked at afterwards."""
FEW = 5
"""Degrees of freedom of crossing clusters, below which their noise is taken whole."""


@dataclass(frozen=True, eq=False)
class Covariance:
    """Covariance of the stratum means of several quantities (parts), per column.

    nested and shared [columns, strata, parts, parts]: from clusters inside strata, and from
    clusters that share both ways. crossed [columns, parts · strata, parts · strata], part by part,
    or None where there is one way only. nested_freedom, shared_freedom [strata]: degrees of
    freedom; spread [clusters, strata]: the share of each crossing cluster in each stratum.
    """

    nested: np.ndarray
    shared: np.ndarray
    crossed: np.ndarray | None
    nested_freedom: np.ndarray
    shared_freedom: np.ndarray
    spread: np.ndarray

    def root(self) -> np.ndarray:
        """R with R Rᵀ = V_A + V_B − V_AB without its negative directions, [columns, parts · strata,
        parts · strata]."""
        whole = _spread_out(self.nested)
        if self.crossed is not None:
            whole = whole + self.crossed - _spread_out(self.shared)
        values, vectors = np.linalg.eigh(whole)
        return vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]

    def of(self, contrast: np.ndarray, least: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Variance of Σ contrast · means and its degrees of freedom (inf where it does not vary),
        [columns] each.

        contrast [columns, parts, strata]. least: the variance of a stratum's clusters is taken no
        lower than that of the clusters which share both ways. There are many of these, so they show
        the noise of single observations where few clusters vary little by luck.
        """
        nested, more = _inside(self.nested, contrast), np.zeros(len(contrast))
        shared, freedom = _inside(self.shared, contrast), self.nested_freedom
        doubt, crossed_freedom = more, self._crossed_freedom(contrast)
        if self.crossed is not None:
            flat = contrast.reshape(len(contrast), -1)
            across = np.einsum("ca,cab,cb->c", flat, self.crossed, flat)
            more = np.maximum(across - shared.sum(axis=1), 0.0)
            doubt = np.where(crossed_freedom < FEW, across, more)
        if least:
            freedom = np.where(nested < shared, self.shared_freedom, freedom)
            nested = np.maximum(nested, shared)
        total = nested.sum(axis=1) + more
        with unwarned():
            squared = np.where(nested > 0, nested**2 / freedom, 0.0).sum(axis=1)
            squared = squared + np.where(doubt > 0, doubt**2 / crossed_freedom, 0.0)
            return total, np.where(squared > 0, np.maximum(total**2 / squared, 1.0), np.inf)

    def _crossed_freedom(self, contrast: np.ndarray) -> np.ndarray:
        """Of the clusters that cross the strata which a contrast weighs, [columns]; inf without."""
        if self.crossed is None:
            return np.full(len(contrast), np.inf)
        weight = np.abs(contrast).sum(axis=1)
        whole = weight @ self.spread.T / weight.sum(axis=1, keepdims=True)
        return 1 / (whole**2).sum(axis=1) - 1


class Clustered:
    """Who shares a cluster with whom, set up once for many columns of values."""

    def __init__(
        self,
        stratum: np.ndarray,
        weight: np.ndarray,
        nested: np.ndarray,
        crossed: np.ndarray | None,
    ) -> None:
        """stratum [rows]: codes from 0; weight [rows]; nested [rows]: codes of clusters, none of
        which reaches beyond its stratum; crossed [rows]: codes of clusters that do, or None."""
        total = np.bincount(stratum, weight)
        self.stratum, self.strata = stratum, len(total)
        with unwarned():
            self.share = weight / total[stratum]
        self._nested, self._crossed = _codes(nested), None if crossed is None else _codes(crossed)
        both = (
            self._nested
            if self._crossed is None
            else self._nested * (self._crossed.max() + 1) + self._crossed
        )
        self._shared = _codes(both)

    def means(self, values: np.ndarray) -> np.ndarray:
        """Weighted means of values [rows, columns], [columns, strata]."""
        return _sums(self.stratum, self.share[:, None] * values, self.strata).T

    def covariance(self, *parts: np.ndarray) -> Covariance:
        """Covariance of the means of the parts, [rows, columns] each; a single column stands for
        all."""
        moved = [self.share[:, None] * (part - self.means(part).T[self.stratum]) for part in parts]
        columns = max(part.shape[1] for part in moved)
        moves = np.stack([np.broadcast_to(part, (len(part), columns)) for part in moved], axis=1)
        nested, sizes = self._inside(self._nested, moves)
        if self._crossed is None:
            none = np.empty((0, self.strata))
            return Covariance(nested, nested, None, sizes - 1, sizes - 1, none)
        crossed, spread = self._across(self._crossed, moves)
        shared, cells = self._inside(self._shared, moves)
        return Covariance(nested, shared, crossed, sizes - 1, cells - 1, spread)

    def _inside(self, codes: np.ndarray, moves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Σ over clusters inside strata, [columns, strata, parts, parts], and their effective
        number per stratum; 0 where that is one.

        codes [rows], moves [rows, parts, columns].
        """
        sums, home = _sums(codes, moves, codes.max() + 1), np.zeros(codes.max() + 1, dtype=int)
        home[codes] = self.stratum
        even = np.bincount(home, np.bincount(codes, self.share) ** 2, minlength=self.strata)
        found = [
            np.einsum("gkc,glc->ckl", sums[home == at], sums[home == at])
            for at in range(self.strata)
        ]
        with unwarned():
            spread = np.stack(found, axis=1) / (1 - even)[:, None, None]
            return np.where((even < 1)[:, None, None], spread, 0.0), 1 / even

    def _across(self, codes: np.ndarray, moves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Σ over clusters across strata, [columns, parts · strata, parts · strata], and their
        shares of each, [clusters, strata]."""
        count = int(codes.max()) + 1
        cells = codes * self.strata + self.stratum
        spread = np.bincount(cells, self.share, minlength=count * self.strata).reshape(count, -1)
        even = (spread**2).sum(axis=0)
        sums = _sums(cells, moves, count * self.strata).reshape(
            count, self.strata, *moves.shape[1:]
        )
        with unwarned():
            sums = np.where(even[:, None, None] < 1, sums / np.sqrt(1 - even)[:, None, None], 0.0)
        flat = sums.transpose(3, 0, 2, 1).reshape(moves.shape[2], count, -1)
        return flat.swapaxes(1, 2) @ flat, spread


def _inside(blocks: np.ndarray, contrast: np.ndarray) -> np.ndarray:
    """Variance of a contrast [columns, parts, strata] from each stratum's block, [columns,
    strata]."""
    return np.einsum("cks,cskl,cls->cs", contrast, blocks, contrast)


def _spread_out(blocks: np.ndarray) -> np.ndarray:
    """Blocks [columns, strata, parts, parts] along the diagonal of [columns, parts · strata, parts
    · strata]."""
    columns, strata, parts, _ = blocks.shape
    whole = np.zeros((columns, parts, strata, parts, strata))
    at = np.arange(strata)
    whole[:, :, at, :, at] = blocks.swapaxes(0, 1)
    return whole.reshape(columns, parts * strata, parts * strata)


def _codes(names: np.ndarray) -> np.ndarray:
    return np.unique(names, return_inverse=True)[1]


def _sums(codes: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """Sums of values [rows, ...] by code, [count, ...]."""
    out = np.zeros((count, *values.shape[1:]))
    np.add.at(out, codes, values)
    return out


# Values with a standard error and a t reference: interval, p-value, and the effect that a test
# could have found.


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
        return -stdtrit(self.freedom, MISSED / 2) * self.error

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
        with unwarned():
            p = 2 * stdtr(self.freedom, -np.abs(self.value) / error)
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
        nctdtrinc(known, 1 - POWER, -stdtrit(known, level / 2))[place].reshape(np.shape(freedom))
        * error
    )


def with_own_noise(
    effect: np.ndarray | float, errors: np.ndarray | float, most: float, n: np.ndarray | float
) -> np.ndarray:
    """What must be there to be found as often as `effect` would be, so many errors of a change that
    is not there: items that carry it add noise. X = q √(e² + X (most − X) / n).

    most: what one of n items moves by, times n; infinite n: they add none.
    """
    share = errors**2 / n
    root = np.sqrt((share * most) ** 2 + 4 * (1 + share) * effect**2)
    return np.asarray((share * most + root) / (2 * (1 + share)))


def benjamini_hochberg(p: Sequence[float] | np.ndarray) -> np.ndarray:
    """Adjusted p-values q, [tests] float64, of p [tests] (Benjamini & Hochberg 1995). NaN stays
    NaN."""
    from scipy.stats import false_discovery_control  # takes a second: not at first paint

    values = np.asarray(p, dtype=float)
    q = np.full(values.shape, np.nan)
    known = np.isfinite(values)
    if known.any():
        q[known] = false_discovery_control(values[known], method="bh")
    return q
