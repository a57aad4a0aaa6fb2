"""The arms of an audit of a text classifier: a procedure with a score, walked in every trial as far
as is known; and every measurement that follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.classifiers.tables import Repeats
from engine.core.types import exact_count
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


@dataclass(frozen=True, eq=False)
class ArmLevel(Repeats):
    """An arm at one asked share of heads. rounds: by trial, the first that reaches it."""

    arm: TextArm
    sparsity: float
    rounds: tuple[Iteration, ...]

    @property
    def pooled(self) -> str:
        return f"{self.arm.name}-{100 * self.sparsity:.4g}%"

    def shards(self) -> list[TextShard]:
        """What answers for the rounds."""
        return [one.answers for one in self.rounds if one.answers is not None]


@dataclass(frozen=True)
class _World:
    """What a procedure sees of a context (procedures.World)."""

    context: TextContext
    score: str
    trial: int
    sparsities: tuple[float, ...]
    step: float

    @property
    def total(self) -> int:
        return self.context.n_units

    def values(self, shard: TextShard) -> np.ndarray | None:
        """Importance of every head, [units] float, NaN for heads that are gone; None while it is
        not finished."""
        if not self.context.kept(shard):
            return None
        arrays, _ = self.context.without_weights(shard)
        per_text, layers = arrays["per_text"], self.context.any_model.n_layers
        values = unit_values(head_importance(shard.score), per_text, layers)
        return np.where(says_nothing(arrays["n_constant"], len(per_text)), 0.0, values)


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
    """All rounds of all arms, once everything is measured, and the arms at every asked share."""

    arms: tuple[TextArm, ...]
    rounds: dict[tuple[str, int], tuple[Iteration, ...]]
    levels: tuple[ArmLevel, ...]

    @classmethod
    def of(cls, context: TextContext, arms: Sequence[TextArm]) -> Finished:
        rounds = {
            (arm.name, trial): walked(context, arm, trial).iterations
            for arm in arms
            for trial in range(arm.n_trials)
        }

        def reached(arm: TextArm, sparsity: float, trial: int) -> Iteration:
            return next(one for one in rounds[arm.name, trial] if sparsity in one.asked)

        levels = (
            ArmLevel(arm, share, tuple(reached(arm, share, at) for at in range(arm.n_trials)))
            for arm in arms
            for share in arm.sparsities
        )
        return cls(tuple(arms), rounds, tuple(levels))

    def each_round(self) -> Iterator[tuple[str, int, Iteration]]:
        """Every arm's name, trial and round."""
        for (name, trial), rounds in self.rounds.items():
            for one in rounds:
                yield name, trial, one

    def trained(self) -> Iterator[tuple[str, TextShard]]:
        """Variant and shard of every cut model that was fine-tuned at an asked share."""
        for level in self.levels:
            if level.arm.procedure.retrains:
                yield from ((level.id_of(shard), shard) for shard in level.shards())


def dense_trials(context: TextContext, trials: int) -> list[TextShard]:
    """The full model of every trial; one where it was brought."""
    return list(dict.fromkeys(context.dense_shard(trial) for trial in range(trials)))


def importance_shards(
    context: TextContext, arms: Sequence[TextArm], trials: int
) -> list[TextShard]:
    """What the heat maps show: every score of the run after fine-tuning, and before it where that
    model is there."""
    scores = dict.fromkeys(arm.score for arm in arms if arm.score != "random")
    return [
        TextShard("importance", score=score, trial=trial, stage=stage)
        for stage in (TUNED, *([PRETRAINED] if context.start is not None else []))
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
    if not context.settings.truth:
        return []
    return [replace(shard, kind="leave_one_out") for shard in dense_trials(context, trials)]


def lens_shards(context: TextContext, finished: Finished) -> dict[str, TextShard]:
    """Stage or variant -> its matrices: both stages of the first trial, and its fine-tuned cut
    models."""
    found = {PRETRAINED: TextShard("lens", stage=PRETRAINED)} if context.start is not None else {}
    found[TUNED] = TextShard("lens")
    for level in finished.levels:
        if level.arm.procedure.retrains and level.arm.score == "conductance":
            found[level.id_of(level.shards()[0])] = TextShard("lens", level.rounds[0].cut)
    return found


def cost_shards(finished: Finished) -> dict[str, TextShard]:
    """The full model, and every variant by the cost of its first trial."""
    found = {DENSE: TextShard("text_cost")}
    for level in finished.levels:
        first = level.shards()[0]
        found[level.pooled] = TextShard("text_cost", first.trained, first.off)
    return found


def forecast(context: TextContext, arms: Sequence[TextArm]) -> float:
    """The work in the unit of Measurement.size, before it is known which heads will be cut. An
    upper end: masks that two arms happen to share count for each."""
    trials = max(arm.n_trials for arm in arms)
    shards = {}
    for arm in arms:
        for trial in range(arm.n_trials):
            for count, shard in _rounds(context, arm, trial):
                mine = (
                    (arm.procedure.scored, arm.procedure.trained, arm.score, count)
                    if count
                    else (arm.score,)
                )
                shards[shard.kind, shard.stage, trial, *mine] = shard
    shards |= {
        (shard.kind, shard.stage, shard.trial, shard.score): shard
        for shard in importance_shards(context, arms, trials)
    }
    costs = 1 + sum(len(arm.sparsities) for arm in arms)
    known = [
        *shards.values(),
        *dense_trials(context, trials),
        *truth_shards(context, trials),
        *null_shards(context, arms).values(),
        *[TextShard("text_cost")] * costs,
        *[TextShard("lens")] * (1 + (context.start is not None)),
    ]
    return sum(context.effort([shard]) for shard in known)


def _rounds(context: TextContext, arm: TextArm, trial: int) -> list[tuple[int, TextShard]]:
    """Heads gone and a stand-in for each measurement: sizes depend on how many heads are gone, not
    on which."""
    procedure, total = arm.procedure, context.n_units
    asked = sorted(exact_count(share, total) for share in arm.sparsities)
    found, before = [], 0
    for count in procedure.counts(total, asked, arm.step):
        scored = 0 if procedure.scored == "first" else before
        found.append((scored, TextShard("importance", score=arm.score, trial=trial)))
        if procedure.trains(count in asked):
            found.append((count, TextShard("tuned", tuple(range(count)), trial=trial)))
        elif not procedure.retrains:
            found.append((count, TextShard("silenced", off=tuple(range(count)), trial=trial)))
        before = count
    return found
