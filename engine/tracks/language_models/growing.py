"""More of a finished audit: another level of a method, or heads chosen by hand, measured as its own
variants were.

Same model, prompts, text, judge and seeds. Changes are paired with the dense model, which is drawn
again where the store does not hold it. A run keeps its verdicts rounded, so they cannot stand in
for it. What comes out is an addition to the run (engine/store/runs.py): the run's tables hold
it from then on.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.fields import attempt
from engine.audit.request import Growth
from engine.audit.session import (
    Executor,
    Grown,
    Local,
    check_asked,
    check_name,
    check_units,
    grown_run,
    provenance,
    run_of,
    timed,
)
from engine.audit.tracks import track_of_run
from engine.core.errors import Fault, RequestError, refusal, unknown
from engine.core.files import json_able
from engine.core.types import POOLED, Hooks, Values, digest_of, exact_count
from engine.core.words import axis_name
from engine.data.benchmarks.base import FEWEST, WHERE, Benchmark, load_benchmarks
from engine.report.charts import lookup
from engine.report.hand_sets import check_taken, name_of, told_of
from engine.resident.warm import Warm
from engine.stats.clustered import MISSED, TAILS, smallest_effect
from engine.store.runs import Run, Store, id_of, where, write_addition
from engine.store.sealed import Used, noted
from engine.surgery.named import mask_of_units
from engine.tracks.language_models import benchmark_tables, judges
from engine.tracks.language_models.arms import arm_of
from engine.tracks.language_models.benchmark_tables import (
    measured_benchmarks,
    numbers_of,
    readable_items,
    scored_of,
    shard_of,
)
from engine.tracks.language_models.benchmarks import (
    benchmark_faults,
    named_paths,
    scored_benchmarks,
)
from engine.tracks.language_models.bias import bias
from engine.tracks.language_models.context import PromptContext, Shard
from engine.tracks.language_models.controls import control_cuts
from engine.tracks.language_models.evidence import ELSEWHERE, as_drawn, fieller, per_cent, rank_p
from engine.tracks.language_models.opening import Audit, open_audit
from engine.tracks.language_models.predicted import (
    DELTA,
    VALUE,
    Guess,
    Prediction,
    arms_at,
    compressions_of,
    predicted,
    variants_at,
)
from engine.tracks.language_models.request import AuditRequest, PromptPlan, planned, prompt_plan_of
from engine.tracks.language_models.tables import (
    TEST,
    VALIDATION,
    Measured,
    Placed,
    result_row,
    shards_at,
)
from engine.tracks.language_models.variants import (
    DENSE,
    Variant,
    What,
    dense_variant,
    variant_table,
)

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
    dense = [dense_variant()] if grown.split == VALIDATION else []
    return [(variant, grown.split, grown.axes) for variant in (*dense, *grown.variants)]


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
        return judges.opinion(request, store, hooks, executor)
    grown = grown_of(request, store)
    measured = measure_benchmarks if request.benchmarks else _measure

    def measure(chosen: Executor, used: Used) -> None:
        measured(grown, open_audit(grown.plan, store, hooks, chosen, warm), store, used)

    return grown_run(grown, store, hooks, executor, measure)


def check_growth(request: Growth, store: Store) -> None:
    """RequestError with what is wrong with it."""
    (judges.asked_of if request.judge else grown_of)(request, store)


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
    check_asked(run, request, (TEST, VALIDATION), "benchmarks")
    split = request.split or (VALIDATION if request.units else TEST)
    return (_by_hand if request.units else _of_level)(run, request, split), split


def _of_level(run: Run, request: Growth, split: str) -> tuple[Variant, ...]:
    if split != TEST:
        what = "levels of a method are measured on test prompts."
        raise refusal("split", what, "Leave it out.")
    level = float(request.level or 0)
    if request.method in compressions_of(run):
        return tuple(arms_at(run, request.method, level))
    found = tuple(variants_at(run, request.method, request.axis, level))
    cuts = lookup.frame(run, "variants").set_index("variant")["cut"]
    if any(json.loads(cuts.get(one.id, "null")) not in (None, list(one.cut)) for one in found):
        what = f"{level:g} is to three decimals a level that this audit has, with other heads."
        raise refusal("sparsity", what, "Give another level.")
    return found


def _by_hand(run: Run, request: Growth, split: str) -> tuple[Variant, ...]:
    model = run.model
    counted = f": layer times {model['n_heads']} plus head"
    check_units(request.units, run.n_units, "heads", model["name"], counted)
    check_name(request.name)
    mask = mask_of_units(run, request.units)
    name = name_of(mask.digest, request.name)
    check_taken(run, name, mask.units, lookup.cut_units, "heads")
    reported = split == TEST or name in set(lookup.reported(run)["variant"])
    return (Variant(name, name, "", float("nan"), mask.sparsity, POOLED, mask.units, reported),)


def _missing(
    run: Run, variants: tuple[Variant, ...], split: str, axes: tuple[str, ...]
) -> tuple[str, ...]:
    """Axes on which one of the variants was not measured yet."""
    harm = f"bias:{run.request['reading']}"
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
    if not audit.context.corpus.text:
        name = audit.context.corpus.name
        notes.append(
            f"Perplexity was not measured: this audit read {name}, which is not on this machine."
        )
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
        raise refusal("sparsity", what, "Give a higher one.")
    return replace(variant, reached=reached)


def _notes(grown: Grown, measured: Measured) -> list[str]:
    """What must be said where the dense model is not drawn as in the run: changes are paired with
    its new texts."""
    notes, reading = [], measured.request.reading
    for axis in grown.axes:
        row = lookup.result(grown.run, "dense", f"bias:{reading}", axis, grown.split)
        if row is None:
            continue
        now = bias(measured.on(axis, grown.split).dense, reading)
        if abs(now - row["value"]) > APART:
            notes.append(
                f"{axis}: the uncut model's bias is {now:.4f} here and {row['value']:.4f} in the "
                "audit, because machines or versions round differently. Changes are measured "
                "from the value here."
            )
    return notes


# What was predicted beside what was measured, for whoever asked for more of an audit. No torch.


_NOTHING = Guess(math.nan, math.nan, math.nan)
GUESSED = ("predicted", "predicted_low", "predicted_high")


def _said(number: str, guess: Guess, row: Values, ends: Sequence[str]) -> Values:
    """What is told of one number: predicted and measured, the latter in these columns of a row."""
    measured = Guess(*(row[end] for end in ends)).named("measured", "low", "high")
    return {"number": number, **guess.named(*GUESSED), **measured}


def told(before: Run, after: Run, growth: Growth) -> Values:
    """As `told_of` says it; a row per number about a variant on an axis, or on a benchmark."""
    if growth.benchmarks:
        return told_of(before, after, TEST, {}, told_benchmarks(after, growth), [])
    if growth.judge:
        return told_of(before, after, TEST, {}, _by_judge(after, growth), [])
    (variants, split), n_heads = variants_of(after, growth), after.model["n_heads"]
    rows, notes = [], []
    if split != TEST:
        notes.append(
            f"Predictions are about {TEST} prompts; these numbers are about {split} prompts."
        )
    for variant in variants:
        for axis in growth.axes:
            guess = None if variant.arm else predicted(before, variant.cut, axis)
            rows += list(_rows(guess, after, variant.id, len(variant.cut), axis, split))
        notes += [] if variant.arm else [predicted(before, variant.cut, growth.axis).note]
    heads = {one.id: [divmod(unit, n_heads) for unit in one.cut] for one in variants}
    return told_of(before, after, split, heads, rows, notes)


def _by_judge(after: Run, growth: Growth) -> Iterator[Values]:
    """What the judge sees of every reported variant; nothing was predicted of it."""
    said = {"judge": growth.judge, "label": growth.label}
    names = {
        one.meta["asked"]["judge_hash"]
        for one in after.added
        if one.meta["provenance"].get("asked_as") == said
    }
    if not names:  # it was asked before, from another place
        names = {judges.inspect_judge(growth.judge, label=growth.label).digest}
    table = where(after.table("opinions"), metric=f"bias:{after.request['reading']}")
    mine = table[table["judge_hash"].isin(names) & table["axis"].isin(growth.axes)]
    for row in mine.to_dict("records"):
        what, ends = ("bias", VALUE) if row["variant"] == DENSE else ("change of bias", DELTA)
        yield {
            **_place(after, row["variant"], row["axis"]),
            **_said(f"{what}, judged by {row['judge']}", _NOTHING, row, ends),
        }


def _place(run: Run, variant: str, axis: str) -> Values:
    """What a row is about."""
    cut = lookup.frame(run, "variants").set_index("variant")["n_cut"]
    return {"variant": variant, "n_cut": int(cut[variant]), "axis": axis}


def _rows(
    guess: Prediction | None, after: Run, name: str, n_cut: int, axis: str, split: str
) -> Iterator[dict[str, Any]]:
    """guess: None where nothing is predicted."""
    reading = after.request["reading"]
    change, level, text_guess = (
        (guess.change, guess.bias, guess.perplexity) if guess else [_NOTHING] * 3
    )
    bias = lookup.result(after, name, f"bias:{reading}", axis, split)
    text = lookup.result(after, name, "perplexity", "", split)
    rows = []
    if bias is not None:
        rows += [_said("change of bias", change, bias, DELTA), _said("bias", level, bias, VALUE)]
    if text is not None:
        rows.append(_said("perplexity", text_guess, text, VALUE))
    known = {row[0]: Guess(*row[1:]) for row in guess.groups.to_numpy()} if guess else {}
    for row in lookup.groups_of(after, name, "toxicity", axis, split).to_dict("records"):
        here = known.get(row["group"], _NOTHING)
        rows.append(_said(f"change of toxicity, {row['group']}", here, row, DELTA))
    return ({"variant": name, "n_cut": n_cut, "axis": axis, **row} for row in rows)


# A finished audit grows by a benchmark: every reported variant is measured on it, as had the
# audit asked for it.


def grown_by_benchmarks(request: Growth, store: Store) -> Grown:
    """The growth, checked: which benchmarks, and which variants still lack one. RequestError with
    all faults."""
    run = run_of(request, store)
    check_asked(run, request, (TEST,), "benchmarks")
    faults: list[Fault] = []
    found = _read(run, named_paths(WHERE, request.benchmarks, faults), faults)
    if faults:
        raise RequestError(faults)
    lacking = _lacking(run, found)
    content = {one.name: one.digest for one in found}
    return Grown(
        run,
        replace(prompt_plan_of(run), benchmarks=found),
        tuple(one for one in lacking if one.id != DENSE),
        TEST,
        (request.axis,) if lacking else (),
        request,
        content | {"variants": " ".join(one.id for one in lacking)},
    )


def _read(run: Run, asked: dict[str, str], faults: list[Fault]) -> tuple[Benchmark, ...]:
    """The benchmarks at these paths, by name; whatever is wrong with any of them is added to the
    faults."""
    found: list[Benchmark] = []
    for name, path in sorted(asked.items()):
        if wrong := benchmark_faults({name: path}):
            faults += wrong
        else:
            found += attempt(partial(load_benchmarks, {name: path}), faults) or ()
    faults += [fault for one in found for fault in _other_file(run, one)]
    return tuple(found)


def _other_file(run: Run, benchmark: Benchmark) -> list[Fault]:
    """A run holds one file of each benchmark: two would be one number of both."""
    if not run.has("benchmark_sources"):
        return []
    rows = where(lookup.frame(run, "benchmark_sources"), benchmark=benchmark.name)
    fix = "Give that one, or audit again with a folder of both."
    return [
        Fault(
            f"{WHERE} {benchmark.name}",
            f"this audit was measured on another file of it: {row.source}.",
            fix,
        )
        for row in rows.itertuples()
        if row.digest != benchmark.digest
    ]


def _lacking(run: Run, benchmarks: tuple[Benchmark, ...]) -> tuple[Variant, ...]:
    """Reported variants without a number of one of the benchmarks."""
    there = set()
    if run.has("benchmarks"):
        table = lookup.frame(run, "benchmarks")
        there = set(zip(table["variant"], table["benchmark"], strict=True))
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
        for row in lookup.reported(run).to_dict("records")
        if any((row["variant"], one.name) not in there for one in benchmarks)
    )


def measure_benchmarks(grown: Grown, audit: Audit, store: Store, used: Used) -> None:
    """Measure them under every mask that lacks them, and write the addition."""
    tables = benchmark_tables.measured_benchmarks(audit, [dense_variant(), *grown.variants])
    notes = [f"{one.name}: {note}" for one in audit.context.benchmarks for note in one.notes]
    grown.write(store, audit, used, tables, notes, KEYS)


def told_benchmarks(run: Run, growth: Growth) -> Iterator[Values]:
    """The headline of every variant, for the command line."""
    names = {one.partition("=")[0] for one in growth.benchmarks}
    table = where(lookup.frame(run, "benchmarks"), group="")
    for row in table[table["benchmark"].isin(names)].to_dict("records"):
        said = _said(row["metric"].replace("_", " "), _NOTHING, row, VALUE)
        yield {**_place(run, row["variant"], row["benchmark"]), **said}


# Whether heads that were chosen on one source of prompts do as much on another.
#
# A cut's change is measured at home, on the run's test prompts. It is measured away on prompts of
# another source, or on the items of a bias benchmark that are about the axis. Each is in per cent
# of the uncut model's own level there, with Fieller's interval. What arrives is the ratio of the
# two, with Fieller's interval for numbers that share no texts. There is no ratio where the change
# at home may be none. Null: as many random heads that are not critical, cut in both places.


VERSION = 1
TRANSFER_KEYS = {"transfer": ["source", "axis", "variant"]}
LEAST = 19
"""Random cuts: with fewer no rank can be called better than chance."""


@dataclass(frozen=True)
class Ask:
    """What is asked of a run: a method at a level, or heads (flat units), on an axis. The other
    place is prompts of another source, or a benchmark (NAME=PATH). most: prompts at most, as in
    the run where None; controls: random cuts."""

    axis: str
    method: str = ""
    level: float = 0.0
    units: tuple[int, ...] = ()
    prompts: str = ""
    benchmark: str = ""
    most: int | None = None
    controls: int = ELSEWHERE


@dataclass(frozen=True)
class Place:
    """What cuts do in one place, in per cent of the dense model's level there. Of the method's cut:
    the change, its 95 % ends, and the smallest that could have been found. random: [cuts]. n:
    prompts or items."""

    change: float
    low: float
    high: float
    detectable: float
    random: np.ndarray
    n: int

    @property
    def half(self) -> float:
        """The wider side of the interval."""
        return max(self.high - self.change, self.change - self.low)


def transfer(run: Run, ask: Ask, store: Store, hooks: Hooks) -> Values:
    """The row of `transfer`, measured now or found, which joins the run. RequestError, with all
    that is wrong at once, before a model is loaded; what a kill left finished is found."""
    variant, source, plans = _checked(run, ask)
    store.prove_writable()
    scores, total = lookup.frame(run, "scores"), run.n_units
    asked = as_drawn(plans[0].request, run.meta)
    chance = control_cuts(replace(asked, controls=ask.controls), scores, variant, total)
    cuts = [variant.cut, *chance]
    identity = {"transfer": source, "axis": ask.axis, "cuts": cuts}
    here = id_of(run.id, identity, {**plans[0].versions, "transfer": VERSION})
    if known := [one for one in run.added if one.id == here]:
        return known[0].table("transfer").iloc[0].to_dict()
    warm = Warm()
    with store.alone(f"{run.id}-{here}", hooks.check), closing(Local()) as executor:
        with noted() as used:
            audits = [open_audit(plan, store, hooks, executor, warm) for plan in plans]
            home, *away = (_on_prompts(audit, asked, ask.axis, cuts) for audit in audits)
            place = away[0] if away else _on_items(audits[0], cuts)
        row = {"source": source["name"], "axis": ask.axis, "variant": variant.id}
        row |= {"cut": json.dumps(list(variant.cut)), **row_of(home, place)}
        meta = {
            "title": f"{run.id}: {variant.id} on {source['name']}",
            "asked": identity,
            "provenance": provenance(audits[0].context),
            "shards": used.hashes,
            "keys": TRANSFER_KEYS,
        }
        write_addition(store.root, run.id, here, json_able(meta), {"transfer": pd.DataFrame([row])})
    return row


def _checked(run: Run, ask: Ask) -> tuple[Variant, dict[str, str], list[PromptPlan]]:
    """The cut, what the other source is, and the plan of the run with, where prompts were asked
    for, that of theirs. RequestError with everything that is wrong."""
    if track_of_run(run).name != "language_models":
        raise refusal("run", f"is of {track_of_run(run).cuts}.", "Name one of language_models.")
    faults = []
    if ask.controls < LEAST:
        what = f"{ask.controls} random cuts cannot tell a cut from chance."
        faults.append(Fault("controls", what, f"Give at least {LEAST}."))
    if "z_ppl" not in set(lookup.frame(run, "scores")["score"]):
        what = "heads were not scored for perplexity, so no random cut spares the critical ones."
        faults.append(Fault("run", what, "Audit again with --method fasp."))
    variant = attempt(lambda: _variant(run, ask), faults)
    spare = run.n_units
    spare -= exact_count(variant.gamma, spare) if variant is not None else 0
    if variant is not None and len(variant.cut) > spare:
        what = f"{len(variant.cut)} heads are more than the {spare} that are not critical."
        faults.append(Fault("heads", what, "Cut fewer: random cuts spare critical heads."))
    plan = attempt(lambda: prompt_plan_of(run), faults)
    about = attempt(lambda: _about(ask.benchmark, ask.axis), faults) if ask.benchmark else None
    most = run.request["max_prompts"] if ask.most is None else ask.most
    about_it = {"prompts": ask.prompts, "axes": (ask.axis,), "max_prompts": most}
    plan_there = partial(planned, run, **about_it, benchmarks={})
    other = attempt(plan_there, faults) if ask.prompts else None
    if faults or variant is None or plan is None:
        raise RequestError(list(dict.fromkeys(faults)))
    if about is not None:
        title = scored_benchmarks()[about.name].title
        plans = [replace(plan, benchmarks=(about,))]
        return variant, {"name": title, "digest": about.digest}, plans
    assert other is not None, "prompts or a benchmark are asked for"
    if set(other.prompts.table["prompt_id"]) <= set(plan.prompts.table["prompt_id"]):
        raise refusal("prompts", "are those of the audit.", "Name another source.")
    return variant, {"name": other.prompts.name, "digest": other.prompts.digest}, [plan, other]


def _variant(run: Run, ask: Ask) -> Variant:
    """What is cut, under the axis' own γ, so that random cuts spare as many heads."""
    if ask.axis not in run.meta["gamma"]:
        raise RequestError(unknown("axis", ask.axis, run.meta["gamma"]))
    gamma = float(run.meta["gamma"][ask.axis])
    if not ask.units:
        found = variants_at(run, ask.method, ask.axis, ask.level)[0]
        return replace(found, gamma=gamma, target_axis=ask.axis)
    mask = mask_of_units(run, ask.units)
    name = name_of(mask.digest)
    return Variant(name, name, ask.axis, gamma, mask.sparsity, -1, mask.units)


def _about(named: str, axis: str) -> Benchmark:
    """The items of a benchmark (NAME=PATH) that are about an axis: their group begins with its
    first word."""
    name, _, path = named.partition("=")
    if wrong := benchmark_faults({name: path}):
        raise RequestError(wrong)
    whole = load_benchmarks({name: path})[0]
    first = re.split(r"[\W_]", axis.lower())[0]
    keep = whole.items["group"].str.lower().str.match(rf"{re.escape(first)}(?![a-z])")
    if keep.sum() < FEWEST:
        kinds = sorted(set(whole.items["group"].str.partition(":")[0]))
        what = f"{scored_benchmarks()[name].title} has {keep.sum()} items about {axis_name(axis)}."
        raise refusal("axis", what, f"It has: {', '.join(kinds)}.")
    ids = whole.items["item_id"][keep]
    return replace(
        whole,
        items=whole.items[keep].reset_index(drop=True),
        choices=whole.choices[whole.choices["item_id"].isin(ids)].reset_index(drop=True),
        digest=digest_of([whole.digest, axis]),
    )


def _on_prompts(
    audit: Audit, request: AuditRequest, axis: str, cuts: Sequence[tuple[int, ...]]
) -> Place:
    """On test prompts; the method's cut is the first."""
    every, seeds = dict.fromkeys(((), *cuts)), request.seed_list
    shards = [Shard("verdicts", cut, axis, TEST, seed) for cut in every for seed in seeds]
    audit.finish("transfer", shards)
    here = Measured(audit.context, request, audit.progress).on(axis, TEST)
    errors, reading, table = here.errors, request.reading, here.toxicity(What(cuts[0]))
    level, own = errors.interval(reading), errors.interval(reading, table)
    moved = errors.changes(errors.toxicities(table)[:, None], reading)
    change = errors.difference(table, reading)
    detectable = (
        smallest_effect(moved.error, moved.freedom, MISSED)[0] if errors.holds else math.nan
    )
    levels = [bias(here.toxicity(What(cut)), reading) for cut in cuts[1:]]
    row = result_row(reading, own, change)
    return _transfer_place(row, vars(level), detectable, levels, len(here.rows))


def _on_items(audit: Audit, cuts: Sequence[tuple[int, ...]]) -> Place:
    """The same by the headline of the benchmark that the audit's context has."""
    (one,), context = audit.context.benchmarks, audit.context
    kind, every = scored_benchmarks()[one.name], list(dict.fromkeys(((), *cuts)))
    shards = [shard_of(What(cut), one.name) for cut in every]
    audit.finish("transfer", shards)
    named = dict(zip(map(str, every), context.fetch(shards), strict=True))
    one, named = readable_items(one, named, context.lm.n_positions)
    scored = {cut: scored_of(one, table) for cut, table in named.items()}
    method = str(cuts[0])
    numbers = numbers_of(kind, {DENSE: scored["()"], method: scored[method]}, DENSE)
    rows = where(numbers, metric=kind.headline.name, group="").set_index("variant")
    levels = [
        float(kind.headline.value(kind.headline.features(scored[str(cut)]).sum(axis=0)))
        for cut in cuts[1:]
    ]
    row, dense = (rows.loc[name].to_dict() for name in (method, DENSE))
    return _transfer_place(row, dense, row["detectable"], levels, len(one.items))


def _transfer_place(
    row: Values, dense: Values, detectable: float, levels: list[float], n: int
) -> Place:
    """From levels and changes to per cent of the dense level."""
    found, before = per_cent(pd.DataFrame([row]), dense).iloc[0], float(dense["value"])
    random = 100 * (np.array(levels) / before - 1)
    change, low, high = (float(found[name]) for name in ("value", "low", "high"))
    return Place(change, low, high, 100 * detectable / before, random, n)


def row_of(home: Place, away: Place) -> Values:
    """A row of the table: both changes, what arrives, and the same of random cuts.

    Of these those count whose change at home is as large as could be told from none there.
    """
    value, own = np.array([away.change]), np.array([away.half])
    arrives = Guess(*(float(end[0]) for end in fieller(value, own, home.change, home.half)))
    is_told = np.abs(home.random) >= home.half
    shares = away.random[is_told] / home.random[is_told]
    middle = Guess(*(np.quantile(shares, [0.5, *TAILS]) if len(shares) else [np.nan] * 3))
    less = int((away.random <= away.change).sum())
    found: dict[str, Any] = {}
    for name, place in (("home", home), ("away", away)):
        found |= {name: place.change, f"{name}_low": place.low, f"{name}_high": place.high}
        found |= {f"{name}_detectable": place.detectable, f"{name}_n": place.n}
    null = np.quantile(away.random, TAILS)
    return {
        **found,
        **arrives.named("arrives", "arrives_low", "arrives_high"),
        **middle.named("random", "random_low", "random_high"),
        "n_told": int(is_told.sum()),
        "n_random": len(home.random),
        "null_low": null[0],
        "null_high": null[1],
        "p": rank_p(less, len(away.random)),
    }
