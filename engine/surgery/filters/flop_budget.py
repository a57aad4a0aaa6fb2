"""From one score per filter and a target of FLOPs to exactly which filters stay.

Filters are kept from the highest score down as long as the target allows; at least the best one of
every group stays. Filters differ in cost, so this ends short of the target by up to one filter's
FLOPs. A few filters near the threshold are then exchanged until the target is met within 0.1 %,
disturbing the order of scores as little as possible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.surgery.filters.graph import FilterGraph

TOLERANCE = 1e-3
"""Share of the target by which the FLOPs may miss it."""
NEAR = 160
"""Filters on either side of the threshold that may be exchanged."""
ROUNDS = 6


@dataclass(frozen=True)
class Met:
    """Which filters stay, keep [units] bool, their FLOPs for one image, and whether the target is
    met within the tolerance."""

    keep: np.ndarray
    flops: float
    holds: bool


def meet_target(
    graph: FilterGraph, scores: np.ndarray, target: float, alive: np.ndarray | None = None
) -> Met:
    """The filters that stay for a target in FLOPs of one image; scores [units], higher stays
    longer.

    alive: filters not cut already, [units] bool, all by default. Ties go to the lower unit. Where
    no exchange meets the target the nearest one found is returned, `holds` False.
    """
    alive = np.ones(graph.total, dtype=bool) if alive is None else np.asarray(alive, dtype=bool)
    order = np.lexsort((np.arange(graph.total), -np.asarray(scores, dtype=float)))
    order = order[alive[order]]
    best = _best_of_groups(graph, order)
    order = np.concatenate([best, order[~np.isin(order, best)]])
    count = _largest_within(graph, order, len(best), target)
    keep = np.zeros(graph.total, dtype=bool)
    keep[order[:count]] = True
    keep = _exchanged(graph, keep, order, count, len(best), target)
    flops = graph.flops(keep)
    return Met(keep, flops, abs(flops - target) <= TOLERANCE * target)


def _best_of_groups(graph: FilterGraph, order: np.ndarray) -> np.ndarray:
    """The first filter of each group, [groups] int, among `order` [filters], units from the best
    down."""
    _, first = np.unique(graph.group_of[order], return_index=True)
    return order[np.sort(first)]


def _largest_within(graph: FilterGraph, order: np.ndarray, least: int, target: float) -> int:
    """How many filters of `order` ([filters], units from the best down) fit the target, in FLOPs of
    one image.

    FLOPs grow with every filter, so bisection finds it.
    """
    low, high = least, len(order)
    while low < high:
        middle = (low + high + 1) // 2
        keep = np.zeros(graph.total)
        keep[order[:middle]] = 1.0
        low, high = (middle, high) if graph.flops(keep) <= target else (low, middle - 1)
    return low


def _exchanged(
    graph: FilterGraph, keep: np.ndarray, order: np.ndarray, count: int, fixed: int, target: float
) -> np.ndarray:
    """Toggle one or two filters near the threshold at a time while that brings the FLOPs nearer to
    the target.

    keep and the result: [units] bool; order: [filters], units from the best down, of which the
    first `count` are kept. The first `fixed` of them, the best of each group, are left alone, so no
    group is emptied.
    """
    near = order[max(fixed, count - NEAR) : count + NEAR]
    for _ in range(ROUNDS):
        gap = target - graph.flops(keep)
        if abs(gap) <= TOLERANCE * target or not len(near):
            break
        toggled = _nearest_toggle(graph, keep, near, gap, TOLERANCE * target)
        if not len(toggled):
            break
        keep = keep.copy()
        keep[toggled] = ~keep[toggled]
    return keep


def _nearest_toggle(
    graph: FilterGraph, keep: np.ndarray, near: np.ndarray, gap: float, tolerance: float
) -> np.ndarray:
    """The one or two of `near` whose toggling comes nearest to `gap`; within tolerance, those
    nearest the threshold.

    keep [units] bool, near [filters] units from the best down, gap and tolerance in FLOPs. Returns
    at most two units; none where no toggling is better than leaving all as it is.
    """
    sign = np.where(keep[near], -1.0, 1.0)
    into = keep @ graph.inputs.T + graph.fixed_in
    out = keep @ graph.outputs.T + graph.fixed_out
    d_in, d_out = graph.inputs[:, near] * sign, graph.outputs[:, near] * sign  # [layers, near]
    weighted = graph.price[:, None] * d_in
    cross = (
        weighted.T @ d_out
    )  # FLOPs are a product of two sums, so two toggles are exact with one cross term
    single = graph.price @ (d_in * out[:, None] + d_out * into[:, None]) + np.diag(cross)
    pair = single[:, None] + single + cross + cross.T
    np.fill_diagonal(pair, single)
    miss = np.abs(pair - gap)
    rank = np.abs(np.arange(len(near)) - np.sum(keep[near]))
    spread = rank[:, None] + rank
    within = miss <= tolerance
    cost = np.where(within, spread, spread.max() + 1 + miss / max(tolerance, 1e-12))
    one, two = np.unravel_index(np.argmin(cost), cost.shape)
    if miss[one, two] >= abs(gap):
        return near[:0]
    return near[[one]] if one == two else near[[one, two]]
