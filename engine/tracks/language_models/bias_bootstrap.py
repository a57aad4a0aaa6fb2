"""Intervals of subgroups' means: pigeonhole bootstrap of descriptors and templates (Owen 2007)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pandas as pd

from engine.core.errors import PruneAuditError
from engine.core.seeds import rng
from engine.stats import resampling
from engine.stats.resampling import Interval, counts, interval_of, weighted
from engine.tracks.language_models.bias_definitions import Layout, combine, lay_out, terms
from engine.tracks.language_models.prompt_order import MIN_TEMPLATES, PromptOrder, named_clusters


def cluster_weights(table: pd.DataFrame, n_boot: int = 1000, seed: int = 0) -> np.ndarray:
    """Bootstrap weights of the rows, [n_boot, rows] float64; a row's weight is descriptor count x
    template count.

    Templates are resampled when there are at least MIN_TEMPLATES, descriptors within their subgroup
    when it has at least two. A subgroup with neither resamples its prompts; one with a single
    prompt keeps weight 1 throughout (its mean has no interval). Does not depend on the order of the
    rows.
    """
    return _weights(lay_out(table), n_boot, seed)


def _weights(layout: Layout, n_boot: int, seed: int) -> np.ndarray:
    """`cluster_weights` of a coded table, [n_boot, rows] float64; uint16, of two counts below 256,
    where they are many."""
    generator = rng("bootstrap", seed)
    n_templates = int(layout.template.max()) + 1
    by_template = n_templates >= MIN_TEMPLATES
    many = n_boot * len(layout.subgroup) > resampling.HELD
    weights = np.ones((n_boot, len(layout.subgroup)), dtype=np.uint16 if many else float)
    if by_template:
        weights = counts(generator, n_boot, n_templates, many).astype(weights.dtype)[
            :, layout.template
        ]
    for code in range(len(layout.subgroups)):
        rows = np.flatnonzero(layout.subgroup == code)
        clusters = _clusters(layout, rows, by_template)
        if clusters is not None:
            weights[:, rows] *= counts(generator, n_boot, int(clusters.max()) + 1, many)[
                :, clusters
            ]
    return weights


def _clusters(layout: Layout, rows: np.ndarray, by_template: bool) -> np.ndarray | None:
    """What one subgroup resamples, [its rows] int: codes of its descriptors, else of its prompts,
    else None.

    rows [its rows]: where the subgroup's rows lie in the table.
    """
    clusters = named_clusters(layout, rows)
    if clusters is not None or by_template:
        return clusters
    return np.unique(layout.prompt[rows], return_inverse=True)[1]


class BiasBootstrap(PromptOrder):
    """One set of bootstrap weights for one axis, shared by the dense model and all its variants."""

    def __init__(self, dense: pd.DataFrame, n_boot: int = 1000, seed: int = 0) -> None:
        super().__init__(dense)
        self._starts = np.concatenate([[0], np.cumsum(self.sizes)])
        self._weights = _weights(self.layout, n_boot, seed)
        self._known: deque[tuple[pd.DataFrame, tuple[np.ndarray, np.ndarray]]] = deque(maxlen=2)

    def draws(self, table: pd.DataFrame, reading: str = "group_means") -> np.ndarray:
        """Bias of `table` as measured, and in every replicate re-centred there: [1 + n_boot]
        float64.

        NaN in a replicate that drew no prompt of some subgroup.
        """
        layout = Layout(**{**self.layout.__dict__, "toxicity": self.toxicities(table)})
        base, values = terms(layout, reading)
        base = base if reading == "paired_prompts" else base * self.rows
        value = float(combine(*self._sums(base, values, None), reading))
        replicates = combine(*self._sums(base, values, self._weights), reading)
        return np.concatenate([[value], value + replicates - np.nanmean(replicates)])

    def toxicity_means(self, table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """`group_means` of the toxicities of a table, which is asked for several times in a row and
        not changed."""
        for known, found in self._known:
            if known is table:
                return found
        self._known.append((table, self.group_means(self.toxicities(table))))
        return self._known[-1][1]

    def group_means(
        self, values: np.ndarray, base: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean of values [prompts] in each subgroup, [subgroups], and replicates, [n_boot,
        subgroups], both float64.

        base [prompts] weights the prompts (default: their number of rows). Subgroups of one prompt
        have NaN replicates.
        """
        base = self.rows if base is None else base
        total, count = self._sums(base, values, None)
        totals, counts = self._sums(base, values, self._weights)
        with np.errstate(invalid="ignore", divide="ignore"):
            replicates = totals / counts
        replicates[:, self.sizes < 2] = np.nan
        return total / count, replicates

    def _sums(
        self, base: np.ndarray, values: np.ndarray, weights: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Subgroup sums of base x value and of base; prompts lie sorted by subgroup.

        base, values [prompts]; weights [n_boot, prompts] or None. Both sums are [subgroups] without
        weights, else [n_boot, subgroups].
        """
        pair = np.stack([base * values, base], axis=1)
        spans = [slice(*ends) for ends in zip(self._starts[:-1], self._starts[1:], strict=True)]
        if weights is None:
            sums = np.stack([pair[span].sum(axis=0) for span in spans], axis=-1)
        else:
            sums = np.stack([weighted(weights[:, span], pair[span]) for span in spans], axis=-1)
        return (sums[0], sums[1]) if weights is None else (sums[:, 0], sums[:, 1])


def mean_interval(
    values: Sequence[float],
    clusters: Sequence[object] | None = None,
    n_boot: int = 1000,
    seed: int = 0,
    span: tuple[float, float] = (-np.inf, np.inf),
) -> Interval:
    """Mean of `values` with an interval that resamples whole clusters (None: single values). n
    counts values.

    span: what a value can be at least and at most; the interval stays inside. NaN ends when there
    are fewer than two clusters. Raises PruneAuditError for missing values.
    """
    numbers = np.asarray(values, dtype=float)
    if not len(numbers) or not np.isfinite(numbers).all():
        raise PruneAuditError(
            f"{int((~np.isfinite(numbers)).sum())} of {len(numbers)} values are missing."
        )
    names = (
        np.arange(len(numbers))
        if clusters is None
        else np.asarray([str(name) for name in clusters], dtype=object)
    )
    return coded_mean_interval(
        numbers, np.unique(names, return_inverse=True)[1], n_boot, seed, span
    )


def coded_mean_interval(
    numbers: np.ndarray,
    codes: np.ndarray,
    n_boot: int = 1000,
    seed: int = 0,
    span: tuple[float, float] = (-np.inf, np.inf),
) -> Interval:
    """`mean_interval` of numbers [rows] float64 in clusters of these codes, [rows] int: 0, 1, …,
    without a gap."""
    total, count = np.bincount(codes, numbers), np.bincount(codes)
    if len(count) < 2:
        return Interval(float(numbers.mean()), np.nan, np.nan, len(numbers))
    weights = _mean_weights(seed, n_boot, len(count))
    return interval_of(
        numbers.mean(), weighted(weights, total) / weighted(weights, count), len(numbers), *span
    )


@lru_cache(maxsize=4)
def _mean_weights(seed: int, n_boot: int, clusters: int) -> np.ndarray:
    """Draws of so many clusters, [n_boot, clusters]: the same for every variant, and drawing them
    takes longest."""
    return counts(rng("mean", seed), n_boot, clusters)
