"""What a procedure is: how many heads are gone after each iteration, what is scored for it, and
what is trained. The arms of an audit, a procedure with a score each; and every measurement that
follows.

An arm is walked as far as finished measurements show, and names what it needs next. So it can stop
anywhere and go on from there. What two procedures share (the first importance, a mask they both
reach) is computed once.

Heads with the lowest importance go first, ties by unit. Iterations stop at every asked sparsity on
their way, so that procedures can be compared where they cut equally many heads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from engine.classifiers.tables import Repeats
from engine.core.types import exact_count
from engine.surgery.ranking import best
from engine.tracks.text_classifiers.context import PRETRAINED, TUNED, TextContext, TextShard
from engine.tracks.text_classifiers.scores.base import head_importance, says_nothing, unit_values

DENSE = "dense"
Importances = Callable[[TextShard], np.ndarray | None]
"""Importance of every head, [units] float, NaN for heads that are gone; None while it is not
finished."""


@dataclass(frozen=True)
class Iteration:
    """One round: heads newly cut, all cut so far, what they were chosen by, and which model answers
    for it.

    values [units] are the importances that `newly` was chosen by, NaN for heads that were gone.
    """

    number: int
    newly: tuple[int, ...]
    cut: tuple[int, ...]
    importance: TextShard
    values: np.ndarray
    answers: TextShard | None
    """None where this round's model is only a step on the way and is not measured."""
    asked: tuple[float, ...]
    """The asked sparsities that are reached here, ascending; several where a round skipped some."""
    retrained: bool


@dataclass(frozen=True)
class Walk:
    """How far a procedure got, and every measurement it needs up to the next missing number."""

    iterations: tuple[Iteration, ...]
    needed: tuple[TextShard, ...]
    finished: bool


@dataclass(frozen=True)
class Procedure:
    """One way to find a subnetwork. Each is a row of `ROWS`, the cheapest first."""

    name: str
    scored: Literal["first", "masked", "retrained"]
    """first: once, on the full model; masked: in every round, the heads so far masked; retrained:
    in every round, on the model that was fine-tuned without them."""
    trained: Literal["never", "asked", "every"]
    """When the pre-trained weights are fine-tuned without the heads: never, at asked sparsities, in
    every round."""
    counts: Callable[[int, Sequence[int], float], list[int]]
    """(all heads, asked counts, step) -> heads gone after each round, ascending, up to the largest
    asked count or more. An asked count is answered by the first round that reaches it."""
    version: int = 1
    """Raise when it comes out differently: runs that used an older version are then computed anew.
    """

    @property
    def retrains(self) -> bool:
        return self.trained != "never"


def at_asked(total: int, asked: Sequence[int], step: float) -> list[int]:
    """One round per asked count."""
    return list(asked)


def of_initial(total: int, asked: Sequence[int], step: float) -> list[int]:
    """Thesis, Algorithm 6.1, line 6: every round takes κ = `step` of the initial heads, so after
    round i int(i κ total) are gone; and every asked count."""
    last = max(asked)
    rounds = [
        exact_count(min(1.0, step * number), total) for number in range(1, math.ceil(1 / step) + 1)
    ]
    return sorted({count for count in (*rounds, *asked) if 0 < count <= last})


def of_remaining(total: int, asked: Sequence[int], step: float) -> list[int]:
    """Thesis, Algorithm 6.2, line 6: every round takes κ = `step` of the heads that are left (at
    least one), but never skips an asked count."""
    counts, gone = [], 0
    while gone < max(asked):
        following = gone + max(1, exact_count(step, total - gone))
        gone = min([count for count in asked if count > gone] + [following])
        counts.append(gone)
    return counts


def of_remaining_strictly(total: int, asked: Sequence[int], step: float) -> list[int]:
    """As `of_remaining`, without a stop at asked counts: Algorithm 6.2 as printed, until the
    largest is reached."""
    counts = [0]
    while counts[-1] < max(asked):
        counts.append(counts[-1] + max(1, exact_count(step, total - counts[-1])))
    return counts[1:]


ROWS = (
    # Score the fine-tuned model one time, then mask the lowest heads at several ratios (Michel et
    # al. 2019).
    Procedure("once", scored="first", trained="never", counts=at_asked),
    # Thesis, Algorithm 6.1: score again in every round with the heads so far masked; mask a share
    # of the initial heads.
    Procedure("alg61", scored="masked", trained="never", counts=of_initial),
    # The masks of `once`, cut from the pre-trained weights, which are then fine-tuned (thesis, Sec.
    # 6.6.1).
    Procedure("one-shot-isp", scored="first", trained="asked", counts=at_asked),
    # The masks of `alg61`, cut from the pre-trained weights, which are fine-tuned at the end
    # (thesis, Sec. 6.5.1).
    Procedure("igspf", scored="masked", trained="asked", counts=of_initial),
    # As Algorithm 6.1, but every round cuts the pre-trained weights, fine-tunes them and scores the
    # result.
    Procedure("igspp", scored="retrained", trained="every", counts=of_initial),
    # Thesis, Algorithm 6.2: every round takes a share of the heads left and fine-tunes the
    # pre-trained weights.
    Procedure("isp", scored="retrained", trained="every", counts=of_remaining),
    # The same as printed, without a stop at every asked sparsity: the first round that reaches one
    # answers for it.
    Procedure("isp-strict", scored="retrained", trained="every", counts=of_remaining_strictly),
)


def procedures() -> Mapping[str, Procedure]:
    """Every procedure there is, by name, the cheapest first."""
    return {one.name: one for one in ROWS}


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

    def walk(self, trial: int, total: int, values: Importances) -> Walk:
        """Thesis, Algorithms 6.1 and 6.2, in a model of `total` heads, as far as finished
        measurements show. Until the largest asked sparsity:

        1. Score the heads that are left, I_h (`scored` says on which model).
        2. Cut those with the lowest I_h, as many as `counts` says.
        3. Fine-tune the pre-trained weights without them, where `trained` says so (Algorithm 6.2,
           line 7).
        """
        how, units = self.procedure, np.arange(total)
        asked = {share: exact_count(share, total) for share in sorted(self.sparsities)}
        counts = how.counts(total, sorted(asked.values()), self.step)
        first = {
            share: next(count for count in counts if count >= gone) for share, gone in asked.items()
        }
        found: list[Iteration] = []
        needed: list[TextShard] = []
        cut: tuple[int, ...] = ()
        for number, count in enumerate(counts, 1):
            trained, off = (cut if how.scored == kind else () for kind in ("retrained", "masked"))
            needed.append(scored := TextShard("importance", trained, off, self.score, trial))
            if (importance := values(scored)) is None:
                return Walk(tuple(found), tuple(needed), False)
            # what is gone needs no score
            known = np.where(np.isin(units, cut), 0.0, importance)
            newly = best(known, count - len(cut), highest=False, excluded=cut)
            cut = tuple(sorted((*cut, *newly)))
            reached = tuple(share for share, place in first.items() if place == count)
            trains = how.trained == "every" or (how.trained == "asked" and bool(reached))
            answers = None
            if trains or not how.retrains:
                kind, trained, off = ("tuned", cut, ()) if trains else ("silenced", (), cut)
                needed.append(answers := TextShard(kind, trained, off, trial=trial))
            found.append(
                Iteration(number, newly, cut, scored, importance, answers, reached, trains)
            )
        return Walk(tuple(found), tuple(needed), True)


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


def walked(context: TextContext, arm: TextArm, trial: int) -> Walk:
    """An arm in one trial, as far as finished measurements show."""

    def values(shard: TextShard) -> np.ndarray | None:
        if not context.kept(shard):
            return None
        arrays, _ = context.without_weights(shard)
        per_text, layers = arrays["per_text"], context.any_model.n_layers
        found = unit_values(head_importance(shard.score), per_text, layers)
        return np.where(says_nothing(arrays["n_constant"], len(per_text)), 0.0, found)

    return arm.walk(trial, context.n_units, values)


@dataclass(frozen=True)
class Finished:
    """All rounds of all arms, once everything is measured, and the arms at every asked share."""

    arms: tuple[TextArm, ...]
    rounds: dict[tuple[str, int], tuple[Iteration, ...]]
    levels: tuple[ArmLevel, ...]

    @classmethod
    def of(cls, context: TextContext, arms: Sequence[TextArm]) -> Finished:
        rounds: dict[tuple[str, int], tuple[Iteration, ...]] = {}
        levels = []
        for arm in arms:
            each = [walked(context, arm, trial).iterations for trial in range(arm.n_trials)]
            rounds |= {(arm.name, trial): found for trial, found in enumerate(each)}
            for share in arm.sparsities:
                reached = (next(one for one in found if share in one.asked) for found in each)
                levels.append(ArmLevel(arm, share, tuple(reached)))
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
        for stage in (TUNED, PRETRAINED)[: 1 + (context.start is not None)]
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
        (sparsity, trial): replace(
            context.dense_shard(trial),
            kind="random_masks",
            n_cut=exact_count(sparsity, context.n_units),
        )
        for arm in compared[:1]
        for sparsity in arm.sparsities
        for trial in range(arm.n_trials)
    }


def truth_shards(context: TextContext, trials: int) -> list[TextShard]:
    """Every head off alone, in the full model of every trial; none where that was not asked for."""
    trials = trials if context.settings.truth else 0
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
    firsts = {level.pooled: level.shards()[0] for level in finished.levels}
    return {
        DENSE: TextShard("text_cost"),
        **{name: TextShard("text_cost", one.trained, one.off) for name, one in firsts.items()},
    }


def forecast(context: TextContext, arms: Sequence[TextArm]) -> float:
    """The work in the unit of Measurement.size, before it is known which heads will be cut: that
    depends on how many are, not on which. An upper end: masks that two arms happen to share count
    for each."""
    trials, alike = max(arm.n_trials for arm in arms), np.zeros(context.n_units)
    shards: dict[Any, TextShard] = {}
    for arm in arms:
        how = arm.procedure.scored, arm.procedure.trained, arm.score
        for trial in range(arm.n_trials):
            for shard in arm.walk(trial, len(alike), lambda _: alike).needed:
                shards[(*how, shard) if shard.trained or shard.off else shard] = shard
    shards |= {shard: shard for shard in importance_shards(context, arms, trials)}
    known = [
        *shards.values(),
        *dense_trials(context, trials),
        *truth_shards(context, trials),
        *null_shards(context, arms).values(),
        *[TextShard("text_cost")] * (1 + sum(len(arm.sparsities) for arm in arms)),
        *[TextShard("lens")] * (1 + (context.start is not None)),
    ]
    return sum(context.effort([shard]) for shard in known)
