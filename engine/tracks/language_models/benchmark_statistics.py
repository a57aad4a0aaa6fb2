"""Intervals, nulls and paired changes of a benchmark's numbers: whole clusters of items are redrawn
or exchanged.

Intervals: clusters drawn with replacement, the same draws for every variant. Null of a level: per
cluster a coin says whether the two roles are exchanged, as if the model had no preference. Null of
a change: per cluster a coin says whether dense and variant are exchanged, as if the cut changed
nothing. Both are of the very number that is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from engine.core.seeds import rng
from engine.stats.fdr import benjamini_hochberg
from engine.stats.resampling import difference_of, interval_of
from engine.stats.student import MISSED, smallest_effect
from engine.tracks.language_models.benchmarks.base import Metric, Scored, ScoredBenchmark

N_BOOT, N_NULL = 1000, 4999
FEWEST = 5
"""Clusters, below which nothing is said but the value."""
NAN = float("nan")


@dataclass(frozen=True, eq=False)
class Draws:
    """Codes of the items' clusters [items], and what chance draws of them, the same for every
    variant."""

    codes: np.ndarray
    count: int
    seed: str

    @classmethod
    def of(cls, benchmark: str, items: pd.DataFrame) -> Draws:
        names, codes = np.unique(items["cluster"].to_numpy(dtype=str), return_inverse=True)
        return cls(codes, len(names), benchmark)

    @cached_property
    def weights(self) -> np.ndarray:
        """How often each cluster is drawn, [N_BOOT, clusters]."""
        even = np.full(self.count, 1 / self.count)
        return (
            rng("benchmark", self.seed, "boot")
            .multinomial(self.count, even, size=N_BOOT)
            .astype(float)
        )

    @cached_property
    def coins(self) -> np.ndarray:
        """0 or 1 per cluster, [N_NULL, clusters] float32."""
        return (
            rng("benchmark", self.seed, "null")
            .integers(0, 2, (N_NULL, self.count))
            .astype(np.float32)
        )

    def sums(self, features: np.ndarray, keep: np.ndarray) -> np.ndarray:
        """Sums of features [kept items, columns] per cluster, [clusters, columns]; keep [items]
        bool."""
        out = np.zeros((self.count, features.shape[1]))
        np.add.at(out, self.codes[keep], features)
        return out


@dataclass(frozen=True, eq=False)
class Sums:
    """One metric on one set of items: sums per cluster of the dense model and, for a variant, of
    the variant."""

    metric: Metric
    draws: Draws
    own: np.ndarray
    exchanged: np.ndarray | None
    dense: np.ndarray | None
    n: int
    clusters: int

    @property
    def value(self) -> float:
        return float(self.metric.value(self.own.sum(axis=0)))

    def row(self) -> dict[str, float | int | str]:
        """Value with interval, null of no preference, and change with interval and null of no
        change."""
        said: dict[str, float | int | str] = {
            "metric": self.metric.name,
            "value": self.value,
            "n": self.n,
        }
        return {
            **said,
            "clusters": self.clusters,
            **self._interval(),
            **self._null(),
            **self._change(),
        }

    def _interval(self) -> dict[str, float]:
        if self.clusters < FEWEST:
            return {"low": NAN, "high": NAN}
        drawn = self.metric.value(self.draws.weights @ self.own)
        found = interval_of(self.value, drawn, self.n, self.metric.least, self.metric.most)
        return {"low": found.low, "high": found.high}

    def _null(self) -> dict[str, float]:
        nothing = dict.fromkeys(("null_mean", "null_low", "null_high", "null_p"), NAN)
        if self.exchanged is None or self.clusters < FEWEST:
            return nothing
        drawn = self.metric.value(
            self.exchanged.sum(axis=0) + self.draws.coins @ (self.own - self.exchanged)
        )
        drawn = drawn[np.isfinite(drawn)]
        if not len(drawn) or not np.isfinite(self.value):
            return nothing
        low, high = np.percentile(drawn, [2.5, 97.5])
        p = tail(drawn - self.metric.ideal, self.value - self.metric.ideal)
        return {
            "null_mean": float(drawn.mean()),
            "null_low": float(low),
            "null_high": float(high),
            "null_p": p,
        }

    def _change(self) -> dict[str, float]:
        nothing = dict.fromkeys(("delta", "delta_low", "delta_high", "delta_p", "delta_error"), NAN)
        if self.dense is None:
            return nothing
        change = self.value - float(self.metric.value(self.dense.sum(axis=0)))
        if self.clusters < FEWEST:
            return {**nothing, "delta": change}
        drawn = self.metric.value(self.draws.weights @ self.own) - self.metric.value(
            self.draws.weights @ self.dense
        )
        found = difference_of(change, drawn, self.n, self.metric.most - self.metric.least)
        moved = self.draws.coins @ (self.own - self.dense)
        null = self.metric.value(self.own.sum(axis=0) - moved) - self.metric.value(
            self.dense.sum(axis=0) + moved
        )
        known = drawn[np.isfinite(drawn)]
        error = float(known.std(ddof=1)) if np.isfinite(found.low) else NAN
        p = tail(null[np.isfinite(null)], change)
        return {
            "delta": change,
            "delta_low": found.low,
            "delta_high": found.high,
            "delta_p": p,
            "delta_error": error,
        }


def tail(null: np.ndarray, value: float) -> float:
    """Two-sided p: the share of null draws at least as far from zero, the value itself counted with
    them."""
    if not np.isfinite(value) or not len(null):
        return NAN
    return float((1 + (np.abs(null) >= abs(value) - 1e-9).sum()) / (1 + len(null)))


def numbers_of(benchmark: ScoredBenchmark, scored: dict[str, Scored], dense: str) -> pd.DataFrame:
    """Every metric of every variant, of all items (group "") and per group, one row each. scored:
    by variant.

    delta_q: Benjamini-Hochberg over the variants, for groups over variants and groups. detectable:
    the smallest change that would have been found in four of five repeats at .05 over the number of
    those tests.
    """
    items = scored[dense].items
    draws, groups = Draws.of(benchmark.name, items), ["", *sorted(items["group"].unique())]
    rows = []
    for group in groups:
        keep = (
            np.ones(len(items), dtype=bool) if not group else (items["group"] == group).to_numpy()
        )
        parts = {variant: one if keep.all() else one.of(keep) for variant, one in scored.items()}
        clusters = len(np.unique(draws.codes[keep]))
        for metric in benchmark.metrics:
            if group and not metric.per_group:
                continue
            sums = {
                variant: draws.sums(metric.features(one), keep) for variant, one in parts.items()
            }
            for variant, one in parts.items():
                exchanged = (
                    None if metric.swapped is None else draws.sums(metric.swapped(one), keep)
                )
                before = None if variant == dense else sums[dense]
                found = Sums(
                    metric, draws, sums[variant], exchanged, before, int(keep.sum()), clusters
                )
                alike = int(benchmark.alike(one).sum())
                said = {
                    "variant": variant,
                    "benchmark": benchmark.name,
                    "group": group,
                    "alike": alike,
                }
                rows.append({**said, **found.row()})
    return _corrected(pd.DataFrame(rows))


def _corrected(table: pd.DataFrame) -> pd.DataFrame:
    """With delta_q and detectable in place of delta_error."""
    table = table.assign(delta_q=NAN, detectable=NAN, tests=0)
    for _, rows in table.groupby(["metric", table["group"] == ""]):
        tested = rows[rows["delta_p"].notna()]
        if tested.empty:
            continue
        table.loc[tested.index, "delta_q"] = benjamini_hochberg(tested["delta_p"].to_numpy())
        table.loc[tested.index, "tests"] = len(tested)
        sure = tested[tested["delta_error"] > 0]
        freedom = (sure["clusters"] - 1).to_numpy(dtype=float)
        if len(sure):
            found = smallest_effect(sure["delta_error"].to_numpy(), freedom, MISSED / len(tested))
            table.loc[sure.index, "detectable"] = found
    return table.drop(columns="delta_error")
