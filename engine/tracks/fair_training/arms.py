"""The arms of a fair training: a method at a sparsity with a λ, trained with several seeds."""

from __future__ import annotations

from dataclasses import dataclass

from engine.classifiers.tables import Repeats
from engine.tracks.fair_training.context import CORNERS, FairShard
from engine.tracks.fair_training.methods.base import NONE, WEIGHTS, fair_methods
from engine.tracks.fair_training.request import FairRequest

SPARSITY, TRADEOFF = "sparsity", "tradeoff"
"""Why an arm was trained: to be reported along the sparsities, or as a point of the trade-off over
λ."""
STRUCTURED, UNSTRUCTURED = "bifp-str", "bifp-uns"


@dataclass(frozen=True)
class FairArm(Repeats):
    """strength: 0 for methods without a fairness term. is_usual: whether λ is the request's, or
    needs to be said.

    n_draws: trainings of each seed, one for every mask that is drawn at random.
    """

    method: str
    sparsity: float
    strength: float
    n_seeds: int
    role: str = SPARSITY
    is_usual: bool = True
    n_draws: int = 1

    @property
    def units(self) -> str:
        """What it cuts."""
        return fair_methods()[self.method].units

    @property
    def pooled(self) -> str:
        """Id of the variant that stands for all seeds."""
        return f"{self.method}-{100 * self.sparsity:g}%" + (
            "" if self.is_usual else f"-l{self.strength:g}"
        )

    def number(self, shard: FairShard) -> int:
        """Number of a training in the tables: the seed, and for further draws so many seeds
        more."""
        return shard.draw * self.n_seeds + shard.seed

    def shards(self) -> list[FairShard]:
        """One training per draw and seed, by their number; those of one descent are computed
        together."""
        return [
            FairShard("trained", self.method, self.sparsity, self.strength, seed, draw)
            for draw in range(self.n_draws)
            for seed in range(self.n_seeds)
        ]

    @property
    def cost(self) -> FairShard:
        """The cost is measured on the first seed."""
        return FairShard("fair_cost", self.method, self.sparsity, self.strength, 0)


def arms_of(request: FairRequest) -> list[FairArm]:
    """The arms in the order they were asked for, those of the trade-off that are not among them
    last."""
    found = []
    for name in request.methods:
        method, draws = fair_methods()[name], draws_of(request, name)
        for sparsity in (0.0,) if method.units == NONE else request.sparsities:
            strength = request.strength if method.fair else 0.0
            found.append(FairArm(name, sparsity, strength, request.seeds, n_draws=draws))
    there = {(arm.method, arm.sparsity, arm.strength) for arm in found}
    for name in request.tradeoff_methods if request.tradeoff_strengths else ():
        fair = fair_methods()[name].fair
        for strength in request.tradeoff_strengths if fair else (0.0,):
            if (name, request.tradeoff_sparsity, strength) not in there:
                usual = not fair or strength == request.strength
                place = name, request.tradeoff_sparsity, strength
                found.append(
                    FairArm(*place, request.seeds, TRADEOFF, usual, draws_of(request, name))
                )
    return found


def draws_of(request: FairRequest, name: str) -> int:
    """Trainings of each seed of a method."""
    return fair_methods()[name].draws(request.method_settings.get(name, {}))


def tradeoff_arms(request: FairRequest, arms: list[FairArm]) -> list[FairArm]:
    """The points of the trade-off: every λ at which its methods were trained at its sparsity; none
    without a sweep."""
    if not request.tradeoff_strengths:
        return []
    methods = request.tradeoff_methods
    return [
        arm for arm in arms if arm.method in methods and arm.sparsity == request.tradeoff_sparsity
    ]


def compared(arms: list[FairArm]) -> list[tuple[FairArm, FairArm]]:
    """(arm, base): every arm with BiFP-str at its sparsity, those of weights with BiFP-uns too."""
    bases = {(arm.method, arm.sparsity): arm for arm in arms if arm.role == SPARSITY}
    found = []
    for name in (STRUCTURED, UNSTRUCTURED):
        for arm in bases.values():
            base = bases.get((name, arm.sparsity))
            fits = name == STRUCTURED or arm.units == WEIGHTS
            if base is not None and fits and arm is not base:
                found.append((arm, base))
    return found


def surface_shards(request: FairRequest) -> list[FairShard]:
    """The surface, then the paths to every ablation; none where they were not asked for."""
    if not request.surface:
        return []
    others = [*CORNERS[1:], *(name for name in request.methods if name == f"{STRUCTURED}-no-both")]
    wanted = [("surface", CORNERS[0]), *(("path", name) for name in others)]
    return [
        FairShard(kind, name, request.surface_sparsity, request.strength) for kind, name in wanted
    ]
