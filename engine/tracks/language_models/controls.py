"""FASP against chance: cuts of as many random heads, drawn among those that perplexity can spare at
the same γ.

Does the bias score choose better than chance among the heads that γ leaves? A cut's bias is
compared with the method's on the very same test prompts and random streams. Few prompts come first;
where they cannot say on which side of MISSED the rank lies, all prompts are drawn once, then as
often as variants are.

Where γ was searched, the method had a choice that such cuts had not. So before any rank is called
better than chance, γ is searched for its random cuts as well, on the same validation prompts. Each
takes as much drawing as the search for the method did. Ranks that are not better than chance even
so keep the cuts at the method's γ.

Below: what an audit will ask for before there are scores, and how much of it is left.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import pandas as pd

from engine.audit.session import SETTLED
from engine.core.types import POOLED, key_of, rng
from engine.models.checkpoint import read_config
from engine.stats.clustered import MISSED
from engine.surgery.heads.replay import Shape, shape_of
from engine.tracks.language_models.arms import arm_variants
from engine.tracks.language_models.benchmark_tables import benchmark_shards
from engine.tracks.language_models.bias import bias
from engine.tracks.language_models.bias_intervals import BiasErrors
from engine.tracks.language_models.context import FEW_TEST, PromptContext, Shard
from engine.tracks.language_models.evidence import is_settled, ranks
from engine.tracks.language_models.opening import Audit
from engine.tracks.language_models.perplexity import perplexity
from engine.tracks.language_models.request import CONTROLLED, SEARCH, AuditRequest, PromptPlan
from engine.tracks.language_models.scores import ScoreJob, ScoreMethod
from engine.tracks.language_models.selection import Ballot, selection_method
from engine.tracks.language_models.tables import TEST, seconds_of, wanted_shards
from engine.tracks.language_models.variants import (
    Variant,
    all_variants,
    ballots_of,
    score_vectors,
    search_gamma,
    search_shards,
    variant_of,
    with_gamma,
)

CHANCE = "random_noncritical"
COLUMNS = (
    "variant",
    "target_axis",
    "gamma",
    "sparsity",
    "control",
    "cut",
    "prompts",
    "draws",
    "bias",
    "method_bias",
    "perplexity",
)
SEARCHED = "searched"
"""Whether γ was searched for a random cut too; a column where it was for some."""


@dataclass(frozen=True)
class Stage:
    """How much is drawn: which test prompts, and with which decoding seeds."""

    split: str
    seeds: tuple[int, ...]


def stages(request: AuditRequest) -> tuple[Stage, ...]:
    """From few prompts to everything that variants are measured on. What lies between is counted by
    budgets alone (`with_measuring`)."""
    first, every = request.seed_list[:1], request.seed_list
    return tuple(dict.fromkeys((Stage(FEW_TEST, first), Stage(TEST, first), Stage(TEST, every))))


def controlled(request: AuditRequest, variants: Sequence[Variant]) -> list[Variant]:
    """The variants that are set against chance."""
    found = [one for one in variants if one.method == CONTROLLED and one.chosen and one.cut]
    return found if request.n_controls else []


def control_cuts(
    request: AuditRequest, scores: pd.DataFrame, variant: Variant, total: int
) -> list[tuple[int, ...]]:
    """Random cuts of as many heads under the same protection, by their numbers."""
    vectors = score_vectors(scores, variant.target_axis)
    seeds = [key_of("control", request.first_seed, number) for number in range(request.n_controls)]
    ballots = [Ballot(vectors, total, variant.sparsity, variant.gamma, seed) for seed in seeds]
    return [selection_method(CHANCE).select(ballot) for ballot in ballots]


def shards_of(variant: Variant, cuts: Sequence[tuple[int, ...]], stage: Stage) -> list[Shard]:
    """What the comparison needs at a stage."""
    axis = variant.target_axis
    texts = [
        Shard("verdicts", cut, axis, stage.split, seed)
        for cut in (variant.cut, *cuts)
        for seed in stage.seeds
    ]
    return texts + [Shard("windows", cut, split=TEST) for cut in cuts]


def measure_controls(
    audit: Audit, scores: pd.DataFrame, variants: Sequence[Variant]
) -> pd.DataFrame:
    """The table `controls` of a run: a row per control of a variant, COLUMNS; n prompts and draws
    as far as it went."""
    asked = [
        (one, control_cuts(audit.request, scores, one, audit.job.total))
        for one in controlled(audit.request, variants)
    ]
    rows = {}
    for place, (variant, cuts) in enumerate(asked):
        # How much is left where some were settled early: of the others, everything.
        every = stages(audit.drawn or audit.request)
        left_over = [shards_of(*one, stage) for one in asked[place:] for stage in every]
        _expect_still(audit, [shard for part in left_over for shard in part])
        rows[variant.id] = _against_chance(audit, variant, cuts)
    if audit.request.gamma == SEARCH and rows:
        _search_too(audit, scores, variants, rows)
    listed = [row for part in rows.values() for row in part]
    columns = [*COLUMNS, SEARCHED] if any(SEARCHED in row for row in listed) else list(COLUMNS)
    table = pd.DataFrame(listed, columns=columns)
    return table.assign(**{SEARCHED: table[SEARCHED].eq(True)}) if SEARCHED in table else table


def _search_too(
    audit: Audit,
    scores: pd.DataFrame,
    variants: Sequence[Variant],
    rows: dict[str, list[dict[str, object]]],
) -> None:
    """Put random cuts whose γ was searched in the place of others in `rows`, by variant, until all
    ranks that are better than chance are among such cuts."""
    asked = {one.id: one for one in controlled(audit.request, variants)}
    found = {}
    done = set()
    while True:
        q = ranks(pd.DataFrame([row for part in rows.values() for row in part]))["q"]
        better = [asked[name] for name in q.index[q <= MISSED] if name not in done]
        if not better:
            return
        for variant in better:
            axis = variant.target_axis
            if axis not in found:
                found[axis] = searched_controls(audit, scores, variants, axis)
            mine = [one[variant.sparsity] for one in found[axis]]
            again = _against_chance(audit, variant, [one.cut for one in mine])
            rows[variant.id] = [
                {**row, "gamma": one.gamma, SEARCHED: True}
                for row, one in zip(again, mine, strict=True)
            ]
            done.add(variant.id)


def searched_controls(
    audit: Audit, scores: pd.DataFrame, variants: Sequence[Variant], axis: str
) -> list[dict[float, Variant]]:
    """Of every random cut by its number: what FASP makes of random scores, by sparsity, at the γ
    that its own search chooses. variants: those of the audit, for the baselines of that search."""
    request, method, total = audit.request, selection_method(CONTROLLED), audit.job.total
    vectors = score_vectors(scores, axis)
    tried = []
    for number in range(request.n_controls):
        luck = rng("control", request.first_seed, number, axis).standard_normal(total)
        ballots = ballots_of(request, method, {**vectors, "z_bias": luck}, total)
        tried.append([variant_of(method, axis, ballot, True) for ballot in ballots])
    rulers = [one for one in variants if not one.target_axis]
    shards = search_shards(request, [*(one for part in tried for one in part), *rulers])
    _expect_still(audit, shards)
    audit.finish("controls", shards)
    found = []
    for part in tried:
        gamma = search_gamma(audit.context, request, part, variants, draws=1).chosen
        found.append({one.sparsity: one for one in part if one.gamma == gamma})
    return found


def _against_chance(
    audit: Audit, variant: Variant, cuts: Sequence[tuple[int, ...]]
) -> list[dict[str, object]]:
    """Rows of `controls`. Few prompts, then everything at once: a prompt is read once for all
    seeds, and nothing was settled in between."""
    context, reading, axis = audit.context, audit.request.reading, variant.target_axis
    every = stages(audit.drawn or audit.request)
    for stage in (every[0], every[-1]):
        audit.finish("controls", shards_of(variant, cuts, stage))
        own, *tables = (
            context.judged(cut, axis, stage.split, stage.seeds) for cut in (variant.cut, *cuts)
        )
        errors = BiasErrors(own)
        changes = [errors.difference(table, reading) for table in tables]
        below = np.array([change.value <= 0 for change in changes])
        unclear = np.array([not (change.low > 0 or change.high < 0) for change in changes])
        if is_settled(below, unclear):
            break
    same = {
        "variant": variant.id,
        "target_axis": axis,
        "gamma": variant.gamma,
        "sparsity": variant.sparsity,
        "prompts": own["prompt_id"].nunique(),
        "draws": len(stage.seeds),
        "method_bias": bias(own, reading),
    }
    texts = context.fetch([Shard("windows", cut, split=TEST) for cut in cuts])
    return [
        {
            **same,
            "control": number,
            "cut": json.dumps(cut),
            "bias": bias(table, reading),
            "perplexity": perplexity(text, context.settings.window),
        }
        for number, (cut, table, text) in enumerate(zip(cuts, tables, texts, strict=True))
    ]


# How much work measuring the variants will be, before there are scores: what a budget of scoring
# is a share of.


def with_measuring(audit: Audit) -> ScoreJob:
    """The audit's job, which knows how much work measuring will be. What is finished counts too: a
    resumed audit decides as the interrupted one did. Of random cuts it counts two stages, as every
    finished audit did.
    """
    shards = dict.fromkeys(variant_shards(audit.request, audit.job.total, control_stages=2))
    alike: Counter[Shard] = Counter(replace(shard, cut=shard.cut[:1], seed=0) for shard in shards)
    return replace(
        audit.job, measuring=sum(count * audit.job.work([one]) for one, count in alike.items())
    )


def measuring_shards(plan: PromptPlan, total: int, silent: Collection[str] = ()) -> list[Shard]:
    """All that measuring the variants will ask for, as far as can be known before there are scores.
    Those at a searched γ count with each axis at another one, which is most. What a budget is a
    share of (`with_measuring`) leaves these out, and arms: heads are scored alike with and without
    them. silent: axes whose heads will not be ranked, so that nothing is cut by them.
    """
    request = plan.request
    gammas = [float(gamma) for gamma in request.gammas] if request.gamma == SEARCH else []
    middle = len(gammas) // 2
    picked = (
        {axis: gammas[(middle + place) % len(gammas)] for place, axis in enumerate(request.axes)}
        if gammas
        else {}
    )
    shape = shape_of(read_config(plan.model.folder)[0]) if request.deployable else None

    def scores(request: AuditRequest, total: int) -> pd.DataFrame:
        found = unlike_scores(request, total)
        return found.assign(value=found["value"].mask(found["axis"].isin(silent)))

    arms = wanted_shards(request, arm_variants(plan))  # all of them known from the start
    return [*variant_shards(request, total, picked, shape, scores), *arms]


def benchmark_work(audit: Audit) -> float:
    """Effort of measuring the benchmarks that were asked for on about as many variants as there
    will be."""
    asked, request = audit.context.benchmarks, audit.request
    if not asked:
        return 0.0
    total = audit.job.total
    scores = made_up_scores(request, total)
    variants = [variant for variant in all_variants(request, scores, total) if variant.chosen]
    return audit.context.effort(benchmark_shards(asked, [*variants, *arm_variants(audit.plan)]))


def variant_shards(
    request: AuditRequest,
    total: int,
    gammas: Mapping[str, float] = MappingProxyType({}),
    shape: Shape | None = None,
    made_up: Callable[[AuditRequest, int], pd.DataFrame] | None = None,
    control_stages: int | None = None,
) -> list[Shard]:
    """What variants will ask for: those of made-up scores of `total` heads, which cut as many as
    real ones will.

    gammas: what a search for γ may find per axis; without them variants at a searched γ are left
    out. shape: as in `all_variants`. control_stages: how far random cuts beside them are taken;
    None: to the end.
    """
    scores = (made_up or made_up_scores)(request, total)
    variants = all_variants(request, scores, total, shape)
    variants = with_gamma(variants, dict(gammas)) if gammas else variants
    return [
        *wanted_shards(request, variants),
        *search_shards(request, variants),
        *control_shards(request, scores, variants, control_stages),
    ]


def made_up_scores(request: AuditRequest, total: int) -> pd.DataFrame:
    """Scores of `total` heads that nobody measured, for what cuts cost: columns unit, score, axis,
    seed, value."""
    wanted = {score for name in request.selections for score in selection_method(name).needs}
    rows = [
        pd.DataFrame(
            {"unit": range(total), "score": score, "axis": axis, "seed": POOLED, "value": values}
        )
        for score in sorted(wanted)
        for axis in (request.axes if score == "z_bias" else ("",))
        for values in [np.random.default_rng(len(axis) + len(score)).normal(size=total)]
    ]
    return (
        pd.concat(rows, ignore_index=True)
        if rows
        else pd.DataFrame(columns=["unit", "score", "axis", "seed", "value"])
    )


def unlike_scores(request: AuditRequest, total: int) -> pd.DataFrame:
    """As `made_up_scores`, so that methods and axes cut different heads, as real ones mostly do.
    The heads with the largest effect on bias are also those that perplexity needs, and no two axes
    have the same.
    """
    scores = made_up_scores(request, total)
    needed = np.random.default_rng(total).normal(size=total)
    for seed, ((score, _), rows) in enumerate(scores.groupby(["score", "axis"]).groups.items()):
        own = np.random.default_rng(seed).normal(size=total)
        scores.loc[rows, "value"] = needed if score == "z_ppl" else 0.5 * own - needed
    return scores


def left(context: PromptContext, shards: Sequence[Shard]) -> float:
    """Work in continuations, as progress counts it; what is finished costs nothing."""
    missing = [shard for shard in dict.fromkeys(shards) if not context.kept(shard)]
    return sum(context.kind(shard.kind).size(context, shard) for shard in missing)


def other_scores(request: AuditRequest, job: ScoreJob) -> list[Shard]:
    """What scores besides the effect on bias ask for."""
    methods = [method for method in request.scores if method.score != "z_bias"]
    return [shard for method in methods for shard in method.shards(job)]


def control_shards(
    request: AuditRequest,
    scores: pd.DataFrame,
    variants: Sequence[Variant],
    most: int | None = None,
) -> list[Shard]:
    """Random cuts beside one variant of every axis and sparsity, as far as all prompts as often as
    variants are drawn, where most go; most: that many stages of it."""
    by_place = {
        (one.target_axis, one.sparsity): replace(one, chosen=True)
        for one in variants
        if one.method == CONTROLLED
    }
    total = scores["unit"].nunique()
    return [
        shard
        for variant in controlled(request, list(by_place.values()))
        for cuts in [control_cuts(request, scores, variant, total)]
        for stage in stages(request)[:most]
        for shard in shards_of(variant, cuts, stage)
    ]


# How much of an audit is left, said anew whenever more is known. For forecasts only: nothing of
# it moves a number.
#
# An axis whose bias lies inside its null band as far as was looked takes every draw that it may,
# and then neither its heads are scored nor anything is cut by them. The audit of such a model lasts
# a fraction of what was asked for, so a forecast follows what the draws so far say, and grows again
# should a later look find a bias.


UNDECIDED = 30.0
"""Seconds of computing after which a time is said even before axes were looked at, which decides
how much there is to do."""


def expect(audit: Audit, measuring: Sequence[Shard], more: float = 0.0) -> None:
    """Say how much is left: what measuring needs that is not counted yet, benchmarks, and more."""
    _expect_still(audit, measuring, benchmark_work(audit) + more)


def _expect_still(audit: Audit, shards: Sequence[Shard], more: float = 0.0) -> None:
    """Say that these are left, where they are not counted yet, and more."""
    progress = audit.progress
    progress.expect_in_all(progress.done + audit.context.effort(progress.uncounted(shards)) + more)


def expect_scoring(audit: Audit, unfinished: Sequence[ScoreMethod]) -> None:
    """Say how much is left while heads are scored: of these methods, and of measuring what they
    will choose."""
    audit.progress.settled = SETTLED
    silent = {axis for method in audit.request.scores for axis in method.unranked(audit.job)}
    measuring = measuring_shards(audit.plan, audit.job.total, silent)
    audit.progress.afterwards = seconds_of(audit.context, measuring)
    uncounted = audit.progress.uncounted
    expect(audit, measuring, sum(method.effort(audit.job, uncounted) for method in unfinished))
