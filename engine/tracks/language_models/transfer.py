"""Whether heads that were chosen on one source of prompts do as much on another.

A cut's change is measured at home, on the run's test prompts. It is measured away on prompts of
another source, or on the items of a bias benchmark that are about the axis. Each is in per cent
of the uncut model's own level there, with Fieller's interval. What arrives is the ratio of the
two, with Fieller's interval for numbers that share no texts. There is no ratio where the change at
home may be none. Null: as many random heads that are not critical, cut in both places.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.fields import attempt
from engine.audit.provenance import provenance
from engine.audit.session import Local
from engine.audit.tracks import track_of_run
from engine.core.errors import Fault, RequestError, refusal, unknown
from engine.core.files import json_able
from engine.core.ids import exact_count
from engine.core.types import Hooks, digest_of
from engine.core.words import axis_name
from engine.data.benchmarks.base import FEWEST, Benchmark, load_benchmarks
from engine.report.charts import lookup
from engine.report.hand_sets import name_of
from engine.resident.warm import Warm
from engine.stats.student import MISSED, smallest_effect
from engine.store.additions import id_of, write_addition
from engine.store.runs import Run, Store
from engine.store.shards import noted
from engine.store.tables import where
from engine.surgery.named import mask_of_units
from engine.tracks.language_models.benchmark_tables import (
    numbers_of,
    readable_items,
    scored_of,
    shard_of,
)
from engine.tracks.language_models.benchmarks.base import benchmark_faults, scored_benchmarks
from engine.tracks.language_models.bias import bias
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.controls import control_cuts
from engine.tracks.language_models.evidence import (
    ELSEWHERE,
    as_drawn,
    fieller,
    per_cent,
    rank_p,
)
from engine.tracks.language_models.opening import Audit, open_audit
from engine.tracks.language_models.predicted import variants_at
from engine.tracks.language_models.request import (
    AuditRequest,
    PromptPlan,
    prompt_plan_of,
    validate,
)
from engine.tracks.language_models.tables import TEST, Measured
from engine.tracks.language_models.variants import DENSE, Variant, What

VERSION = 1
KEYS = {"transfer": ["source", "axis", "variant"]}
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


def transfer(run: Run, ask: Ask, store: Store, hooks: Hooks) -> dict[str, Any]:
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
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
            "title": f"{run.id}: {variant.id} on {source['name']}",
            "asked": identity,
            "provenance": provenance(audits[0].context),
            "notes": [],
            "shards": used.hashes,
            "keys": KEYS,
            "numbered": {},
        }
        write_addition(store.root, run.id, here, json_able(meta), {"transfer": pd.DataFrame([row])})
    return row


def _checked(run: Run, ask: Ask) -> tuple[Variant, dict[str, str], list[PromptPlan]]:
    """The cut, what the other source is, and the plan of the run with, where prompts were asked
    for, that of theirs. RequestError with everything that is wrong."""
    if track_of_run(run).name != "language_models":
        raise refusal("run", f"is of {track_of_run(run).cuts}.", "Name one of language_models.")
    faults: list[Fault] = []
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
    request = AuditRequest.from_dict(run.meta["request"])
    most = request.max_prompts if ask.most is None else ask.most
    request = replace(request, prompts=ask.prompts, axes=(ask.axis,), max_prompts=most)
    request = replace(request, benchmarks={})
    other = attempt(lambda: validate(request), faults) if ask.prompts else None
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
    row = {"value": own.value, "low": own.low, "high": own.high}
    row |= {"delta": change.value, "delta_low": change.low, "delta_high": change.high}
    detectable = (
        smallest_effect(moved.error, moved.freedom, MISSED)[0] if errors.holds else math.nan
    )
    levels = [bias(here.toxicity(What(cut)), reading) for cut in cuts[1:]]
    dense = {"value": level.value, "low": level.low, "high": level.high}
    return _place(row, dense, detectable, levels, len(here.rows))


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
    return _place(row, dense, row["detectable"], levels, len(one.items))


def _place(
    row: dict[str, Any], dense: dict[str, Any], detectable: float, levels: list[float], n: int
) -> Place:
    """From levels and changes to per cent of the dense level."""
    found, before = per_cent(pd.DataFrame([row]), dense).iloc[0], float(dense["value"])
    random = 100 * (np.array(levels) / before - 1)
    change, low, high = (float(found[name]) for name in ("value", "low", "high"))
    return Place(change, low, high, 100 * detectable / before, random, n)


def row_of(home: Place, away: Place) -> dict[str, Any]:
    """A row of the table: both changes, what arrives, and the same of random cuts.

    Of these those count whose change at home is as large as could be told from none there.
    """
    value, own = np.array([away.change]), np.array([away.half])
    ends = (float(end[0]) for end in fieller(value, own, home.change, home.half))
    is_told = np.abs(home.random) >= home.half
    shares = away.random[is_told] / home.random[is_told]
    middle = np.percentile(shares, [50, 2.5, 97.5]) if len(shares) else np.full(3, np.nan)
    less = int((away.random <= away.change).sum())
    found: dict[str, Any] = {}
    for name, place in (("home", home), ("away", away)):
        found |= {name: place.change, f"{name}_low": place.low, f"{name}_high": place.high}
        found |= {f"{name}_detectable": place.detectable, f"{name}_n": place.n}
    null = np.percentile(away.random, [2.5, 97.5])
    return {
        **found,
        **dict(zip(("arrives", "arrives_low", "arrives_high"), ends, strict=True)),
        **dict(zip(("random", "random_low", "random_high"), middle, strict=True)),
        **{"n_told": int(is_told.sum()), "n_random": len(home.random)},
        **{"null_low": null[0], "null_high": null[1], "p": rank_p(less, len(away.random))},
    }
