"""The arms of an audit of a text classifier: a procedure with a score, walked in every trial as far
as is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.core.ids import exact_count
from engine.tracks.text_classifiers.context import PRETRAINED, TUNED, TextContext, TextShard
from engine.tracks.text_classifiers.procedures import Iteration, Procedure, Walk, procedure_named
from engine.tracks.text_classifiers.request import TextRequest
from engine.tracks.text_classifiers.scores.base import head_importance, says_nothing, unit_values

DENSE = "dense"


@dataclass(frozen=True)
class TextArm:
    """One procedure with one score. `name` is how tables write it, e.g. "isp:conductance"."""

    procedure: Procedure
    score: str
    sparsities: tuple[float, ...]
    step: float
    n_trials: int

    @property
    def name(self) -> str:
        return f"{self.procedure.name}:{self.score}"

    def pooled(self, sparsity: float) -> str:
        """Id of the variant that stands for all trials."""
        return f"{self.name}-{100 * sparsity:.4g}%"

    def id_of(self, sparsity: float, trial: int) -> str:
        """Id of one trial's variant."""
        return f"{self.pooled(sparsity)}#{trial}"


@dataclass(frozen=True)
class _World:
    """What a procedure sees of a context (procedures.base.World)."""

    context: TextContext
    score: str
    trial: int
    sparsities: tuple[float, ...]
    step: float

    @property
    def total(self) -> int:
        return self.context.n_units

    def values(self, shard: TextShard) -> np.ndarray | None:
        """Importance of every head, [units] float, None while it is not finished."""
        if not self.context.kept(shard):
            return None
        return importance_of(self.context, shard)


def importance_of(context: TextContext, shard: TextShard) -> np.ndarray:
    """One number per head of a finished importance, [units] float, NaN for heads that are gone."""
    arrays, _ = context.without_weights(shard)
    values = unit_values(
        head_importance(shard.score), arrays["per_text"], context.any_model.n_layers
    )
    return np.where(says_nothing(arrays["n_constant"], len(arrays["per_text"])), 0.0, values)


def arms_of(request: TextRequest) -> list[TextArm]:
    """The arms in the order they were asked for."""
    return [
        TextArm(procedure_named(name), score, request.sparsities, request.step, request.trials)
        for name, score in request.arms
    ]


def walked(context: TextContext, arm: TextArm, trial: int) -> Walk:
    """An arm in one trial, as far as finished measurements show."""
    return arm.procedure.walk(_World(context, arm.score, trial, arm.sparsities, arm.step))


@dataclass(frozen=True)
class Finished:
    """All rounds of all arms, once everything is measured."""

    rounds: dict[tuple[str, int], tuple[Iteration, ...]]

    @classmethod
    def of(cls, context: TextContext, arms: Sequence[TextArm]) -> Finished:
        return cls(
            {
                (arm.name, trial): walked(context, arm, trial).iterations
                for arm in arms
                for trial in range(arm.n_trials)
            }
        )

    def at(self, arm: TextArm, sparsity: float, trial: int) -> Iteration:
        """The first round that reaches an asked sparsity."""
        return next(one for one in self.rounds[arm.name, trial] if sparsity in one.asked)

    def answers(self, arm: TextArm, sparsity: float, trial: int) -> TextShard:
        """What answers for that round."""
        found = self.at(arm, sparsity, trial).answers
        assert found is not None, "a round that reaches an asked sparsity is measured"
        return found


# Measurements of an audit of a text classifier that wait for no procedure: full models, heat
# maps, lens, costs.


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


# How much work an audit of a text classifier will be, before it is known which heads it will
# cut.


def forecast(context: TextContext, arms: Sequence[TextArm]) -> float:
    """The work in the unit of Measurement.size; an upper end: masks that two arms happen to share
    count for each."""
    shards: dict[tuple[object, ...], TextShard] = {}
    for arm in arms:
        for trial in range(arm.n_trials):
            dense = context.dense_shard(trial)
            shards["dense", dense.trial] = dense
            for count, shard in _rounds(context, arm, trial):
                mine = (
                    (arm.procedure.scored, arm.procedure.trained, arm.score, count)
                    if count
                    else (arm.score,)
                )
                shards[shard.kind, shard.stage, trial, *mine] = shard
    for shard in truth_shards(context, max(arm.n_trials for arm in arms)):
        shards["leave_one_out", shard.trial] = shard
    for (sparsity, trial), shard in null_shards(context, arms).items():
        shards["random_masks", sparsity, trial] = shard
    for shard in importance_shards(context, arms, max(arm.n_trials for arm in arms)):
        shards["importance", shard.stage, shard.trial, shard.score] = shard
    known = context.effort([TextShard("text_cost")]) * (
        1 + sum(len(arm.sparsities) for arm in arms)
    )
    known += context.effort([TextShard("lens")]) * (1 + (context.start is not None))
    return known + sum(context.effort([shard]) for shard in shards.values())


def _rounds(context: TextContext, arm: TextArm, trial: int) -> list[tuple[int, TextShard]]:
    """Heads gone and a stand-in for each measurement: sizes depend on how many heads are gone, not
    on which."""
    procedure, total = arm.procedure, context.n_units
    asked = sorted(exact_count(share, total) for share in arm.sparsities)
    found, before = [], 0
    for count in procedure.counts(total, asked, arm.step):
        scored = 0 if procedure.scored == "first" else before
        found.append((scored, TextShard("importance", score=arm.score, trial=trial)))
        trains = procedure.trained == "every" or (procedure.trained == "asked" and count in asked)
        if trains:
            found.append((count, TextShard("tuned", tuple(range(count)), trial=trial)))
        elif not procedure.retrains:
            found.append((count, TextShard("silenced", off=tuple(range(count)), trial=trial)))
        before = count
    return found
