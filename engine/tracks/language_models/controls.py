"""FASP against chance: cuts of as many random heads, drawn among those that perplexity can spare at
the same γ.

Does the bias score choose better than chance among the heads that γ leaves? A cut's bias is
compared with the method's on the very same test prompts and random streams. Few prompts come first;
where they cannot say on which side of LEVEL the rank lies, all prompts are drawn once, then as
often as variants are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from engine.core.seeds import key_of
from engine.tracks.language_models.bias import bias
from engine.tracks.language_models.bias_intervals import BiasErrors
from engine.tracks.language_models.context import FEW_TEST, PromptContext, Shard
from engine.tracks.language_models.evidence import is_settled
from engine.tracks.language_models.opening import Audit
from engine.tracks.language_models.perplexity import perplexity
from engine.tracks.language_models.request import CONTROLLED, AuditRequest
from engine.tracks.language_models.selection.base import Ballot, selection_method
from engine.tracks.language_models.tables import TEST
from engine.tracks.language_models.variants import Variant, score_vectors

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


@dataclass(frozen=True)
class Stage:
    """How much is drawn: which test prompts, and with which decoding seeds."""

    split: str
    seeds: tuple[int, ...]


def stages(request: AuditRequest) -> tuple[Stage, ...]:
    """From few prompts to everything that variants are measured on."""
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
    rows = []
    for place, (variant, cuts) in enumerate(asked):
        _expect(audit, asked[place:])
        rows += _against_chance(audit, variant, cuts)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _expect(audit: Audit, asked: Sequence[tuple[Variant, Sequence[tuple[int, ...]]]]) -> None:
    """Say how much is left where some were settled early: of the others, everything."""
    progress, every = audit.progress, stages(audit.drawn or audit.request)
    shards = [
        shard
        for variant, cuts in asked
        for stage in every
        for shard in shards_of(variant, cuts, stage)
    ]
    progress.expect_in_all(progress.done + audit.context.effort(progress.uncounted(shards)))


def _against_chance(
    audit: Audit, variant: Variant, cuts: Sequence[tuple[int, ...]]
) -> list[dict[str, object]]:
    found: dict[str, Any] = {}
    for stage in stages(audit.drawn or audit.request):
        audit.finish("controls", shards_of(variant, cuts, stage))
        found = _compared(audit.context, audit.request.reading, variant, cuts, stage)
        if is_settled(found["below"], found["unclear"]):
            break
    same: dict[str, object] = {
        "variant": variant.id,
        "target_axis": variant.target_axis,
        "gamma": variant.gamma,
    }
    same |= {"sparsity": variant.sparsity, "prompts": found["prompts"], "draws": len(stage.seeds)}
    window = audit.context.settings.window
    texts = [
        perplexity(table, window)
        for table in audit.context.fetch([Shard("windows", cut, split=TEST) for cut in cuts])
    ]
    return [
        {
            **same,
            "control": number,
            "cut": json.dumps(list(cut)),
            "bias": level,
            "method_bias": found["method"],
            "perplexity": text,
        }
        for number, (cut, level, text) in enumerate(zip(cuts, found["levels"], texts, strict=True))
    ]


def _compared(
    context: PromptContext,
    reading: str,
    variant: Variant,
    cuts: Sequence[tuple[int, ...]],
    stage: Stage,
) -> dict[str, Any]:
    """Bias of the method and of every control on the same texts, and which controls are no worse,
    clearly or not."""
    own = _texts(context, variant.cut, variant.target_axis, stage)
    errors = BiasErrors(own)
    tables = [_texts(context, cut, variant.target_axis, stage) for cut in cuts]
    changes = [errors.difference(table, reading) for table in tables]
    return {
        "method": bias(own, reading),
        "levels": [bias(table, reading) for table in tables],
        "prompts": own["prompt_id"].nunique(),
        "below": np.array([change.value <= 0 for change in changes]),
        "unclear": np.array([not (change.low > 0 or change.high < 0) for change in changes]),
    }


def _texts(context: PromptContext, cut: tuple[int, ...], axis: str, stage: Stage) -> pd.DataFrame:
    parts = context.fetch([Shard("verdicts", cut, axis, stage.split, seed) for seed in stage.seeds])
    prompts = context.rows(axis, stage.split)[["prompt_id", "subgroup", "template", "descriptor"]]
    return prompts.merge(pd.concat(parts), on="prompt_id", validate="one_to_many")
