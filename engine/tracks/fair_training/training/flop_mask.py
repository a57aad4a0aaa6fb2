"""A mask under a budget of FLOPs: which filters stay, and what each is charged where scores compete
for it.

A count of filters charges every filter alike, and a budget of FLOPs by what it would save: where a
filter of an early layer costs ten of a late one, its score must be as much better to stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor

from engine.surgery.filters.flop_budget import meet_target
from engine.surgery.filters.graph import FilterGraph


@dataclass(frozen=True, eq=False)
class FlopMask:
    """Masks over the filters of `graph` that leave `share` of its FLOPs."""

    graph: FilterGraph
    share: float

    @cached_property
    def goal(self) -> float:
        """FLOPs of one image."""
        return self.share * self.graph.flops()

    def best(self, scores: np.ndarray) -> np.ndarray:
        """The filters with the highest scores [filters] that the goal has room for, [filters]
        bool."""
        return meet_target(self.graph, scores, self.goal).keep

    def price(self, keep: np.ndarray) -> np.ndarray:
        """What each filter costs beside those that stay, keep [filters] bool: FLOPs, over their
        mean, [filters].

        ∂FLOPs/∂u of `FilterGraph.flops` at u = keep.
        """
        graph = self.graph
        into, out = (
            side @ keep + fixed
            for side, fixed in ((graph.inputs, graph.fixed_in), (graph.outputs, graph.fixed_out))
        )
        found = (graph.price * out) @ graph.inputs + (graph.price * into) @ graph.outputs
        return found / found.mean()


def on_priced_budget(scores: Tensor, price: np.ndarray, budget: float) -> Tensor:
    """The point nearest to scores [units] from 0 to 1 each, with Σ price · m = budget: clip(scores
    − c price, 0, 1).

    price [units] above 0; budget from 0 to their sum.
    """
    values = scores.double().cpu().numpy()

    def over(c: float) -> float:
        return float(price @ np.clip(values - c * price, 0.0, 1.0)) - budget

    low, high = float(((values - 1.0) / price).min()), float((values / price).max())
    c = brentq(over, low - 1e-9, high + 1e-9)
    return torch.as_tensor(
        np.clip(values - c * price, 0.0, 1.0), dtype=scores.dtype, device=scores.device
    )
