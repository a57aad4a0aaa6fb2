"""FASP, what it is compared with (the best heads by one score, heads drawn at random), and a search
that begins with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.core.errors import Fault
from engine.core.types import rng
from engine.surgery.ranking import best
from engine.tracks.language_models.scores import score_methods
from engine.tracks.language_models.selection import Ballot, SelectionMethod, selection_method


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


# Simulated annealing (Kirkpatrick et al. 1983) over sets of heads, from FASP's set.
#
# What FASP minimises is a sum of single effects, which its greedy choice minimises exactly. A bias
# is no such sum: two heads that lower the same subgroup may carry it past the mean.


CHAINS, STEPS = 100, 100
"""Searches side by side, and exchanges of two heads that each tries: 10,000 sets."""
HOT, COLD = 0.5, 0.005
"""Temperatures from first to last, in mean effects of a head on bias."""


class Annealed(SelectionMethod):
    """The set with the lowest predicted bias among as many heads as FASP cuts at the same γ.

    A set's bias is predicted from the changes of subgroup means, added over its heads. Predicted
    perplexity is a bound: the sum of z_ppl may not be lower than that of FASP's set. Where no set
    found is better, or changes of subgroup means are not known, FASP's stays.
    """

    name = "annealed"
    needs = ("z_bias", "z_ppl")
    per_axis = True
    uses_gamma = True
    needs_support = True
    version = 2

    def faults(self, reading: str) -> list[Fault]:
        if reading != "paired_prompts":
            return []
        what = f"{self.name} predicts bias from subgroup means; paired_prompts is none of these."
        return [Fault("methods", what, "Leave the method out, or ask for another reading.")]

    def select(self, ballot: Ballot) -> tuple[int, ...]:
        first, effects = selection_method("fasp").select(ballot), ballot.effects
        free = np.setdiff1d(np.arange(ballot.total), ballot.critical)
        k = len(first)
        if effects is None or not 0 < k < len(free):
            return first
        draw, z_ppl = rng(self.name, ballot.total, k, len(free)), ballot.scores["z_ppl"]
        floor = z_ppl[list(first)].sum() - 1e-12
        # every chain: its set, then the heads that may come in
        order = np.concatenate([first, np.setdiff1d(free, first)]).astype(int)
        order, chain = np.tile(order, (CHAINS, 1)), np.arange(CHAINS)
        change, text = effects.change[order[:, :k]].sum(axis=1), z_ppl[order[:, :k]].sum(axis=1)
        value = effects.bias(change)
        best, least = first, value[0] - 1e-9
        unit = np.abs(ballot.scores["z_bias"][free]).mean()
        for heat in np.geomspace(HOT, COLD, STEPS) * unit:
            out, place = draw.integers(0, k, CHAINS), draw.integers(k, len(free), CHAINS)
            gone, new = order[chain, out], order[chain, place]
            moved = change + effects.change[new] - effects.change[gone]
            costs, tried = text + z_ppl[new] - z_ppl[gone], effects.bias(moved)
            luck = np.exp(-np.maximum(tried - value, 0.0) / max(heat, 1e-12))
            taken = (costs >= floor) & (draw.random(CHAINS) < luck)
            order[chain[taken], out[taken]] = new[taken]
            order[chain[taken], place[taken]] = gone[taken]
            change[taken], text[taken], value[taken] = moved[taken], costs[taken], tried[taken]
            if value[at := value.argmin()] < least:
                best, least = tuple(sorted(order[at, :k].tolist())), value[at]
        return best


ROWS = (
    Fasp(),
    Annealed(),
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
