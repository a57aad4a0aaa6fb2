"""The arms of an audit of a text classifier: a procedure with a score, walked in every trial as far
as is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.tracks.text_classifiers.context import TextContext, TextShard
from engine.tracks.text_classifiers.procedures import procedure_named
from engine.tracks.text_classifiers.procedures.base import Iteration, Procedure, Walk
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
