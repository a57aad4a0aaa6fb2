"""A finished audit grows by a benchmark: every reported variant is measured on it, as had the audit
asked for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.audit.growing import Grown, check_asked, run_of
from engine.audit.growth import Growth
from engine.core.errors import Fault, RequestError
from engine.data.benchmarks.base import Benchmark
from engine.data.benchmarks.load import WHERE, load_benchmarks
from engine.report.charts import lookup
from engine.store.runs import Run, Store
from engine.store.shards import Used
from engine.tracks.language_models import benchmark_tables
from engine.tracks.language_models.arm_words import arm_of
from engine.tracks.language_models.asked_benchmarks import benchmark_faults, named_paths
from engine.tracks.language_models.request import prompt_plan_of
from engine.tracks.language_models.tables import TEST
from engine.tracks.language_models.variants import DENSE, Variant, dense_variant

if TYPE_CHECKING:
    from engine.tracks.language_models.opening import Audit

KEYS = {"results": ["variant", "split", "axis", "metric"], **benchmark_tables.KEYS}


def grown_by_benchmarks(request: Growth, store: Store) -> Grown:
    """The growth, checked: which benchmarks, and which variants still lack one. RequestError with
    all faults."""
    run = run_of(request, store)
    check_asked(run, request, (TEST,), benchmarks=True)
    faults: list[Fault] = []
    found = _read(run, named_paths(WHERE, request.benchmarks, faults), faults)
    if faults:
        raise RequestError(faults)
    lacking = _lacking(run, found)
    variants = tuple(one for one in lacking if one.id != DENSE)
    plan = replace(prompt_plan_of(run), benchmarks=found)
    digests = {one.name: one.digest for one in found}
    axes = (request.axis,) if lacking else ()
    return Grown(
        run,
        plan,
        variants,
        TEST,
        axes,
        request,
        digests | {"variants": " ".join(v.id for v in lacking)},
    )


def _read(run: Run, asked: dict[str, str], faults: list[Fault]) -> tuple[Benchmark, ...]:
    """The benchmarks at these paths, by name; whatever is wrong with any of them is added to the
    faults."""
    found: list[Benchmark] = []
    for name, path in sorted(asked.items()):
        if wrong := benchmark_faults({name: path}):
            faults += wrong
            continue
        try:
            found += load_benchmarks({name: path})
        except RequestError as error:
            faults += error.faults
    faults += [fault for one in found for fault in _other_file(run, one)]
    return tuple(found)


def _other_file(run: Run, benchmark: Benchmark) -> list[Fault]:
    """A run holds one file of each benchmark: two would be one number of both."""
    if not run.has("benchmark_sources"):
        return []
    rows = lookup.frame(run, "benchmark_sources")
    rows = rows[(rows["benchmark"] == benchmark.name) & (rows["digest"] != benchmark.digest)]
    what = "this audit was measured on another file of it: {}."
    fix = "Give that one, or audit again with a folder of both."
    return [
        Fault(f"{WHERE} {benchmark.name}", what.format(name), fix)
        for name in rows["source"].head(1)
    ]


def _lacking(run: Run, benchmarks: tuple[Benchmark, ...]) -> tuple[Variant, ...]:
    """Reported variants without a number of one of the benchmarks."""
    table = lookup.frame(run, "benchmarks") if run.has("benchmarks") else None
    there = set() if table is None else set(zip(table["variant"], table["benchmark"], strict=True))
    rows = lookup.reported(run).to_dict("records")
    return tuple(
        Variant(
            row["variant"],
            row["method"],
            row["target_axis"],
            float(row["gamma"]),
            float(row["sparsity"]),
            int(row["seed"]),
            tuple(lookup.cut_units(row)),
            arm=arm_of(row),
        )
        for row in rows
        if any((row["variant"], one.name) not in there for one in benchmarks)
    )


def measure_benchmarks(grown: Grown, audit: Audit, store: Store, used: Used) -> None:
    """Measure them under every mask that lacks them, and write the addition."""
    tables = benchmark_tables.measured_benchmarks(audit, [dense_variant(), *grown.variants])
    notes = [f"{one.name}: {note}" for one in audit.context.benchmarks for note in one.notes]
    grown.write(store, audit, used, tables, notes, KEYS)


def told_benchmarks(run: Run, growth: Growth) -> Iterator[dict[str, Any]]:
    """The headline of every variant, for the command line."""
    names = {one.partition("=")[0] for one in growth.benchmarks}
    table, cut = (
        lookup.frame(run, "benchmarks"),
        lookup.frame(run, "variants").set_index("variant")["n_cut"],
    )
    rows = table[table["benchmark"].isin(names) & (table["group"] == "")]
    nothing = dict.fromkeys(("predicted", "predicted_low", "predicted_high"))
    for row in rows.to_dict("records"):
        same = {
            "variant": row["variant"],
            "n_cut": int(cut[row["variant"]]),
            "axis": row["benchmark"],
        }
        number = row["metric"].replace("_", " ")
        yield {
            **same,
            "number": number,
            **nothing,
            "measured": row["value"],
            "low": row["low"],
            "high": row["high"],
        }
