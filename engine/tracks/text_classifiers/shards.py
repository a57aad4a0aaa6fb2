"""Measurements of an audit of a text classifier that wait for no procedure: full models, heat maps,
lens, costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.core.ids import exact_count
from engine.tracks.text_classifiers.arms import Finished, TextArm
from engine.tracks.text_classifiers.context import PRETRAINED, TUNED, TextContext, TextShard


def dense_trials(context: TextContext, trials: int) -> list[TextShard]:
    """The full model of every trial; one where it was brought."""
    return list(dict.fromkeys(context.dense_shard(trial) for trial in range(trials)))


def importance_shards(
    context: TextContext, arms: Sequence[TextArm], trials: int
) -> list[TextShard]:
    """What the heat maps show: every score of the run before (where that model is there) and after
    fine-tuning."""
    scores = dict.fromkeys(arm.score for arm in arms if arm.score != "random")
    stages = [PRETRAINED] * (context.start is not None)
    found = [
        TextShard("importance", score=score, trial=trial)
        for score in scores
        for trial in range(trials)
    ]
    return found + [
        TextShard("importance", score=score, trial=trial, stage=stage)
        for stage in stages
        for score in scores
        for trial in range(trials)
    ]


def null_shards(
    context: TextContext, arms: Sequence[TextArm]
) -> dict[tuple[float, int], TextShard]:
    """(sparsity, trial) -> random masks of as many heads, on the trial's full model; none where
    every arm trains."""
    compared = [arm for arm in arms if not arm.procedure.retrains and context.settings.random_masks]
    return {
        (sparsity, trial): TextShard(
            "random_masks",
            trial=context.dense_shard(trial).trial,
            n_cut=exact_count(sparsity, context.n_units),
        )
        for arm in compared[:1]
        for sparsity in arm.sparsities
        for trial in range(arm.n_trials)
    }


def truth_shards(context: TextContext, trials: int) -> list[TextShard]:
    """Every head off alone, in the full model of every trial; none where that was not asked for."""
    return [
        replace(shard, kind="leave_one_out")
        for shard in dense_trials(context, trials)
        if context.settings.truth
    ]


def lens_shards(
    context: TextContext, arms: Sequence[TextArm], finished: Finished
) -> dict[str, TextShard]:
    """Stage or variant -> its matrices: both stages of the first trial, and its fine-tuned cut
    models."""
    found = {PRETRAINED: TextShard("lens", stage=PRETRAINED)} if context.start is not None else {}
    found[TUNED] = TextShard("lens")
    for arm in arms:
        for sparsity in (
            arm.sparsities if arm.procedure.retrains and arm.score == "conductance" else ()
        ):
            found[arm.id_of(sparsity, 0)] = TextShard("lens", finished.at(arm, sparsity, 0).cut)
    return found


def cost_shards(arms: Sequence[TextArm], finished: Finished) -> dict[str, TextShard]:
    """Pooled variant -> the cost of its first trial."""
    found = {}
    for arm in arms:
        for sparsity in arm.sparsities:
            answers = finished.answers(arm, sparsity, 0)
            found[arm.pooled(sparsity)] = TextShard("text_cost", answers.trained, answers.off)
    return found
