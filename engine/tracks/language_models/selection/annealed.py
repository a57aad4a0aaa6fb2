"""Simulated annealing (Kirkpatrick et al. 1983) over sets of heads, from FASP's set.

What FASP minimises is a sum of single effects, which its greedy choice minimises exactly. A bias is
no such sum: two heads that lower the same subgroup may carry it past the mean.
"""

from __future__ import annotations

import numpy as np

from engine.core.errors import Fault
from engine.core.types import rng
from engine.tracks.language_models.selection.base import Ballot, SelectionMethod, selection_method

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
