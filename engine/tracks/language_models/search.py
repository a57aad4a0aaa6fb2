"""The search for γ*, on validation prompts and validation text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from engine.tracks.language_models.bias import bias
from engine.tracks.language_models.context import PromptContext, Shard
from engine.tracks.language_models.perplexity import perplexity
from engine.tracks.language_models.request import AuditRequest
from engine.tracks.language_models.scores.base import VALIDATION
from engine.tracks.language_models.selection.gamma import choose_gamma
from engine.tracks.language_models.variants import DENSE, Variant

BASELINES = ("magnitude", "gradient", "random", "ppl_only")
"""Perplexity may not leave the best of these by more than the margin; the dense model where none was asked for."""


def searched(variants: Sequence[Variant]) -> list[Variant]:
    """Variants that exist once per candidate γ and target an axis."""
    return [variant for variant in variants if not np.isnan(variant.gamma) and variant.target_axis]


def search_shards(request: AuditRequest, variants: Sequence[Variant]) -> list[Shard]:
    """Validation measurements the search needs: bias of the candidates, perplexity of candidates and baselines."""
    tried = searched(variants)
    rulers = [variant for variant in variants if variant.method in (*BASELINES, DENSE)]
    texts = [
        Shard("verdicts", variant.cut, variant.target_axis, VALIDATION, seed)
        for variant in tried
        for seed in request.seed_list
    ]
    return texts + [Shard("windows", variant.cut, split=VALIDATION) for variant in [*tried, *rulers]]


def search_gammas(context: PromptContext, request: AuditRequest, variants: Sequence[Variant]) -> dict[str, float]:
    """γ* per axis; an axis no searched method targets gets the smallest candidate."""
    rulers = _best_baselines(context, request, variants)
    found = {}
    for axis in request.axes:
        tried = [variant for variant in searched(variants) if variant.target_axis == axis]
        found[axis] = choose_gamma(_measured(context, request, tried), rulers) if tried else min(request.gammas)
    return found


def _measured(context: PromptContext, request: AuditRequest, tried: Sequence[Variant]) -> pd.DataFrame:
    rows = [
        (variant.gamma, variant.sparsity, validation_bias(context, request, variant), _log_ppl(context, variant.cut))
        for variant in tried
    ]
    return pd.DataFrame(rows, columns=["gamma", "sparsity", "bias", "log_ppl"])


def validation_bias(context: PromptContext, request: AuditRequest, variant: Variant) -> float:
    """Bias of a variant on the validation prompts of its target axis, seeds pooled."""
    axis = variant.target_axis
    tables = context.fetch([Shard("verdicts", variant.cut, axis, VALIDATION, seed) for seed in request.seed_list])
    prompts = context.rows(axis, VALIDATION)[["prompt_id", "subgroup", "template", "descriptor"]]
    return bias(prompts.merge(pd.concat(tables), on="prompt_id"), request.reading)


def _best_baselines(context: PromptContext, request: AuditRequest, variants: Sequence[Variant]) -> dict[float, float]:
    """Lowest validation log perplexity among the baselines, per sparsity."""
    best = {}
    for sparsity in {variant.sparsity for variant in searched(variants)}:
        cuts = [item.cut for item in variants if item.method in BASELINES and item.sparsity == sparsity] or [()]
        best[sparsity] = min(_log_ppl(context, cut) for cut in cuts)
    return best


def _log_ppl(context: PromptContext, cut: tuple[int, ...]) -> float:
    return float(
        np.log(perplexity(context.fetch([Shard("windows", cut, split=VALIDATION)])[0], context.settings.window))
    )
