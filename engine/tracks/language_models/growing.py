"""More of a finished audit: another level of a method, or heads chosen by hand, measured as its own
variants were.

Same model, prompts, text, judge and seeds; changes are paired with the dense model, which is drawn
again where the store does not hold it (a run keeps its verdicts rounded, so they cannot stand in
for it). What comes out is an addition to the run (engine/store/additions.py): the run's tables hold
it from then on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.audit.executors import Executor
from engine.audit.growing import Grown, check_asked, check_name, check_units, grown_run, run_of
from engine.audit.growth import Growth
from engine.audit.session import timed
from engine.core.errors import Fault, RequestError
from engine.core.types import POOLED, Hooks
from engine.report.charts import lookup
from engine.report.hand_sets import check_taken, name_of
from engine.resident.warm import Warm
from engine.store.runs import Run, Store
from engine.store.shards import Used
from engine.surgery.heads.named import mask_of_units
from engine.tracks.language_models import benchmark_tables
from engine.tracks.language_models.any_level import arms_at, compressions_of, variants_at
from engine.tracks.language_models.benchmark_tables import measured_benchmarks
from engine.tracks.language_models.bias import bias
from engine.tracks.language_models.growing_benchmarks import grown_by_benchmarks, measure_benchmarks
from engine.tracks.language_models.request import prompt_plan_of
from engine.tracks.language_models.stopping import as_drawn
from engine.tracks.language_models.tables import TEST, VALIDATION, Measured, Placed, shards_at
from engine.tracks.language_models.variants import Variant, dense_variant, variant_table

if TYPE_CHECKING:
    from engine.tracks.language_models.context import PromptContext
    from engine.tracks.language_models.opening import Audit

KEYS = {
    "variants": ["variant"],
    "results": ["variant", "split", "axis", "metric"],
    "groups": ["variant", "split", "axis", "metric", "group"],
    "generations": ["variant", "split", "axis", "prompt_id", "seed"],
    "windows": ["variant", "split", "window"],
    "costs": ["variant"],
    **benchmark_tables.KEYS,
}
"""What tells the rows of a table apart: a set that was measured on validation prompts, then on test
prompts, is one."""
NUMBERED = {"text_id": "texts"}
APART = 1e-6
"""Dense biases that differ by more were not drawn alike: machines and versions round differently.
"""


def placed(grown: Grown) -> list[Placed]:
    """What the addition reports. Of validation prompts the dense model too: not every run has it
    there."""
    dense = [(dense_variant(), grown.split, grown.axes)] if grown.split == VALIDATION else []
    return [*dense, *((variant, grown.split, grown.axes) for variant in grown.variants)]


def grow(
    request: Growth,
    store: Store,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    executor: Executor | None = None,
    warm: Warm | None = None,
) -> Run:
    """The run with what was asked, measured now or found. warm: what is loaded already, and keeps
    what is loaded now.

    RequestError before anything heavy loads.
    """
    if request.judge:
        from engine.tracks.language_models.opinions import (
            opinion,
        )  # loads torch, as the next: pages check growths, too

        return opinion(request, store, hooks, executor)
    from engine.tracks.language_models.opening import open_audit

    grown = grown_of(request, store)
    measured = measure_benchmarks if request.benchmarks else _measure

    def measure(chosen: Executor, used: Used) -> None:
        measured(grown, open_audit(grown.plan, store, hooks, chosen, warm), store, used)

    return grown_run(grown, store, hooks, executor, measure)


def check_growth(request: Growth, store: Store) -> None:
    """RequestError with what is wrong with it."""
    if request.judge:
        from engine.tracks.language_models.opinions import check_opinion

        check_opinion(request, store)
    else:
        grown_of(request, store)


def grown_of(request: Growth, store: Store) -> Grown:
    """The growth, checked. RequestError where it cannot be measured, or the run would not be the
    same run today."""
    if request.benchmarks:
        return grown_by_benchmarks(request, store)
    run = run_of(request, store)
    variants, split = variants_of(run, request)
    arms = tuple(dict.fromkeys((one.method, one.sparsity) for one in variants if one.arm))
    plan = replace(prompt_plan_of(run), more_arms=arms)
    return Grown(run, plan, variants, split, _missing(run, variants, split, request.axes), request)


def variants_of(run: Run, request: Growth) -> tuple[tuple[Variant, ...], str]:
    """The variants that a growth asks of a run, and the split of its prompts. RequestError where
    there are none."""
    check_asked(run, request, (TEST, VALIDATION), benchmarks=True)
    split = request.split or (VALIDATION if request.units else TEST)
    return (_by_hand if request.units else _of_level)(run, request, split), split


def _of_level(run: Run, request: Growth, split: str) -> tuple[Variant, ...]:
    if split != TEST:
        raise RequestError(
            Fault("split", "levels of a method are measured on test prompts.", "Leave it out.")
        )
    level, compressed = float(request.level or 0), request.method in compressions_of(run)
    if compressed:
        return tuple(arms_at(run, request.method, level))
    found = variants_at(run, request.method, request.axis, level)
    faults = []
    for one in found:
        other = _cut_of(run, one.id)
        if other is not None and other != list(one.cut):
            what = (
                f"{request.level:g} is to three decimals a level that this audit has, with other"
                " heads."
            )
            faults.append(Fault("sparsity", what, "Give another level."))
    if faults:
        raise RequestError(faults[0])
    return tuple(found)


def _by_hand(run: Run, request: Growth, split: str) -> tuple[Variant, ...]:
    model = run.meta["model"]
    counted = f": layer times {model['n_heads']} plus head"
    check_units(request.units, lookup.total_heads(run), "heads", model["name"], counted)
    check_name(request.name)
    mask = mask_of_units(run, request.units)
    name = name_of(mask.digest, request.name)
    check_taken(run, name, mask.units, lookup.cut_units, "heads")
    reported = split == TEST or name in set(lookup.reported(run)["variant"])
    return (Variant(name, name, "", float("nan"), mask.sparsity, POOLED, mask.units, reported),)


def _cut_of(run: Run, variant: str) -> list[int] | None:
    """Heads of a variant that the run has already."""
    table = lookup.frame(run, "variants")
    rows = table[table["variant"] == variant].to_dict("records")
    return lookup.cut_units(rows[0]) if rows else None


def _missing(
    run: Run, variants: tuple[Variant, ...], split: str, axes: tuple[str, ...]
) -> tuple[str, ...]:
    """Axes on which one of the variants was not measured yet."""
    harm = f"bias:{run.meta['request']['reading']}"
    return tuple(
        axis
        for axis in axes
        if any(lookup.result(run, one.id, harm, axis, split) is None for one in variants)
    )


def _measure(grown: Grown, audit: Audit, store: Store, used: Used) -> None:
    """Measure what is missing and write the addition."""
    variants = [_reached(one, audit.context) for one in grown.variants]
    detailed, dense = (grown.split,), (dense_variant(), grown.split, grown.axes)
    asked = as_drawn(audit.request, grown.run.meta)
    shards = shards_at([dense, *placed(grown)], asked.seed_list, detailed)
    audit.finish(
        "measure", [shard for shard in shards if shard.cut or shard.arm or shard.kind != "cost"]
    )
    with timed(audit.progress, "statistics", "intervals and null bands"):
        measured = Measured(audit.context, asked, audit.progress)
        tables = measured.tables_at(placed(grown), detailed)
        notes = _notes(grown, measured)
    lm = audit.context.lm
    tables["variants"] = variant_table(variants, lm.n_layers, lm.n_heads)
    if grown.split == TEST:
        tables |= measured_benchmarks(audit, [dense_variant(), *variants], tables["results"])
    grown.write(store, audit, used, tables, notes, KEYS, NUMBERED)


def _reached(variant: Variant, context: PromptContext) -> Variant:
    """An arm with what its level comes to on this model. RequestError where that is nothing."""
    if not variant.arm:
        return variant
    reached = context.arms[variant.arm].reached(context.lm)
    if reached == 0:
        what = (
            f"{variant.sparsity:g} is too low for {variant.method} to change a number of"
            f" {context.lm.name}."
        )
        raise RequestError(Fault("sparsity", what, "Give a higher one."))
    return replace(variant, reached=reached)


def _notes(grown: Grown, measured: Measured) -> list[str]:
    """What must be said where the dense model is not drawn as in the run: changes are paired with
    its new texts."""
    notes, reading = [], measured.request.reading
    for axis in grown.axes:
        row = lookup.result(grown.run, "dense", f"bias:{reading}", axis, grown.split)
        if row is None:
            continue
        now = bias(measured.toxicity((dense_variant().what, grown.split, axis)), reading)
        if abs(now - row["value"]) > APART:
            notes.append(
                f"{axis}: the uncut model's bias is {now:.4f} as drawn here and {row['value']:.4f}"
                " in the audit, whose machine or versions round differently; changes are against"
                " the former."
            )
    return notes
