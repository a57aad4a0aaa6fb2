"""The search for γ*, on validation prompts and validation text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from engine.core.seeds import key_of
from engine.tracks.language_models.bias_bootstrap import BiasBootstrap
from engine.tracks.language_models.context import PromptContext, Shard
from engine.tracks.language_models.perplexity import log_perplexities
from engine.tracks.language_models.perplexity_intervals import block_weights
from engine.tracks.language_models.request import AuditRequest
from engine.tracks.language_models.scores.base import VALIDATION
from engine.tracks.language_models.selection.even import is_even_method
from engine.tracks.language_models.selection.gamma import choose_gamma
from engine.tracks.language_models.variants import DENSE, Variant

BASELINES = ("magnitude", "gradient", "random", "ppl_only")
"""Perplexity may not leave the best of these by more than the margin; the dense model where none
was asked for."""
DRAWS = 500
"""Bootstrap draws of validation prompts and text, for how sure γ* is."""


def searched(variants: Sequence[Variant]) -> list[Variant]:
    """Variants that exist once per candidate γ and target an axis; those that any loader can read
    follow them."""
    tried = [variant for variant in variants if not np.isnan(variant.gamma) and variant.target_axis]
    return [variant for variant in tried if not is_even_method(variant.method)]


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
    return texts + [
        Shard("windows", variant.cut, split=VALIDATION) for variant in [*tried, *rulers]
    ]


@dataclass(frozen=True)
class GammaSearch:
    """γ* of one axis, and how often bootstrap draws of validation prompts and text choose each
    candidate."""

    chosen: float
    shares: dict[float, float]

    def to_dict(self) -> dict[str, Any]:
        return {
            "chosen": self.chosen,
            "shares": {f"{gamma:g}": share for gamma, share in self.shares.items()},
        }


def search_gammas(
    context: PromptContext, request: AuditRequest, variants: Sequence[Variant]
) -> dict[str, GammaSearch]:
    """γ* per axis; an axis no searched method targets gets the smallest candidate."""
    found = {}
    for axis in request.axes:
        tried = [variant for variant in searched(variants) if variant.target_axis == axis]
        found[axis] = (
            _search(context, request, tried, variants)
            if tried
            else GammaSearch(min(request.gammas), {})
        )
    return found


def _search(
    context: PromptContext,
    request: AuditRequest,
    tried: Sequence[Variant],
    variants: Sequence[Variant],
) -> GammaSearch:
    """The search on one axis; arrays are [draws, gammas, sparsities], the measured values first."""
    gammas = sorted({variant.gamma for variant in tried})
    sparsities = sorted({variant.sparsity for variant in tried})
    cuts = {(variant.gamma, variant.sparsity): variant for variant in tried}
    grid = [[cuts[gamma, sparsity] for sparsity in sparsities] for gamma in gammas]
    boot = BiasBootstrap(
        validation_texts(context, request, grid[0][0]),
        DRAWS,
        key_of("search", tried[0].target_axis),
    )
    bias = _over(
        grid, lambda one: boot.draws(validation_texts(context, request, one), request.reading)
    )
    log_ppl = _over(grid, lambda one: _log_ppl(context, one.cut))
    best = np.stack(
        [_best_baseline(context, variants, sparsity) for sparsity in sparsities], axis=-1
    )
    places = choose_gamma(bias, log_ppl, best, float(request.gamma_margin))
    whole = np.isfinite(bias[1:]).all(
        axis=(1, 2)
    )  # a draw without any prompt of some subgroup says nothing
    shares = np.bincount(places[1:][whole], minlength=len(gammas)) / max(int(whole.sum()), 1)
    return GammaSearch(gammas[places[0]], dict(zip(gammas, map(float, shares), strict=True)))


def _over(grid: Sequence[Sequence[Variant]], draws: Callable[[Variant], np.ndarray]) -> np.ndarray:
    """`draws` of every variant, [draws] each, as [draws, gammas, sparsities]."""
    return np.moveaxis(np.array([[draws(one) for one in row] for row in grid]), -1, 0)


def validation_texts(
    context: PromptContext, request: AuditRequest, variant: Variant
) -> pd.DataFrame:
    """Verdicts of a variant on the validation prompts of its target axis, all seeds."""
    axis = variant.target_axis
    tables = context.fetch(
        [Shard("verdicts", variant.cut, axis, VALIDATION, seed) for seed in request.seed_list]
    )
    prompts = context.rows(axis, VALIDATION)[["prompt_id", "subgroup", "template", "descriptor"]]
    return prompts.merge(pd.concat(tables), on="prompt_id")


def _best_baseline(
    context: PromptContext, variants: Sequence[Variant], sparsity: float
) -> np.ndarray:
    """Lowest validation log perplexity among the baselines at a sparsity, measured and in every
    draw: [1 + DRAWS]."""
    cuts = [
        item.cut for item in variants if item.method in BASELINES and item.sparsity == sparsity
    ] or [()]
    return np.min([_log_ppl(context, cut) for cut in cuts], axis=0)


def _log_ppl(context: PromptContext, cut: tuple[int, ...]) -> np.ndarray:
    """Validation log perplexity, measured and in every draw of text: [1 + DRAWS]."""
    windows = context.fetch([Shard("windows", cut, split=VALIDATION)])[0].sort_values("window")
    weights = np.vstack([np.ones(len(windows)), block_weights(len(windows), DRAWS)])
    return log_perplexities(windows, weights, context.settings.window)
