"""What a procedure is: how many heads are gone after each iteration, what is scored for it, and
what is trained.

A procedure is walked as far as finished measurements show, and names what it needs next. So it can
stop anywhere and go on from there. What two procedures share (the first importance, a mask they
both reach) is computed once.

Heads with the lowest importance go first, ties by unit. Iterations stop at every asked sparsity on
their way, so that procedures can be compared where they cut equally many heads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from engine.core.errors import RequestError, unknown
from engine.core.types import exact_count
from engine.surgery.ranking import best
from engine.tracks.text_classifiers.context import TextShard

Scored = Literal["first", "masked", "retrained"]
Trained = Literal["never", "asked", "every"]


class World(Protocol):
    """What a procedure sees of an audit, for one score in one trial."""

    @property
    def score(self) -> str: ...
    @property
    def trial(self) -> int: ...
    @property
    def total(self) -> int: ...
    @property
    def sparsities(self) -> tuple[float, ...]: ...
    @property
    def step(self) -> float: ...
    def values(self, shard: TextShard) -> np.ndarray | None:
        """Importance of every head, [units] float, NaN for heads that are gone; None while it is
        not finished."""
        ...


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
    """One way to find a subnetwork. Each is a row of `ROWS`."""

    name: str
    place: int
    """Place in lists: the cheapest first."""
    scored: Scored
    """first: once, on the full model; masked: in every round, the heads so far masked; retrained:
    in every round, on the model that was fine-tuned without them."""
    trained: Trained
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

    def walk(self, world: World) -> Walk:
        """Thesis, Algorithms 6.1 and 6.2, as far as finished measurements show. Until the largest
        asked sparsity:

        1. Score the heads that are left, I_h (`scored` says on which model).
        2. Cut those with the lowest I_h, as many as `counts` says.
        3. Fine-tune the pre-trained weights without them, where `trained` says so (Algorithm 6.2,
           line 7).
        """
        asked = sorted(exact_count(share, world.total) for share in world.sparsities)
        counts = self.counts(world.total, asked, world.step)
        reached = _reached(world, counts)
        found: list[Iteration] = []
        needed: list[TextShard] = []
        cut: tuple[int, ...] = ()
        for number, count in enumerate(counts, 1):
            scored = self._scored(world, cut)
            needed.append(scored)
            values = world.values(scored)
            if values is None:
                return Walk(tuple(found), tuple(needed), False)
            known = np.where(
                np.isin(np.arange(world.total), cut), 0.0, values
            )  # what is gone needs no score
            newly = best(known, count - len(cut), highest=False, excluded=cut)
            everything = tuple(sorted((*cut, *newly)))
            answers = self._answers(world, everything, count in reached)
            needed += [] if answers is None else [answers]
            found.append(
                Iteration(
                    number,
                    newly,
                    everything,
                    scored,
                    values,
                    answers,
                    reached.get(count, ()),
                    self.trains(count in reached),
                )
            )
            cut = everything
        return Walk(tuple(found), tuple(needed), True)

    def _scored(self, world: World, cut: tuple[int, ...]) -> TextShard:
        trained = cut if self.scored == "retrained" else ()
        off = cut if self.scored == "masked" else ()
        return TextShard("importance", trained, off, world.score, world.trial)

    def trains(self, is_asked: bool) -> bool:
        """Whether a round fine-tunes; is_asked: it reaches an asked sparsity."""
        return self.trained == "every" or (self.trained == "asked" and is_asked)

    def _answers(self, world: World, cut: tuple[int, ...], is_asked: bool) -> TextShard | None:
        if self.trains(is_asked):
            return TextShard("tuned", cut, trial=world.trial)
        return None if self.retrains else TextShard("silenced", off=cut, trial=world.trial)


def _reached(world: World, counts: Sequence[int]) -> dict[int, tuple[float, ...]]:
    """Heads gone after a round -> the asked sparsities that this round is the first to reach."""
    found: dict[int, tuple[float, ...]] = {}
    for share in sorted(world.sparsities):
        first = next(count for count in counts if count >= exact_count(share, world.total))
        found[first] = (*found.get(first, ()), share)
    return found


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
    Procedure("once", place=0, scored="first", trained="never", counts=at_asked),
    # Thesis, Algorithm 6.1: score again in every round with the heads so far masked; mask a share
    # of the initial heads.
    Procedure("alg61", place=1, scored="masked", trained="never", counts=of_initial),
    # The masks of `once`, cut from the pre-trained weights, which are then fine-tuned (thesis, Sec.
    # 6.6.1).
    Procedure("one-shot-isp", place=2, scored="first", trained="asked", counts=at_asked),
    # The masks of `alg61`, cut from the pre-trained weights, which are fine-tuned at the end
    # (thesis, Sec. 6.5.1).
    Procedure("igspf", place=3, scored="masked", trained="asked", counts=of_initial),
    # As Algorithm 6.1, but every round cuts the pre-trained weights, fine-tunes them and scores the
    # result.
    Procedure("igspp", place=4, scored="retrained", trained="every", counts=of_initial),
    # Thesis, Algorithm 6.2: every round takes a share of the heads left and fine-tunes the
    # pre-trained weights.
    Procedure("isp", place=5, scored="retrained", trained="every", counts=of_remaining),
    # The same as printed, without a stop at every asked sparsity: the first round that reaches one
    # answers for it.
    Procedure(
        "isp-strict", place=6, scored="retrained", trained="every", counts=of_remaining_strictly
    ),
)

_BY_NAME = {one.name: one for one in sorted(ROWS, key=lambda one: one.place)}


def procedures() -> Mapping[str, Procedure]:
    """Every procedure there is, by name, the cheapest first."""
    return _BY_NAME


def procedure_named(name: str) -> Procedure:
    """One procedure; unknown names raise RequestError and list the known ones."""
    if name not in _BY_NAME:
        raise RequestError(unknown("procedure", name, _BY_NAME))
    return _BY_NAME[name]
