"""From scores to the units that are cut: the first k heads, or the filters that meet a target.

Filters are kept from the highest score down as long as the target of FLOPs allows; at least the
best one of every group stays. Filters differ in cost, so this ends short of the target by up to one
filter's FLOPs. A few near the threshold are then exchanged until the target is met within 0.1 %, or
no exchange comes nearer. The order of scores is disturbed as little as possible.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial.distance import pdist, squareform

if TYPE_CHECKING:  # these load torch; stating what to do must not
    from engine.surgery.filters.reading import FilterGraph


def best(
    scores: np.ndarray, k: int, *, highest: bool, excluded: Iterable[int] = ()
) -> tuple[int, ...]:
    """Units of the k highest (or lowest) scores outside `excluded`, ascending. scores: [units]
    float.

    Raises ValueError where a score is NaN or too few units are left: a selection of the wrong size
    would be silent.
    """
    scores = np.asarray(scores, dtype=float)
    if np.isnan(scores).any():
        raise ValueError("a head has no score; rank only complete tables")
    out = set(excluded)
    allowed = [
        unit
        for unit in np.argsort(-scores if highest else scores, kind="stable").tolist()
        if unit not in out
    ]
    if len(allowed) < k:
        raise ValueError(f"{k} heads asked for, {len(allowed)} may be cut")
    return tuple(sorted(allowed[:k]))


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
    # The first filter of each group, [groups] int, among `order` [filters], units from the
    # best down.
    _, first = np.unique(graph.group_of[order], return_index=True)
    best = order[np.sort(first)]
    order = np.concatenate([best, order[~np.isin(order, best)]])
    count = _largest_within(graph, order, len(best), target)
    keep = np.zeros(graph.total, dtype=bool)
    keep[order[:count]] = True
    keep = _exchanged(graph, keep, order, count, len(best), target)
    flops = graph.flops(keep)
    return Met(keep, flops, abs(flops - target) <= TOLERANCE * target)


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
    # FLOPs are a product of two sums, so two toggles are exact with one cross term.
    cross = weighted.T @ d_out
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


# Ranks within a layer, so that scores whose scale differs between layers can be compared.


def shares_within(graph: FilterGraph, scores: np.ndarray) -> np.ndarray:
    """Scores [units] as ranks within their group, [units] in (0, 1]: every group loses a similar
    share of filters."""
    found = np.empty(graph.total)
    for group in graph.groups:
        span = slice(group.start, group.start + group.width)
        order = np.lexsort((-np.arange(group.width), scores[span]))
        ranks = np.empty(group.width)
        ranks[order] = np.arange(1, group.width + 1) / group.width
        found[span] = ranks
    return found


def median_ranks(model: Any, graph: FilterGraph) -> np.ndarray:
    """How far each filter is from the others of its layer, as ranks within the layer: [units] in
    (0, 1]."""
    from engine.surgery.filters.graph import rows_of

    scores = np.zeros(graph.total)
    for group in graph.groups:
        for flat in rows_of(model, group):
            scores[group.start : group.start + group.width] += squareform(pdist(flat)).sum(axis=1)
    return shares_within(graph, scores)
