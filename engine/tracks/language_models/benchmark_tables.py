"""From log-likelihoods of a benchmark's texts to the tables of a run that hold benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from engine.audit.session import timed
from engine.core.errors import refusal
from engine.core.types import Values, rng
from engine.data.benchmarks.base import FEWEST, Benchmark
from engine.stats.clustered import (
    MISSED,
    TAILS,
    benjamini_hochberg,
    smallest_effect,
    with_own_noise,
)
from engine.stats.resampling import at_least, difference_of, few_drawn, interval_of
from engine.tracks.language_models.benchmarks import (
    PREFIX,
    Metric,
    Scored,
    ScoredBenchmark,
    scored_benchmarks,
)
from engine.tracks.language_models.context import PromptContext, Shard
from engine.tracks.language_models.variants import DENSE, Variant, What

if TYPE_CHECKING:
    from engine.tracks.language_models.opening import Audit


KEYS = {
    "benchmarks": ["variant", "benchmark", "metric", "group"],
    "benchmark_logps": ["variant", "benchmark", "choice"],
    "benchmark_items": ["benchmark", "choice"],
    "benchmark_sources": ["benchmark"],
}
"""What tells the rows of the tables apart."""
TEST = "test"


def benchmark_shards(benchmarks: Sequence[Benchmark], variants: Sequence[Variant]) -> list[Shard]:
    """What the tables need: every benchmark under every mask that is reported."""
    done = dict.fromkeys(variant.what for variant in variants if variant.chosen)
    return [shard_of(what, one.name) for what in done for one in benchmarks]


def shard_of(what: What, benchmark: str) -> Shard:
    """The measurement that a benchmark's numbers are made of, under one mask or arm."""
    return what.shard(scored_benchmarks()[benchmark].measured_by, benchmark)


def measured_benchmarks(
    audit: Audit, variants: Sequence[Variant], results: pd.DataFrame | None = None
) -> dict[str, pd.DataFrame]:
    """The tables of `KEYS` of what the audit's context asks for, measured or found, and `results`
    with a row per headline; none where no benchmark was asked for.

    variants: those reported count, the dense model among them. results: the table of a run that the
    rows join.
    """
    if not audit.context.benchmarks:
        return {}
    audit.finish("measure benchmarks", benchmark_shards(audit.context.benchmarks, variants))
    with timed(audit.progress, "statistics", "benchmarks"):
        return _tables(audit.context, variants, results)


def _tables(
    context: PromptContext, variants: Sequence[Variant], results: pd.DataFrame | None
) -> dict[str, pd.DataFrame]:
    reported = [variant for variant in variants if variant.chosen]
    numbers, logps, read = [], [], []
    for one in context.benchmarks:
        found = {
            variant.id: context.fetch([shard_of(variant.what, one.name)])[0] for variant in reported
        }
        one, found = readable_items(one, found, context.lm.n_positions)
        read.append(one)
        scored = {variant: scored_of(one, table) for variant, table in found.items()}
        numbers.append(numbers_of(scored_benchmarks()[one.name], scored, DENSE))
        logps += [_logps(one, variant, table) for variant, table in found.items()]
        context.hooks.check()
    table = pd.concat(numbers, ignore_index=True)
    rows = result_rows(table)
    return {
        "benchmarks": table,
        "benchmark_logps": pd.concat(logps, ignore_index=True),
        "benchmark_items": pd.concat([_items(one) for one in read], ignore_index=True),
        "benchmark_sources": pd.DataFrame([_source(one) for one in read]),
        "results": rows if results is None else pd.concat([results, rows], ignore_index=True),
    }


def readable_items(
    benchmark: Benchmark, found: dict[str, pd.DataFrame], n_positions: int
) -> tuple[Benchmark, dict[str, pd.DataFrame]]:
    """The benchmark and its log-likelihoods by variant without items of which the model cannot read
    a text whole; a note says how many. RequestError where too few are left."""
    cut = np.logical_or.reduce([table["cut"].to_numpy(dtype=bool) for table in found.values()])
    if not cut.any():
        return benchmark, found
    gone = set(benchmark.choices["item_id"][cut])
    whole, keep = (~part["item_id"].isin(gone) for part in (benchmark.items, benchmark.choices))
    if whole.sum() < FEWEST:
        what = (
            f"{len(gone)} of {len(benchmark.items)} items are longer than the model's {n_positions}"
            " positions."
        )
        fix = "Leave it out, or take a model with a longer context."
        raise refusal(benchmark.name, what, fix)
    start = "1 item is" if len(gone) == 1 else f"{len(gone)} items are"
    note = f"{start} longer than the model's {n_positions} positions and left out."
    shorter = replace(
        benchmark,
        items=benchmark.items[whole].reset_index(drop=True),
        choices=benchmark.choices[keep].reset_index(drop=True),
        notes=(*benchmark.notes, note),
    )
    kept = {variant: table[keep].reset_index(drop=True) for variant, table in found.items()}
    return shorter, kept


def scored_of(benchmark: Benchmark, table: pd.DataFrame) -> Scored:
    """Items and their log-likelihoods by role; table: rows as the benchmark's choices."""
    return Scored.of_rows(benchmark.items, benchmark.choices["role"], table)


def result_rows(numbers: pd.DataFrame) -> pd.DataFrame:
    """The headline of each benchmark as rows of the results: what a trade-off is drawn from."""
    first = {name: one.headline.name for name, one in scored_benchmarks().items()}
    rows = numbers[
        (numbers["group"] == "") & (numbers["metric"] == numbers["benchmark"].map(first))
    ]
    columns = ["variant", "value", "low", "high", "n", *ENDS[2:-4]]
    same = {
        "split": TEST,
        "axis": "",
        "metric": PREFIX + rows["benchmark"],
        "group_note": "",
        "group": "",
        "verdict": "",
        **{f"group_null_{name}": float("nan") for name in ("mean", "low", "high", "p")},
    }
    return rows[columns].assign(**same).reset_index(drop=True)


def _logps(benchmark: Benchmark, variant: str, table: pd.DataFrame) -> pd.DataFrame:
    found = {
        "choice": np.arange(len(table), dtype="int32"),
        "logp": table["logp"].astype("float64"),
        "tokens": table["tokens"].astype("int32"),
    }
    return pd.DataFrame(found).assign(variant=variant, benchmark=benchmark.name)


def _items(benchmark: Benchmark) -> pd.DataFrame:
    """One row per text, with what is known of its item."""
    columns = ["item_id", "group", "cluster", "kind", "polarity", "answer", "women"]
    items = benchmark.items.reindex(columns=columns)
    words = [name for name in columns if name != "women"]
    items[words], items["women"] = items[words].fillna("").astype(str), items["women"].astype(float)
    table = benchmark.choices.merge(items, on="item_id", validate="many_to_one")
    return table.assign(benchmark=benchmark.name, choice=np.arange(len(table), dtype="int32"))


def _source(benchmark: Benchmark) -> dict[str, object]:
    """Where a benchmark comes from."""
    return {
        "benchmark": benchmark.name,
        "source": benchmark.source,
        "digest": benchmark.digest,
        "items": len(benchmark.items),
        "clusters": benchmark.items["cluster"].nunique(),
        "notes": " ".join(benchmark.notes),
    }


# Intervals, nulls and paired changes of a benchmark's numbers: whole clusters of items are
# redrawn or exchanged.
#
# Intervals: clusters drawn with replacement, the same draws for every variant, and Student's t in
# place of the normal, of as many clusters of one size (1 / Σ p², p the share of items in each).
# Null of a level: per cluster a coin says whether the two roles are exchanged, as if the model had
# no preference. Null of a change: per cluster a coin says whether dense and variant are exchanged,
# as if the cut changed nothing. Both are of the very number that is reported.


N_BOOT, N_NULL = 1000, 4999
FEWEST_CLUSTERS = 5
"""Clusters, below which nothing is said but the value."""
NAN = float("nan")
ENDS = [
    *("low", "high", "null_mean", "null_low", "null_high", "null_p"),
    *("delta", "delta_low", "delta_high", "delta_p"),
    *("delta_error", "delta_freedom", "delta_items", "delta_step"),
]
"""Columns of a number beside its value."""
RESTS = ("error", "freedom", "items", "step")
"""What the smallest change rests on that would have been found."""


@dataclass(frozen=True, eq=False)
class Draws:
    """Codes of the items' clusters [items], and what chance draws of them, the same for every
    variant."""

    codes: np.ndarray
    count: int
    seed: str

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
    the variant. sizes [clusters]: items of each."""

    metric: Metric
    draws: Draws
    own: np.ndarray
    exchanged: np.ndarray | None
    dense: np.ndarray | None
    sizes: np.ndarray

    @property
    def n(self) -> int:
        return int(self.sizes.sum())

    @property
    def clusters(self) -> int:
        return int((self.sizes > 0).sum())

    @property
    def freedom(self) -> float:
        """Clusters of one size that say as much, less one."""
        return float(self.n**2 / (self.sizes**2).sum() - 1)

    @property
    def value(self) -> float:
        return float(self.metric.value(self.own.sum(axis=0)))

    def row(self) -> Values:
        """Value with interval, null of no preference, and change with interval and null of no
        change."""
        row: dict[str, Any] = {"metric": self.metric.name, "value": self.value, "n": self.n}
        row |= {"clusters": self.clusters, **dict.fromkeys(ENDS, NAN)}
        if self.dense is not None:
            row["delta"] = self.value - float(self.metric.value(self.dense.sum(axis=0)))
        if self.clusters >= FEWEST_CLUSTERS:
            row |= self._ends()
            row |= {} if self.exchanged is None else self._null(self.exchanged)
            row |= {} if self.dense is None else self._change(row["delta"], self.dense)
        return row

    def _ends(self) -> dict[str, float]:
        """The interval; of a size, that of what it is the size of: 0 where this may be 0."""
        read, most = self.metric.signed or self.metric.value, self.metric.most
        drawn = self._drawn(read(self.draws.weights @ self.own), self.own)
        least = -most if self.metric.signed else self.metric.least
        value, wide = float(read(self.own.sum(axis=0))), few_drawn(drawn, self.freedom)
        found = interval_of(value, wide, self.n, least, most)
        ends = [found.low, found.high]
        if self.metric.signed:
            ends = sorted(map(abs, ends))
            ends[0] *= not found.low < 0 < found.high
        return dict(zip(("low", "high"), ends, strict=True))

    def _drawn(self, drawn: np.ndarray, *sums: np.ndarray) -> np.ndarray:
        """What clusters drew of these sums [N_BOOT], never surer than two items of a share are."""
        return at_least(drawn, self.metric.step * np.sqrt(2) / self._items(*sums))

    def _items(self, *sums: np.ndarray) -> float:
        """How many items these sums are a share of; infinite of what is none."""
        if self.metric.of is not None:
            return max(2.0, min(float(part[:, self.metric.of].sum()) for part in sums))
        return float(self.n) if np.isfinite(self.metric.most) else np.inf

    def _null(self, exchanged: np.ndarray) -> dict[str, float]:
        moved = self.draws.coins @ (self.own - exchanged)
        drawn = self.metric.value(exchanged.sum(axis=0) + moved)
        drawn = drawn[np.isfinite(drawn)]
        if not len(drawn) or not np.isfinite(self.value):
            return {}
        low, high = map(float, np.quantile(drawn, TAILS))
        p = tail(drawn - self.metric.ideal, self.value - self.metric.ideal)
        return {"null_mean": float(drawn.mean()), "null_low": low, "null_high": high, "null_p": p}

    def _change(self, change: float, dense: np.ndarray) -> dict[str, float]:
        value, weights = self.metric.value, self.draws.weights
        drawn = self._drawn(value(weights @ self.own) - value(weights @ dense), self.own, dense)
        wide, most = few_drawn(drawn, self.freedom), self.metric.most
        found = difference_of(change, wide, self.n, most - self.metric.least)
        moved = self.draws.coins @ (self.own - dense)
        null = value(self.own.sum(axis=0) - moved) - value(dense.sum(axis=0) + moved)
        known = drawn[np.isfinite(drawn)]
        return {
            "delta_low": found.low,
            "delta_high": found.high,
            "delta_p": tail(null[np.isfinite(null)], change),
            "delta_error": float(known.std(ddof=1)) if np.isfinite(found.low) else NAN,
            "delta_freedom": self.freedom,
            "delta_items": self._items(self.own, dense),
            "delta_step": self.metric.step,
        }


def tail(null: np.ndarray, value: float) -> float:
    """Two-sided p: the share of null draws farther from zero, and half of those as far, the value
    itself counted with them (Lancaster 1961, as of flips)."""
    if not np.isfinite(value) or not len(null):
        return NAN
    if abs(value) <= 1e-9:
        return 1.0
    apart = np.abs(null) - abs(value)
    far, tied = (apart > 1e-9).sum(), (np.abs(apart) <= 1e-9).sum()
    return float((far + tied / 2 + 0.5) / (1 + len(null)))


def numbers_of(benchmark: ScoredBenchmark, scored: dict[str, Scored], dense: str) -> pd.DataFrame:
    """Every metric of every variant, of all items (group "") and per group, one row each. scored:
    by variant.

    delta_q: Benjamini-Hochberg over the variants, for groups over variants and groups. detectable:
    the smallest change that would have been found in four of five repeats at .05 over the number of
    those tests.
    """
    items = scored[dense].items
    names, codes = np.unique(items["cluster"].to_numpy(dtype=str), return_inverse=True)
    draws, rows = Draws(codes, len(names), benchmark.name), []
    for group in ["", *sorted(items["group"].unique())]:
        keep = (items["group"] == group).to_numpy() if group else np.ones(len(items), dtype=bool)
        parts = {variant: one if keep.all() else one.of(keep) for variant, one in scored.items()}
        sizes = np.bincount(draws.codes[keep], minlength=len(names))
        for metric in benchmark.metrics:
            if group and not metric.per_group:
                continue
            sums = {
                variant: draws.sums(metric.features(one), keep) for variant, one in parts.items()
            }
            for variant, one in parts.items():
                exchanged = None
                if metric.exchanges:
                    exchanged = draws.sums(metric.features(benchmark.exchanged(one)), keep)
                before = None if variant == dense else sums[dense]
                row = {"variant": variant, "benchmark": benchmark.name, "group": group}
                row |= {"alike": int(benchmark.alike(one).sum())}
                found = Sums(metric, draws, sums[variant], exchanged, before, sizes)
                rows.append({**row, **found.row()})
    return _corrected(pd.DataFrame(rows))


def _corrected(table: pd.DataFrame) -> pd.DataFrame:
    """With delta_q and detectable in place of delta_error and what it rests on."""
    table = table.assign(delta_q=NAN, detectable=NAN, tests=0)
    for _, rows in table.groupby(["metric", table["group"] == ""]):
        tested = rows[rows["delta_p"].notna()]
        if tested.empty:
            continue
        table.loc[tested.index, "delta_q"] = benjamini_hochberg(tested["delta_p"].to_numpy())
        table.loc[tested.index, "tests"] = len(tested)
        sure = tested[tested["delta_error"] > 0]
        if len(sure):
            error, freedom, items, step = sure[[f"delta_{name}" for name in RESTS]].to_numpy().T
            found = smallest_effect(error, freedom, MISSED / len(tested))
            table.loc[sure.index, "detectable"] = with_own_noise(found, found / error, step, items)
    return table.drop(columns=[f"delta_{name}" for name in RESTS])
