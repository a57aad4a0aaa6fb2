"""Intervals of a bias and paired tests of its change: pigeonhole bootstrap of descriptors and templates (Owen 2007)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from engine.core.errors import PruneAuditError
from engine.core.seeds import rng
from engine.stats.resampling import Difference, Interval, _counts, difference_of, interval_of
from engine.tracks.language_models.bias_definitions import Layout, combine, lay_out, terms

MIN_TEMPLATES = 5
"""With fewer templates they count as fixed: resampling three of them says little about other templates."""

COLUMNS = 64
"""Columns evaluated at once: bounds the memory of many heads."""


def cluster_weights(table: pd.DataFrame, n_boot: int = 1000, seed: int = 0) -> np.ndarray:
    """Bootstrap weights of the rows, [n_boot, rows] float64; a row's weight is descriptor count x template count.

    Templates are resampled when there are at least MIN_TEMPLATES, descriptors within their subgroup when it has at
    least two. A subgroup with neither resamples its prompts; one with a single prompt keeps weight 1 throughout (its
    mean has no interval). Does not depend on the order of the rows.
    """
    return _weights(lay_out(table), n_boot, seed)


def _weights(layout: Layout, n_boot: int, seed: int) -> np.ndarray:
    """`cluster_weights` of a coded table, [n_boot, rows] float64."""
    generator = rng("bootstrap", seed)
    n_templates = int(layout.template.max()) + 1
    by_template = n_templates >= MIN_TEMPLATES
    weights = np.ones((n_boot, len(layout.subgroup)))
    if by_template:
        weights = _counts(generator, n_boot, n_templates)[:, layout.template]
    for code in range(len(layout.subgroups)):
        rows = np.flatnonzero(layout.subgroup == code)
        clusters = _clusters(layout, rows, by_template)
        if clusters is not None:
            weights[:, rows] *= _counts(generator, n_boot, int(clusters.max()) + 1)[:, clusters]
    return weights


def _clusters(layout: Layout, rows: np.ndarray, by_template: bool) -> np.ndarray | None:
    """What one subgroup resamples, [its rows] int: codes of its descriptors, else of its prompts, else None.

    rows [its rows]: where the subgroup's rows lie in the table.
    """
    if layout.named_descriptor[rows].all():
        clusters = np.unique(layout.descriptor[rows], return_inverse=True)[1]
        if clusters.max() > 0:
            return clusters
    if by_template:
        return None
    return np.unique(layout.prompt[rows], return_inverse=True)[1]


class BiasBootstrap:
    """One set of bootstrap weights for one axis, shared by the dense model and all its variants.

    Set up once per axis, then each `difference` costs a product of [n_boot, prompts] with a vector.
    Rows of one prompt (sampling seeds) are averaged first, so all tables must hold the same prompts.
    """

    def __init__(self, dense: pd.DataFrame, n_boot: int = 1000, seed: int = 0) -> None:
        layout = lay_out(dense)
        first = np.unique(layout.prompt, return_index=True)[1]
        first = first[np.argsort(layout.subgroup[first], kind="stable")]
        self.prompts = pd.Index([layout.prompts[code] for code in layout.prompt[first]])
        self.subgroups = layout.subgroups
        self._frame = dense.iloc[first].drop(columns="toxicity").reset_index(drop=True)
        self.layout = lay_out(self._frame.assign(toxicity=0.0))
        self.sizes = np.bincount(self.layout.subgroup, minlength=len(self.subgroups))
        self._starts = np.concatenate([[0], np.cumsum(self.sizes)])
        self._weights = _weights(self.layout, n_boot, seed)
        self._rows = np.bincount(layout.prompt)[layout.prompt[first]].astype(float)
        self.dense = self.toxicities(dense)
        self._memory: dict[str, tuple[float, np.ndarray]] = {}

    def toxicities(self, table: pd.DataFrame) -> np.ndarray:
        """Mean toxicity per prompt in this object's order, [prompts] float64. Raises PruneAuditError when unpaired."""
        return self.in_order(table, "toxicity", self._rows)

    def in_order(self, table: pd.DataFrame, column: str, rows: np.ndarray | None = None) -> np.ndarray:
        """Mean of a column per prompt in this object's order, [prompts] float64; rows [prompts]: how many each must
        have.
        """
        if bad := int((~np.isfinite(table[column].to_numpy(dtype=float))).sum()):
            raise PruneAuditError(f"{bad} of {len(table)} values of {column} are missing.")
        grouped = table.groupby("prompt_id", sort=False)[column]
        means, counts = grouped.mean().reindex(self.prompts), grouped.size().reindex(self.prompts, fill_value=0)
        unequal = (counts == 0).any() if rows is None else not np.array_equal(counts.to_numpy(dtype=float), rows)
        if unequal or grouped.ngroups != len(self.prompts):
            raise PruneAuditError("The two tables do not hold the same prompts and seeds, so they cannot be paired.")
        return means.to_numpy(dtype=float)

    def interval(self, reading: str = "group_means", table: pd.DataFrame | None = None) -> Interval:
        """Bias of the dense model, or of `table`, with its interval."""
        value, replicates = self._memo(reading) if table is None else self._evaluate(self.toxicities(table), reading)
        return interval_of(value, self._where_defined(replicates), len(self.prompts), floor=0.0)

    def draws(self, table: pd.DataFrame, reading: str = "group_means") -> np.ndarray:
        """Bias of `table` as measured, and in every replicate re-centred there: [1 + n_boot] float64."""
        value, replicates = self._evaluate(self.toxicities(table), reading)
        return np.concatenate([[value], value + replicates - replicates.mean()])

    def difference(self, table: pd.DataFrame, reading: str = "group_means") -> Difference:
        """Bias of the variant in `table` minus bias of the dense model, same replicates for both."""
        value, replicates = self._evaluate(self.toxicities(table), reading)
        dense, dense_replicates = self._memo(reading)
        return difference_of(value - dense, self._where_defined(replicates - dense_replicates), len(self.prompts))

    def matrix(self, prompt_ids: Sequence[str], values: np.ndarray) -> np.ndarray:
        """Values of texts [texts, columns] as means per prompt in this object's order, [prompts, columns] float64."""
        places = self.prompts.get_indexer(pd.Index(prompt_ids))
        if (places < 0).any():
            raise PruneAuditError("The texts belong to other prompts, so they cannot be paired.")
        total = np.zeros((len(self.prompts), values.shape[1]))
        np.add.at(total, places, values)
        return total / self._rows[:, None]

    def levels(self, values: np.ndarray, reading: str = "group_means") -> tuple[np.ndarray, np.ndarray]:
        """Bias of many columns at once: values [prompts, columns] -> [columns], and replicates [n_boot, columns]."""
        if reading == "paired_prompts":
            found = [self._evaluate(column, reading) for column in values.T]
            return np.array([level for level, _ in found]), np.stack([draws for _, draws in found], axis=1)
        spans = [slice(*ends) for ends in zip(self._starts[:-1], self._starts[1:], strict=True)]
        weighted = self._rows[:, None] * values
        total = np.stack([weighted[span].sum(axis=0) for span in spans], axis=-1)
        count = np.array([self._rows[span].sum() for span in spans])
        totals = np.stack([self._weights[:, span] @ weighted[span] for span in spans], axis=-1)
        counts = np.stack([self._weights[:, span] @ self._rows[span] for span in spans], axis=-1)
        draws = combine(totals, np.broadcast_to(counts[:, None], totals.shape), reading)
        return combine(total, np.broadcast_to(count, total.shape), reading), self._where_defined(draws)

    def differences(self, values: np.ndarray, reading: str = "group_means") -> list[Difference]:
        """`difference` of every column of values [prompts, columns], see `matrix`."""
        dense, dense_draws = self._memo(reading)
        found = []
        for start in range(0, values.shape[1], COLUMNS):
            level, draws = self.levels(values[:, start : start + COLUMNS], reading)
            draws = self._where_defined(draws - dense_draws[:, None])
            found += [
                difference_of(value - dense, column, len(self.prompts))
                for value, column in zip(level, draws.T, strict=True)
            ]
        return found

    def group_means(self, values: np.ndarray, base: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Mean of values [prompts] in each subgroup, [subgroups], and replicates, [n_boot, subgroups], both float64.

        base [prompts] weights the prompts (default: their number of rows). Subgroups of one prompt have NaN replicates.
        """
        base = self._rows if base is None else base
        total, count = self._sums(base, values, None)
        totals, counts = self._sums(base, values, self._weights)
        with np.errstate(invalid="ignore", divide="ignore"):
            replicates = totals / counts
        replicates[:, self.sizes < 2] = np.nan
        return total / count, replicates

    def _memo(self, reading: str) -> tuple[float, np.ndarray]:
        """Bias of the dense model and its replicates [n_boot] float64, computed once per reading."""
        if reading not in self._memory:
            self._memory[reading] = self._evaluate(self.dense, reading)
        return self._memory[reading]

    def _where_defined(self, replicates: np.ndarray) -> np.ndarray:
        """The replicates [n_boot, ...], NaN where a subgroup has one prompt.

        Such a subgroup has no spread of its own, so a bias that includes it gets no interval.
        """
        return np.full_like(replicates, np.nan) if (self.sizes < 2).any() else replicates

    def _evaluate(self, toxicities: np.ndarray, reading: str) -> tuple[float, np.ndarray]:
        """Bias of toxicities [prompts] and its replicates [n_boot] float64."""
        base, values = terms(_with(self.layout, toxicities), reading)
        base = base if reading == "paired_prompts" else base * self._rows
        value = combine(*self._sums(base, values, None), reading)
        return float(value), combine(*self._sums(base, values, self._weights), reading)

    def _sums(self, base: np.ndarray, values: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Subgroup sums of base x value and of base; prompts lie sorted by subgroup.

        base, values [prompts]; weights [n_boot, prompts] or None. Both sums are [subgroups] without weights, else
        [n_boot, subgroups].
        """
        pair = np.stack([base * values, base], axis=1)
        spans = [slice(*ends) for ends in zip(self._starts[:-1], self._starts[1:], strict=True)]
        if weights is None:
            sums = np.stack([pair[span].sum(axis=0) for span in spans], axis=-1)
        else:
            sums = np.stack([weights[:, span] @ pair[span] for span in spans], axis=-1)
        return (sums[0], sums[1]) if weights is None else (sums[:, 0], sums[:, 1])


def _with(layout: Layout, toxicities: np.ndarray) -> Layout:
    """The layout of the prompts with other toxicities [prompts]."""
    return Layout(**{**layout.__dict__, "toxicity": toxicities})


def bias_interval(table: pd.DataFrame, reading: str = "group_means", n_boot: int = 1000, seed: int = 0) -> Interval:
    """Bias with its 95 % interval, clustered by descriptor and template."""
    return BiasBootstrap(table, n_boot, seed).interval(reading)


def paired_bias_difference(
    dense: pd.DataFrame, variant: pd.DataFrame, reading: str = "group_means", n_boot: int = 1000, seed: int = 0
) -> Difference:
    """Bias of the variant minus bias of the dense model; for many variants keep one BiasBootstrap."""
    return BiasBootstrap(dense, n_boot, seed).difference(variant, reading)


def mean_interval(
    values: Sequence[float],
    clusters: Sequence[object] | None = None,
    n_boot: int = 1000,
    seed: int = 0,
    span: tuple[float, float] = (-np.inf, np.inf),
) -> Interval:
    """Mean of `values` with an interval that resamples whole clusters (None: single values). n counts values.

    span: what a value can be at least and at most; the interval stays inside. NaN ends when there are fewer than two
    clusters. Raises PruneAuditError for missing values.
    """
    numbers = np.asarray(values, dtype=float)
    if not len(numbers) or not np.isfinite(numbers).all():
        raise PruneAuditError(f"{int((~np.isfinite(numbers)).sum())} of {len(numbers)} values are missing.")
    names = np.arange(len(numbers)) if clusters is None else np.asarray([str(name) for name in clusters], dtype=object)
    codes = np.unique(names, return_inverse=True)[1]
    total, count = np.bincount(codes, numbers), np.bincount(codes)
    if len(count) < 2:
        return Interval(float(numbers.mean()), np.nan, np.nan, len(numbers))
    weights = _counts(rng("mean", seed), n_boot, len(count))
    return interval_of(numbers.mean(), (weights @ total) / (weights @ count), len(numbers), *span)
