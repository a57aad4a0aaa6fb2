"""Which pruned variants an audit compares: every method at every sparsity, per target axis where it
has one."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from engine.core.types import POOLED, HeadMask, Values, key_of
from engine.surgery.heads.replay import Shape
from engine.tracks.language_models.bias_intervals import BiasBootstrap
from engine.tracks.language_models.context import PromptContext, Shard
from engine.tracks.language_models.perplexity import block_weights, log_perplexities
from engine.tracks.language_models.request import CONTROLLED, SEARCH, AuditRequest
from engine.tracks.language_models.scores import VALIDATION
from engine.tracks.language_models.selection import (
    Ballot,
    GroupEffects,
    SelectionMethod,
    choose_gamma,
    even_cut,
    fasp_ties,
    selection_method,
)
from engine.tracks.language_models.words import EVEN

DENSE = "dense"


class What(NamedTuple):
    """What is done to the dense model: heads cut (flat units), or an arm in its place. Neither:
    nothing."""

    cut: tuple[int, ...] = ()
    arm: str = ""

    def __bool__(self) -> bool:
        """False of the dense model."""
        return bool(self.cut or self.arm)

    def shard(self, kind: str, axis: str = "", split: str = "", seed: int = 0) -> Shard:
        """A measurement of it."""
        return Shard(kind, self.cut, axis, split, seed, self.arm)


@dataclass(frozen=True)
class Variant:
    """A selection with a name. `seed` is the selection's own, -1 for methods without chance; gamma
    NaN without γ.

    arm: the id of what stands in the dense model's place; such a variant cuts no head.
    """

    id: str
    method: str
    target_axis: str
    gamma: float
    sparsity: float
    seed: int
    cut: tuple[int, ...]
    chosen: bool = True
    ties: tuple[int, int] = (0, 0)
    """Heads protected, and cut, that a tie decided."""
    arm: str = ""
    reached: float = float("nan")
    """Of an arm: what its level comes to on this model; NaN: the level."""

    @property
    def what(self) -> What:
        return What(self.cut, self.arm)


def dense_variant() -> Variant:
    return Variant(DENSE, DENSE, "", float("nan"), 0.0, POOLED, ())


def score_vectors(scores: pd.DataFrame, axis: str) -> dict[str, np.ndarray]:
    """Pooled scores for one target axis by name, [units] float64 each, in unit order."""
    pooled = scores[(scores["seed"] == POOLED) & scores["axis"].isin(["", axis])]
    return {
        name: part.sort_values("unit")["value"].to_numpy() for name, part in pooled.groupby("score")
    }


def all_variants(
    request: AuditRequest,
    scores: pd.DataFrame,
    total: int,
    shape: Shape | None = None,
    groups: pd.DataFrame | None = None,
    unsupported: Collection[str] = (),
) -> list[Variant]:
    """The dense model and every variant, γ candidates included (not yet chosen where γ is
    searched).

    shape: how the heads lie, for the cuts that any loader can read; without it there are none of
    these. groups: the table `head_groups`, where it is known. unsupported: axes whose dense bias
    does not stand out, on which methods that need that build nothing.
    """
    found = [dense_variant()]
    for name in request.selections:
        method = selection_method(name)
        for axis in request.axes if method.per_axis else ("",):
            vectors = score_vectors(scores, axis)
            if method.needs_support and axis in unsupported:
                continue  # the run's warnings say why
            if any(np.isnan(vectors[score]).any() for score in method.needs):
                continue  # heads of this axis were not ranked (the run's warnings say why)
            effects = None if groups is None else GroupEffects.of(groups, axis, request.reading)
            for ballot in ballots_of(request, method, vectors, total, effects):
                is_tried = request.gamma == SEARCH and method.uses_gamma
                found.append(variant_of(method, axis, ballot, is_tried))
                if request.deployable and shape and (cut := even_cut(method, ballot, shape)):
                    # the same, held to what any loader can read
                    even, last = f"{name}{EVEN}", found[-1]
                    label = f"{even}{last.id.removeprefix(name)}"
                    found.append(replace(last, id=label, method=even, cut=cut, ties=(0, 0)))
    return found


def ballots_of(
    request: AuditRequest,
    method: SelectionMethod,
    vectors: dict[str, np.ndarray],
    total: int,
    effects: GroupEffects | None = None,
) -> Iterator[Ballot]:
    """What `method` decides by, once per sparsity, γ and seed that it uses; vectors: scores by
    name, [units] each."""
    for gamma in request.gammas if method.uses_gamma else (0.0,):
        for sparsity in sorted({value for value in request.sparsities if value > 0}):
            for seed in request.seed_list if method.uses_seed else (POOLED,):
                yield Ballot(vectors, total, sparsity, gamma, seed, effects)


def variant_of(method: SelectionMethod, axis: str, ballot: Ballot, searched: bool) -> Variant:
    gamma = ballot.gamma if method.uses_gamma else float("nan")
    tried = f"g{gamma:.2f}" if method.uses_gamma else ""
    drawn = f"r{ballot.seed}" if method.uses_seed else ""
    parts = method.name, axis, tried, f"s{ballot.sparsity:.3f}", drawn
    cut = method.select(ballot)
    name = "-".join(part for part in parts if part)
    ties = fasp_ties(ballot.scores, ballot.critical, cut) if method.breaks_ties else (0, 0)
    return Variant(
        name, method.name, axis, gamma, ballot.sparsity, ballot.seed, cut, not searched, ties
    )


def with_gamma(variants: list[Variant], gammas: dict[str, float]) -> list[Variant]:
    """Mark the variants at γ* as chosen: at their own axis' γ*, axis-free ones at that of every
    axis (a control at another γ would compare two things at once)."""

    def chosen(variant: Variant) -> bool:
        wanted = {gammas[variant.target_axis]} if variant.target_axis else set(gammas.values())
        return bool(np.isnan(variant.gamma)) or variant.gamma in wanted

    return [replace(variant, chosen=chosen(variant)) for variant in variants]


def _realised(variant: Variant, mask: HeadMask) -> float:
    if not variant.arm:
        return mask.sparsity
    return variant.sparsity if np.isnan(variant.reached) else variant.reached


def variant_table(variants: list[Variant], n_layers: int, n_heads: int) -> pd.DataFrame:
    """The table `variants` of a run. The column `arm` is there where one of them is no cut of
    heads."""

    def of(*names: str) -> dict[str, list[Any]]:
        return {name: [getattr(variant, name) for variant in variants] for name in names}

    masks = [HeadMask.from_units(n_layers, n_heads, variant.cut) for variant in variants]
    return pd.DataFrame(
        {
            "variant": of("id")["id"],
            **of("method", "target_axis", "gamma", "sparsity"),
            "realised": [_realised(one, mask) for one, mask in zip(variants, masks, strict=True)],
            "n_cut": [len(variant.cut) for variant in variants],
            **of("seed", "chosen"),
            "cut": [json.dumps(list(variant.cut)) for variant in variants],
            "mask_digest": [mask.digest for mask in masks],
            "tied_protected": [variant.ties[0] for variant in variants],
            "tied_cut": [variant.ties[1] for variant in variants],
            **(of("arm") if any(variant.arm for variant in variants) else {}),
        }
    )


# The search for γ*, on validation prompts and validation text.


BASELINES = ("magnitude", "gradient", "random", "ppl_only")
"""Perplexity may not leave the best of these by more than the margin; the dense model where none
was asked for."""
DRAWS = 500
"""Bootstrap draws of validation prompts and text, for how sure γ* is."""


def searched(variants: Sequence[Variant]) -> list[Variant]:
    """Variants that exist once per candidate γ and target an axis, of FASP where it is among them:
    others, and those that any loader can read, follow."""
    tried = [variant for variant in variants if not np.isnan(variant.gamma) and variant.target_axis]
    tried = [variant for variant in tried if not variant.method.endswith(EVEN)]
    return [one for one in tried if one.method == CONTROLLED] or tried


def search_shards(request: AuditRequest, variants: Sequence[Variant]) -> list[Shard]:
    """Validation measurements the search needs: bias of the candidates, perplexity of candidates
    and baselines."""
    tried = searched(variants)
    rulers = [variant for variant in variants if variant.method in (*BASELINES, DENSE)]
    texts = [
        Shard("verdicts", variant.cut, variant.target_axis, VALIDATION, seed)
        for variant in tried
        for seed in request.seed_list
    ]
    both = [*tried, *rulers]
    return texts + [Shard("windows", variant.cut, split=VALIDATION) for variant in both]


@dataclass(frozen=True)
class GammaSearch:
    """γ* of one axis, and how often bootstrap draws of validation prompts and text choose each
    candidate."""

    chosen: float
    shares: dict[float, float]

    def to_dict(self) -> Values:
        shares = {f"{gamma:g}": share for gamma, share in self.shares.items()}
        return {"chosen": self.chosen, "shares": shares}


def search_gammas(
    context: PromptContext, request: AuditRequest, variants: Sequence[Variant]
) -> dict[str, GammaSearch]:
    """γ* per axis; an axis no searched method targets gets the smallest candidate."""
    found = {axis: GammaSearch(min(request.gammas), {}) for axis in request.axes}
    for axis in request.axes:
        if tried := [variant for variant in searched(variants) if variant.target_axis == axis]:
            found[axis] = search_gamma(context, request, tried, variants)
    return found


def search_gamma(
    context: PromptContext,
    request: AuditRequest,
    tried: Sequence[Variant],
    variants: Sequence[Variant],
    draws: int = DRAWS,
) -> GammaSearch:
    """The search on one axis; arrays are [draws, gammas, sparsities], the measured values first."""
    gammas = sorted({variant.gamma for variant in tried})
    sparsities = sorted({variant.sparsity for variant in tried})
    cuts = {(variant.gamma, variant.sparsity): variant for variant in tried}
    grid = [[cuts[gamma, sparsity] for sparsity in sparsities] for gamma in gammas]

    def texts(one: Variant) -> pd.DataFrame:
        return context.judged(one.cut, one.target_axis, VALIDATION, request.seed_list)

    boot = BiasBootstrap(texts(grid[0][0]), draws, key_of("search", tried[0].target_axis))
    bias = _over(grid, lambda one: boot.draws(texts(one), request.reading))
    log_ppl = _over(grid, lambda one: _log_ppl(context, one.cut, draws))
    best = [_best_baseline(context, variants, sparsity, draws) for sparsity in sparsities]
    places = choose_gamma(bias, log_ppl, np.stack(best, axis=-1), float(request.gamma_margin))
    # a draw without any prompt of some subgroup says nothing
    whole = np.isfinite(bias[1:]).all(axis=(1, 2))
    shares = np.bincount(places[1:][whole], minlength=len(gammas)) / max(int(whole.sum()), 1)
    return GammaSearch(gammas[places[0]], dict(zip(gammas, map(float, shares), strict=True)))


def _over(grid: Sequence[Sequence[Variant]], draws: Callable[[Variant], np.ndarray]) -> np.ndarray:
    """`draws` of every variant, [draws] each, as [draws, gammas, sparsities]."""
    return np.moveaxis(np.array([[draws(one) for one in row] for row in grid]), -1, 0)


def _best_baseline(
    context: PromptContext, variants: Sequence[Variant], sparsity: float, draws: int
) -> np.ndarray:
    """Lowest validation log perplexity among the baselines at a sparsity, measured and in every
    draw: [1 + draws]."""
    cuts = [
        item.cut for item in variants if item.method in BASELINES and item.sparsity == sparsity
    ] or [()]
    return np.min([_log_ppl(context, cut, draws) for cut in cuts], axis=0)


def _log_ppl(context: PromptContext, cut: tuple[int, ...], draws: int) -> np.ndarray:
    """Validation log perplexity, measured and in every draw of text: [1 + draws]."""
    windows = context.fetch([Shard("windows", cut, split=VALIDATION)])[0].sort_values("window")
    weights = np.vstack([np.ones(len(windows)), block_weights(len(windows), draws)])
    return log_perplexities(windows, weights, context.settings.window)
