"""FASP, and what it is compared with: the best heads by one score, and heads drawn at random."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.types import rng
from engine.surgery.ranking import best
from engine.tracks.language_models.scores.base import score_methods
from engine.tracks.language_models.selection.base import Ballot, SelectionMethod


@dataclass(frozen=True)
class ByScore(SelectionMethod):
    """Cut the k heads with the highest score, or the lowest; with `uses_gamma` none that is
    critical for perplexity."""

    name: str
    score: str
    highest: bool
    per_axis: bool = False
    uses_gamma: bool = False
    version: int = 1

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.score, "z_ppl") if self.uses_gamma else (self.score,)

    def select(self, ballot: Ballot) -> tuple[int, ...]:
        kept = ballot.critical if self.uses_gamma else ()
        return best(ballot.scores[self.score], ballot.k, highest=self.highest, excluded=kept)


@dataclass(frozen=True)
class AtRandom(SelectionMethod):
    """Cut k heads drawn at random; with `uses_gamma` among those that are not critical for
    perplexity."""

    name: str
    needs: tuple[str, ...] = ()
    uses_gamma: bool = False
    uses_seed: bool = True
    version: int = 1

    def select(self, ballot: Ballot) -> tuple[int, ...]:
        critical = set(ballot.critical) if self.uses_gamma else set()
        drawn = rng("random heads", ballot.seed).permutation(ballot.total).tolist()
        order = [unit for unit in drawn if unit not in critical]
        if len(order) < ballot.k:
            raise ValueError(f"{ballot.k} heads asked for, {len(order)} may be cut")
        return tuple(sorted(order[: ballot.k]))


class Fasp(SelectionMethod):
    """Protect the heads critical for perplexity, cut the most harmful others (Zayed et al. 2024,
    Algorithm 1).

    1. z_ppl(h) of every head (FASP Eq. 3).
    2. Critical heads H': the int(γ·N_h) with the lowest z_ppl (`critical_heads`), never cut.
    3. z_bias(S, h) of the others (FASP Eq. 2).
    4. Cut the int(α·N_h) of the others with the highest z_bias.
    """

    name = "fasp"
    needs = ("z_bias", "z_ppl")
    per_axis = True
    uses_gamma = True
    breaks_ties = True

    def select(self, ballot: Ballot) -> tuple[int, ...]:
        return best(ballot.scores["z_bias"], ballot.k, highest=True, excluded=ballot.critical)


ROWS = (
    Fasp(),
    # The heads that add most bias, whatever the model loses (FASP's "fairness only" baseline).
    ByScore("bias_only", "z_bias", highest=True, per_axis=True),
    # The heads perplexity misses least, whichever group pays (FASP's "performance only" baseline).
    ByScore("ppl_only", "z_ppl", highest=True),
    # What any method must beat.
    AtRandom("random"),
    # The control FASP's paper lacks: where it does as well, it is the protection (γ) that helps,
    # not the bias score.
    AtRandom("random_noncritical", needs=("z_ppl",), uses_gamma=True),
    # The heads that work on direct answers only (DiffHeads), under FASP's protection, so that only
    # the score differs.
    ByScore("diffheads", "diffheads", highest=True, uses_gamma=True),
    # Whatever else is scored, such as size of weights or sensitivity of the loss.
    *(
        ByScore(one.score, one.score, highest=one.highest_first)
        for one in score_methods()
        if one.highest_first is not None
    ),
)
