"""From log-likelihoods of a benchmark's texts to the tables of a run that hold benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from engine.audit.session import timed
from engine.core.errors import Fault, RequestError
from engine.data.benchmarks.base import Benchmark
from engine.data.benchmarks.load import FEWEST
from engine.tracks.language_models.benchmark_statistics import numbers_of
from engine.tracks.language_models.benchmarks.base import PREFIX, Scored, scored_benchmarks
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
    """`benchmark_tables` of what the audit's context asks for, measured or found."""
    if not audit.context.benchmarks:
        return {}
    audit.finish("measure benchmarks", benchmark_shards(audit.context.benchmarks, variants))
    with timed(audit.progress, "statistics", "benchmarks"):
        return benchmark_tables(audit.context, variants, results)


def benchmark_tables(
    context: PromptContext, variants: Sequence[Variant], results: pd.DataFrame | None = None
) -> dict[str, pd.DataFrame]:
    """The tables of `KEYS`, and `results` with a row per headline; none where no benchmark was
    asked for.

    variants: the reported ones, the dense model among them. results: the table of a run that the
    rows join.
    """
    if not context.benchmarks:
        return {}
    reported = [variant for variant in variants if variant.chosen]
    numbers, logps, read = [], [], []
    for one in context.benchmarks:
        found = {
            variant.id: context.fetch([shard_of(variant.what, one.name)])[0] for variant in reported
        }
        one, found = _readable(one, found, context.lm.n_positions)
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


def _readable(
    benchmark: Benchmark, found: dict[str, pd.DataFrame], n_positions: int
) -> tuple[Benchmark, dict[str, pd.DataFrame]]:
    """The benchmark and its log-likelihoods by variant without items of which the model cannot read
    a text whole; a note says how many. RequestError where too few are left."""
    cut = np.logical_or.reduce([table["cut"].to_numpy(dtype=bool) for table in found.values()])
    if not cut.any():
        return benchmark, found
    gone = set(benchmark.choices["item_id"][cut])
    items, texts = (
        table[~table["item_id"].isin(gone)] for table in (benchmark.items, benchmark.choices)
    )
    if len(items) < FEWEST:
        what = (
            f"{len(gone)} of {len(benchmark.items)} items are longer than the model's {n_positions}"
            " positions."
        )
        raise RequestError(
            Fault(benchmark.name, what, "Leave it out, or take a model with a longer context.")
        )
    start = "1 item is" if len(gone) == 1 else f"{len(gone)} items are"
    note = f"{start} longer than the model's {n_positions} positions and left out."
    keep = benchmark.choices.index.isin(texts.index)
    kept = {variant: table[keep].reset_index(drop=True) for variant, table in found.items()}
    shorter = replace(
        benchmark, items=items.reset_index(drop=True), choices=texts.reset_index(drop=True)
    )
    return replace(shorter, notes=(*benchmark.notes, note)), kept


def scored_of(benchmark: Benchmark, table: pd.DataFrame) -> Scored:
    """Items and their log-likelihoods by role; table: rows as the benchmark's choices."""
    roles = list(dict.fromkeys(benchmark.choices["role"]))
    by_role = {role: (benchmark.choices["role"] == role).to_numpy() for role in roles}
    logp = {role: table["logp"].to_numpy(dtype=float)[at] for role, at in by_role.items()}
    tokens = {role: table["tokens"].to_numpy(dtype=float)[at] for role, at in by_role.items()}
    return Scored(benchmark.items, logp, tokens)


def result_rows(numbers: pd.DataFrame) -> pd.DataFrame:
    """The headline of each benchmark as rows of the results: what a trade-off is drawn from."""
    first = {name: one.headline.name for name, one in scored_benchmarks().items()}
    rows = numbers[
        (numbers["group"] == "") & (numbers["metric"] == numbers["benchmark"].map(first))
    ]
    columns = [
        "variant",
        "value",
        "low",
        "high",
        "n",
        "null_mean",
        "null_low",
        "null_high",
        "null_p",
        "delta",
        "delta_low",
        "delta_high",
        "delta_p",
    ]
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
