"""A model whose parameters are multiplied by a mask, z = m * theta, with the gradient of every
factor at hand.

A *unit* is what one entry of the mask switches: a filter, or a single weight. Of a filter these are
all parameters of the modules that first carry its channel, after its batch norm. There m * BN(x) is
BN with m * gamma and m * beta. The latent parameters theta are kept where m is 0 (no gradient
reaches them, weight decay does), so a unit that was switched off can come back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor, nn
from torch.func import functional_call

from engine.core.errors import refusal
from engine.core.types import Values
from engine.surgery.filters.graph import FilterGraph, gated
from engine.surgery.filters.reading import COUNTED
from engine.surgery.ranking import meet_target

SAMPLE = 2**16
"""Scores by which it is told where the least of those that stay lies."""


@dataclass(frozen=True, eq=False)
class Part:
    """One masked parameter.

    units: the unit of each entry along its first dimension, [entries] int64; None: one unit per
    entry, the flat units from `start` on.
    """

    name: str
    start: int = 0
    units: Tensor | None = None

    def spread(self, mask: Tensor, value: Tensor) -> Tensor:
        """The mask [units] in a shape that multiplies the parameter `value`."""
        if self.units is None:
            return mask[self.start : self.start + value.numel()].view(value.shape)
        return mask[self.units].view(-1, *[1] * (value.dim() - 1))

    def place(self, found: Tensor, value: Tensor) -> Tensor | None:
        """Where in found [units] a quantity in the shape of `value` belongs, as a view in that
        shape; None where units have several entries, whose sum it is."""
        return None if self.units is not None else self.spread(found, value)

    def gather(self, found: Tensor, each: Tensor) -> None:
        """Add `each`, a quantity in the parameter's shape, to the sums of its units in found
        [units], in place."""
        if self.units is None:
            found[self.start : self.start + each.numel()] += each.reshape(-1)
        else:
            found.index_add_(0, self.units, each.reshape(len(self.units), -1).sum(dim=1))


@dataclass(eq=False)
class Masked:
    """`blocks`: the block (group of filters, or tensor of weights) of each unit [units]; one unit
    of each stays.

    `bare`: groups whose channels pass a module without parameters, which is gated by a hook
    instead.
    """

    model: nn.Module
    parts: Sequence[Part]
    blocks: np.ndarray
    bare: FilterGraph | None = None
    _mask: Tensor | None = field(default=None, repr=False)

    @property
    def total(self) -> int:
        """Units."""
        return len(self.blocks)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def forward(
        self, inputs: Any, mask: Tensor | None, leaves: bool = False
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Logits [batch, classes] under the mask [units], and z of every masked parameter by name;
        None: no mask.

        leaves: the gradient ends at z, which spares the products behind it; only `bare` groups pass
        it to the mask.
        """
        if mask is None or not len(self.parts):
            return self.model(inputs), {}
        held = dict(self.model.named_parameters())
        with torch.set_grad_enabled(torch.is_grad_enabled() and not leaves):
            masked = {
                part.name: held[part.name] * part.spread(mask, held[part.name])
                for part in self.parts
            }
        if leaves:
            masked = {name: z.requires_grad_(True) for name, z in masked.items()}
        with self._gating(mask):
            return functional_call(self.model, masked, (inputs,)), masked

    @contextlib.contextmanager
    def baked(self, mask: Tensor | None) -> Iterator[nn.Module]:
        """The model with the mask [units] multiplied into its parameters, in eval mode; all as
        before afterwards."""
        if mask is None or not len(self.parts):
            with _evaluating(self.model):
                yield self.model
            return
        held = dict(self.model.named_parameters())
        latent = {part.name: held[part.name].detach().clone() for part in self.parts}
        with torch.no_grad():
            for part in self.parts:
                held[part.name].mul_(part.spread(mask, held[part.name]))
        try:
            with self._gating(mask), _evaluating(self.model):
                yield self.model
        finally:
            with torch.no_grad():
                for part in self.parts:
                    held[part.name].copy_(latent[part.name])

    def sums(self, each: dict[str, Tensor]) -> Tensor:
        """A quantity of every masked entry, by parameter, summed over each unit: [units]."""
        found = torch.zeros(self.total, device=self.device)
        for part in self.parts:
            part.gather(found, each[part.name])
        return found

    @cached_property
    def starts(self) -> np.ndarray | None:
        """Where each block begins, where all of a block's units lie side by side; else None."""
        starts = np.flatnonzero(np.diff(self.blocks, prepend=-1))
        return starts if len(starts) == len(np.unique(self.blocks[starts])) else None

    def flat(self) -> Tensor:
        """The latent parameters' squared norm per unit, [units]."""
        held = dict(self.model.named_parameters())
        return self.sums({part.name: held[part.name].detach() ** 2 for part in self.parts})

    def _gating(self, mask: Tensor) -> contextlib.AbstractContextManager[None]:
        """Gates [units] on channels that pass a module without parameters; nothing where there are
        none."""
        return contextlib.nullcontext() if self.bare is None else gated(self.model, self.bare, mask)


def masked_filters_of(model: nn.Module, graph: FilterGraph) -> Masked:
    """Filters as units: flat units of the graph."""
    if any(group.is_heads for group in graph.groups):
        what = (
            "is a vision transformer, whose units are attention heads: fair training learns masks"
            " of filters."
        )
        raise refusal("model", what, "Give a CNN, or audit its heads as an image classifier.")
    parts, bare = [], []
    device = next(model.parameters()).device
    for group in graph.groups:
        without = []
        for name, channels in group.gated:
            module = model.get_submodule(name)
            named = [] if (channels < 0).any() else module.named_parameters(recurse=False)
            own = [key for key, value in named if len(value) == len(channels)]
            units = torch.as_tensor(group.start + channels, device=device)
            parts += [Part(f"{name}.{key}", units=units) for key in own]
            if not own:
                without.append((name, channels))
        if without:
            bare.append(replace(group, gated=tuple(without)))
    hooked = replace(graph, groups=tuple(bare)) if bare else None
    return Masked(model, parts, graph.group_of, hooked)


def masked_weights_of(model: nn.Module) -> Masked:
    """Single weights of convolutions and linear layers as units, in the order of the modules;
    biases stay."""
    parts = []
    sizes: list[int] = []
    for name, module in model.named_modules():
        if isinstance(module, COUNTED):
            parts.append(Part(f"{name}.weight", sum(sizes)))
            sizes.append(module.weight.numel())
    return Masked(model, parts, np.repeat(np.arange(len(sizes), dtype=np.int32), sizes))


def unmasked(model: nn.Module) -> Masked:
    """A model without units: there is nothing to cut."""
    return Masked(model, (), np.zeros(0, dtype=int))


def kept_of(total: int, sparsity: float) -> int:
    """How many units stay at a sparsity: the nearest whole number, at least one."""
    return max(1, int(round((1.0 - sparsity) * total)))


def best(
    scores: np.ndarray, count: int, blocks: np.ndarray, starts: np.ndarray | None = None
) -> np.ndarray:
    """True for exactly `count` units with the highest scores, one of each block at least; ties go
    to the first.

    scores [units], blocks: the block of each unit, [units] int -> [units] bool. starts: see
    `Masked.starts`. Raises ValueError where there are more blocks than units to keep.
    """
    chosen, near = _sure(scores, count)
    values, rest = scores[near], count - np.count_nonzero(chosen)
    least = np.partition(values, len(values) - rest)[len(values) - rest]
    chosen[near[values > least]] = True
    chosen[near[values == least][: count - np.count_nonzero(chosen)]] = True
    if starts is None:
        met = np.bincount(blocks[chosen], minlength=int(blocks.max()) + 1)
    else:
        met = np.array([part.any() for part in np.split(chosen, starts[1:])])
    return chosen if met.all() else _one_of_each(scores, count, blocks)


def _sure(scores: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """True for scores [n] that are among the `count` highest whatever the others are, fewer than
    `count` [n] bool; and the places among which the others are, ascending. Of many only those are
    in question that lie near the least of the highest by a sample."""
    if len(scores) > 4 * SAMPLE:
        sample = np.sort(scores[:: len(scores) // SAMPLE])
        place, off = len(sample) * (1 - count / len(scores)), 4 * len(sample) ** 0.5
        low, high = sample[max(0, int(place - off))], sample[min(len(sample) - 1, int(place + off))]
        above = scores > high
        near = np.flatnonzero((scores >= low) & ~above)
        if 1 <= count - np.count_nonzero(above) <= len(near):
            return above, near
    return np.zeros(len(scores), dtype=bool), np.arange(len(scores))


def _one_of_each(scores: np.ndarray, count: int, blocks: np.ndarray) -> np.ndarray:
    """The best of every block first, then the best of the rest; shapes as in `best`."""
    order = np.lexsort((np.arange(len(scores)), -scores))
    _, firsts = np.unique(blocks[order], return_index=True)
    if len(firsts) > count:
        raise ValueError(f"{count} units cannot leave one in each of {len(firsts)} layers")
    chosen = np.zeros(len(scores), dtype=bool)
    chosen[order[firsts]] = True
    rest = order[~chosen[order]][: count - len(firsts)]
    chosen[rest] = True
    return chosen


@contextlib.contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


# How mask scores move: momentum, one scale for all scores, and projection on the budget.
#
# v <- mean over units of g^2, fading. m <- P(m - rate * momentum / sqrt(v)). P: on {0 <= m <= 1,
# sum m = k}.
#
# Adam would scale every score by its own gradient and so forget which unit matters more. All
# scores whose gradient has the right sign rise alike until they meet at 1 and ties decide the
# mask (docs/LOG.md). The sum is the number of units that stay, so a score can only rise where
# others fall.


FADES = 0.9, 0.99
"""Factors by which the momentum and the scale fade."""
STEPS, CLOSE = 30, 1e-7
"""Newton's steps at most, and the share by which the sum may be off at the end."""
BLOCK = 2**15
"""Scores that are worked on at a time: what torch still leaves to one core, whose threads would
wait for each other at every block. A multiple of what a processor takes at once, so no digit
depends on it."""


@dataclass(eq=False)
class MaskOptimizer:
    """`scores` [units] in [0, 1] are changed in place; `count` of the units stay. The first step is
    taken from where the scores are, on the budget or not."""

    scores: Tensor
    count: int

    def __post_init__(self) -> None:
        self.momentum, self.scale, self.steps = torch.zeros_like(self.scores), 0.0, 0

    def step(
        self, gradient: Tensor, rate: float, price: np.ndarray | None = None, budget: float = 0.0
    ) -> None:
        """One step against the gradient [units]; price [units]: then Σ price · m stays at the
        budget, not Σ m."""
        self.steps += 1
        square = _squared(gradient) / max(1, len(gradient))
        self.scale = FADES[1] * self.scale + (1 - FADES[1]) * square
        scale = (self.scale / (1 - FADES[1] ** self.steps)) ** 0.5 + 1e-12
        self._move(gradient, rate / (1 - FADES[0] ** self.steps) / scale)
        if price is None:
            put_on_budget(self.scores, self.count)
        else:
            self.scores.copy_(on_priced_budget(self.scores, price, budget))

    def _move(self, gradient: Tensor, rate: float) -> None:
        """Momentum and scores, block by block."""
        for momentum, new, scores in _blocks(self.momentum, gradient, self.scores):
            scores.add_(momentum.mul_(FADES[0]).add_(new, alpha=1 - FADES[0]), alpha=-rate)

    def state(self) -> Values:
        """Tensors and plain numbers, to go on from."""
        return {
            "scores": self.scores.clone(),
            "momentum": self.momentum.clone(),
            "scale": self.scale,
            "steps": self.steps,
        }

    def restore(self, state: Values) -> None:
        """The inverse of `state`."""
        self.scores.copy_(state["scores"])
        self.momentum.copy_(state["momentum"])
        self.scale, self.steps = state["scale"], state["steps"]


def put_on_budget(scores: Tensor, count: int) -> None:
    """Scores [units], in place, to the nearest point with all of them from 0 to 1 and a sum of
    `count`: clip(scores - c).

    The sum is piecewise linear in c, so c is found by Newton's steps, halved where one leaves the
    bracket.
    """
    least, most = scores.aminmax()
    low, high = float(least) - 1.0, float(most)
    middle = min(max(0.0, low), high)
    for _ in range(STEPS):
        whole, free = _clipped(scores, middle)
        over = whole - count
        if abs(over) <= CLOSE * count:
            break
        low, high = (middle, high) if over > 0 else (low, middle)
        middle = middle + over / free if free else (low + high) / 2
        if not low < middle < high:
            middle = (low + high) / 2
    for (part,) in _blocks(scores):
        part.sub_(middle).clamp_(0.0, 1.0)


def _clipped(scores: Tensor, middle: float) -> tuple[float, float]:
    """The sum of clip(scores - middle), added up in double precision, and how many are neither 0
    nor 1."""
    whole = free = 0.0
    narrow, wide = _rooms(scores)
    for (part,) in _blocks(scores):
        clipped = torch.sub(part, middle, out=narrow[: len(part)]).clamp_(0.0, 1.0)
        whole += float(wide[: len(part)].copy_(clipped).sum())
        free += float(
            clipped.frac_().ceil_().sum()
        )  # a block has fewer scores than single precision counts
    return whole, free


def _squared(gradient: Tensor) -> float:
    """The sum of squares, added up in double precision."""
    wide = _rooms(gradient)[1]
    return sum(
        float(wide[: len(part)].copy_(part).square_().sum()) for (part,) in _blocks(gradient)
    )


def _rooms(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Room for a block, in single and in double precision: taken once for all blocks, for fresh
    pages cost more than sums."""
    size = min(_size(tensor), max(1, len(tensor)))
    narrow, wide = (
        torch.empty(size, dtype=kind, device=tensor.device)
        for kind in (torch.float32, torch.float64)
    )
    return narrow, wide


def _size(tensor: Tensor) -> int:
    """Scores that are worked on at a time on the tensor's device."""
    return BLOCK if tensor.device.type == "cpu" else 2**24


def _blocks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Views of the same places of tensors [units], BLOCK of them at a time.

    A block stays in a core's cache from one operation to the next: at millions of scores memory is
    what costs."""
    return zip(*(tensor.split(_size(tensor)) for tensor in tensors), strict=True)


# A mask under a budget of FLOPs: which filters stay, and what each is charged where scores
# compete for it.
#
# A count of filters charges every filter alike, and a budget of FLOPs by what it would save: where
# a filter of an early layer costs ten of a late one, its score must be as much better to stay.


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
