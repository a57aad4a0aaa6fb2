"""More of a finished audit: another level of a method, or heads chosen by hand, measured as its own variants were.

Same model, prompts, text, judge and seeds; changes are paired with the dense model, which is drawn again where the
store does not hold it (a run keeps its verdicts rounded, so they cannot stand in for it). What comes out is an addition
to the run (engine/store/additions.py): the run's tables hold it from then on.
"""

from __future__ import annotations

import datetime
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.audit.executors import Executor, Local
from engine.audit.growth import Growth
from engine.audit.provenance import provenance
from engine.audit.session import damaged_words, timed
from engine.audit.tracks import track_of_run
from engine.core.errors import Fault, RequestError, unknown
from engine.core.files import json_able
from engine.core.types import POOLED, Hooks
from engine.report.charts import lookup
from engine.resident.warm import Warm
from engine.store.additions import id_of, write_addition
from engine.store.runs import EMBEDDED, Run, Store, find_run
from engine.store.shards import Used, noted
from engine.tracks.language_models.any_level import variants_at
from engine.tracks.language_models.bias import bias
from engine.tracks.language_models.hand_sets import mask_of, name_of, plan_of
from engine.tracks.language_models.request import PromptPlan
from engine.tracks.language_models.tables import TEST, VALIDATION, Measured, Placed, shards_at
from engine.tracks.language_models.variants import Variant, dense_variant, variant_table

if TYPE_CHECKING:
    from engine.tracks.language_models.opening import Audit

KEYS = {
    "variants": ["variant"],
    "results": ["variant", "split", "axis", "metric"],
    "groups": ["variant", "split", "axis", "metric", "group"],
    "generations": ["variant", "split", "axis", "prompt_id", "seed"],
    "windows": ["variant", "split", "window"],
    "costs": ["variant"],
}
"""What tells the rows of a table apart: a set that was measured on validation prompts, then on test prompts, is one."""
NUMBERED = {"text_id": "texts"}
LONGEST = 60
"""Characters of a name."""
APART = 1e-6
"""Dense biases that differ by more were not drawn alike: machines and versions round differently."""


@dataclass(frozen=True)
class Grown:
    """A growth that holds up: the run, its plan, and what of it the run does not have yet."""

    run: Run
    plan: PromptPlan
    variants: tuple[Variant, ...]
    split: str
    axes: tuple[str, ...]
    request: Growth

    @property
    def id(self) -> str:
        """The addition's id: what a growth is called in lists does not count."""
        asked = {**self.request.identity, "axes": list(self.axes), "split": self.split}
        return id_of(self.run.id, asked, self.plan.versions)

    @property
    def placed(self) -> list[Placed]:
        """What the addition reports. Of validation prompts the dense model too: not every run has it there."""
        dense = [(dense_variant(), self.split, self.axes)] if self.split == VALIDATION else []
        return [*dense, *((variant, self.split, self.axes) for variant in self.variants)]


def grow(
    request: Growth,
    store: Store,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    executor: Executor | None = None,
    warm: Warm | None = None,
) -> Run:
    """The run with what was asked, measured now or found. warm: what is loaded already, and keeps what is loaded now.

    RequestError before anything heavy loads; what was finished before an interruption is found in the store.
    """
    from engine.tracks.language_models.opening import open_audit  # loads torch: pages check growths, too

    grown = grown_of(request, store)
    if not grown.axes:
        return grown.run
    store.prove_writable()
    with store.alone(f"{grown.run.id}-{grown.id}", hooks.check), closing(executor or Local()) as chosen:
        if grown.id not in {one.id for one in _run(request, store).added}:
            with noted() as used:
                audit = open_audit(grown.plan, store, hooks, chosen, warm)
                _measure(grown, audit, store, used)
    return _run(request, store)


def check_growth(request: Growth, store: Store) -> None:
    """RequestError with what is wrong with it."""
    grown_of(request, store)


def grown_of(request: Growth, store: Store) -> Grown:
    """The growth, checked. RequestError where it cannot be measured, or the run would not be the same run today."""
    run = _run(request, store)
    variants, split = variants_of(run, request)
    return Grown(run, plan_of(run), variants, split, _missing(run, variants, split, request.axes), request)


def variants_of(run: Run, request: Growth) -> tuple[tuple[Variant, ...], str]:
    """The variants that a growth asks of a run, and the split of its prompts. RequestError where there are none."""
    if track_of_run(run).name != request.track:
        raise RequestError(Fault("run", f"is of {track_of_run(run).cuts}.", f"Name one of {request.track}."))
    known, wanted = run.meta["request"]["axes"], dict.fromkeys((request.axis, *request.axes))
    faults = [unknown("axis", axis, known) for axis in wanted if axis not in known]
    if request.split not in ("", TEST, VALIDATION):
        faults.append(unknown("split", request.split, (TEST, VALIDATION)))
    if bool(request.units) == (request.level is not None):
        faults.append(Fault("request", "a level of a method or a set of heads is needed.", "Give one of the two."))
    if faults:
        raise RequestError(faults)
    split = request.split or (VALIDATION if request.units else TEST)
    return (_by_hand if request.units else _of_level)(run, request, split), split


def _run(request: Growth, store: Store) -> Run:
    return find_run(request.run, [store, Store(EMBEDDED, read_only=True)])


def _of_level(run: Run, request: Growth, split: str) -> tuple[Variant, ...]:
    if split != TEST:
        raise RequestError(Fault("split", "levels of a method are measured on test prompts.", "Leave it out."))
    found = variants_at(run, request.method, request.axis, float(request.level or 0))
    faults = []
    for one in found:
        other = _cut_of(run, one.id)
        if other is not None and other != list(one.cut):
            what = f"{request.level:g} is to three decimals a level that this audit has, with other heads."
            faults.append(Fault("sparsity", what, "Give another level."))
    if faults:
        raise RequestError(faults[0])
    return tuple(found)


def _by_hand(run: Run, request: Growth, split: str) -> tuple[Variant, ...]:
    model = run.meta["model"]
    total = model["n_layers"] * model["n_heads"]
    if not all(0 <= unit < total for unit in request.units) or len(set(request.units)) != len(request.units):
        what = f"{list(request.units)} are not heads of {model['name']}, once each."
        raise RequestError(Fault("heads", what, f"Units go from 0 to {total - 1}: layer times {model['n_heads']} plus "
                                 "head."))  # fmt: skip
    mask = mask_of(run, [divmod(unit, model["n_heads"]) for unit in request.units])
    if len(request.name) > LONGEST or not (request.name or "x").isprintable() or set(request.name) & set("<>&"):
        what = "is too long or holds what charts cannot show."
        raise RequestError(Fault("name", what, f"At most {LONGEST} letters, none of < > &."))
    name = name_of(mask, request.name)
    taken = _cut_of(run, name)
    if taken is not None and taken != list(mask.units):
        raise RequestError(Fault("name", f"{request.name!r} is another set of heads.", "Give another name."))
    reported = split == TEST or name in set(lookup.reported(run)["variant"])
    return (Variant(name, name, "", float("nan"), mask.sparsity, POOLED, mask.units, reported),)


def _cut_of(run: Run, variant: str) -> list[int] | None:
    """Heads of a variant that the run has already."""
    table = lookup.frame(run, "variants")
    rows = table[table["variant"] == variant].to_dict("records")
    return lookup.cut_units(rows[0]) if rows else None


def _missing(run: Run, variants: tuple[Variant, ...], split: str, axes: tuple[str, ...]) -> tuple[str, ...]:
    """Axes on which one of the variants was not measured yet."""
    harm = f"bias:{run.meta['request']['reading']}"
    there = [lookup.result(run, one.id, harm, axis, split) is not None for axis in axes for one in variants]
    found = np.array(there).reshape(len(axes), len(variants)).all(axis=1)
    return tuple(axis for axis, done in zip(axes, found, strict=True) if not done)


def _measure(grown: Grown, audit: Audit, store: Store, used: Used) -> None:
    """Measure what is missing and write the addition."""
    detailed, dense = (grown.split,), (dense_variant(), grown.split, grown.axes)
    shards = shards_at([dense, *grown.placed], audit.request.seed_list, detailed)
    audit.finish("measure", [shard for shard in shards if shard.cut or shard.kind != "cost"])
    with timed(audit.progress, "statistics", "intervals and null bands"):
        measured = Measured(audit.context, audit.request, audit.progress)
        tables = measured.tables_at(grown.placed, detailed)
        notes = _notes(grown, measured)
    lm = audit.context.lm
    tables["variants"] = variant_table(list(grown.variants), lm.n_layers, lm.n_heads)
    meta = {
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
        "title": grown.request.title,
        "asked": {**grown.request.identity, "axes": list(grown.axes), "split": grown.split},
        "provenance": {**provenance(audit.context), "code": grown.plan.versions},
        "spent": {phase: round(seconds, 2) for phase, seconds in audit.progress.spent.items()},
        "notes": [*notes, *map(damaged_words, used.damaged)],
        "shards": used.hashes,
        "keys": KEYS,
        "numbered": NUMBERED,
    }
    kept: dict[str, Any] = {name: table for name, table in tables.items() if len(table)}
    write_addition(store.root, grown.run.id, grown.id, json_able(meta), kept)


def _notes(grown: Grown, measured: Measured) -> list[str]:
    """What must be said where the dense model is not drawn as in the run: changes are paired with its new texts."""
    notes, reading = [], measured.request.reading
    for axis in grown.axes:
        row = lookup.result(grown.run, "dense", f"bias:{reading}", axis, grown.split)
        if row is None:
            continue
        now = bias(measured.toxicity(((), grown.split, axis)), reading)
        if abs(now - row["value"]) > APART:
            notes.append(
                f"{axis}: the uncut model's bias is {now:.4f} as drawn here and {row['value']:.4f} in the audit, whose "
                "machine or versions round differently; changes are against the former."
            )
    return notes
