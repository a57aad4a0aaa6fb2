"""The search for γ*, on validation prompts and validation text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from engine.audit.request import AuditRequest
from engine.audit.variants import DENSE, Variant
from engine.metrics.bench import Bench, Shard
from engine.metrics.bias import bias
from engine.metrics.perplexity import perplexity
from engine.scores.base import VALIDATION
from engine.selection.gamma import choose_gamma

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


def search_gammas(bench: Bench, request: AuditRequest, variants: Sequence[Variant]) -> dict[str, float]:
    """γ* per axis; an axis no searched method targets gets the smallest candidate."""
    rulers = _best_baselines(bench, request, variants)
    found = {}
    for axis in request.axes:
        tried = [variant for variant in searched(variants) if variant.target_axis == axis]
        found[axis] = choose_gamma(_measured(bench, request, tried), rulers) if tried else min(request.gammas)
    return found


def _measured(bench: Bench, request: AuditRequest, tried: Sequence[Variant]) -> pd.DataFrame:
    rows = [
        (variant.gamma, variant.sparsity, validation_bias(bench, request, variant), _log_ppl(bench, variant.cut))
        for variant in tried
    ]
    return pd.DataFrame(rows, columns=["gamma", "sparsity", "bias", "log_ppl"])


def validation_bias(bench: Bench, request: AuditRequest, variant: Variant) -> float:
    """Bias of a variant on the validation prompts of its target axis, seeds pooled."""
    axis = variant.target_axis
    tables = bench.fetch([Shard("verdicts", variant.cut, axis, VALIDATION, seed) for seed in request.seed_list])
    prompts = bench.rows(axis, VALIDATION)[["prompt_id", "subgroup", "template", "descriptor"]]
    return bias(prompts.merge(pd.concat(tables), on="prompt_id"), request.reading)


def _best_baselines(bench: Bench, request: AuditRequest, variants: Sequence[Variant]) -> dict[float, float]:
    """Lowest validation log perplexity among the baselines, per sparsity."""
    best = {}
    for sparsity in {variant.sparsity for variant in searched(variants)}:
        cuts = [item.cut for item in variants if item.method in BASELINES and item.sparsity == sparsity] or [()]
        best[sparsity] = min(_log_ppl(bench, cut) for cut in cuts)
    return best


def _log_ppl(bench: Bench, cut: tuple[int, ...]) -> float:
    return float(np.log(perplexity(bench.fetch([Shard("windows", cut, split=VALIDATION)])[0], bench.settings.window)))
