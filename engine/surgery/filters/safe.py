"""Which groups of filters may be cut: those where cutting and silencing give the same answers,
tried on the model.

Torch-Pruning's graph follows most of what networks do, not all: channels in another order, for
example. What it reads wrongly shows as another answer of the cut model, or as a cut that cannot
run. Weights are drawn for it, so that no layer is zero by accident and the answer depends on the
model's shape only; it is found once per shape.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engine.core.ids import rng
from engine.models.load_image_classifier import Classifier
from engine.models.runtime import is_out_of_memory
from engine.surgery.agreement import Twice, doubled, judged
from engine.surgery.filters.gates import gated
from engine.surgery.filters.heads import cut_heads
from engine.surgery.filters.reading import (
    FilterGraph,
    candidate_graph,
    dependency_graph,
    some_of_group,
)

SHARE = 0.7
"""Of the filters of every group that stay in the cut that is tried."""
RELATIVE = 1e-6
"""Largest difference of a logit in float64, as a share of the largest one."""
_found: dict[Any, frozenset[str]] = {}
_heads: dict[Any, bool] = {}


def unsafe_roots(classifier: Classifier) -> frozenset[str]:
    """Roots of the groups that must be left whole, for this model's shape."""
    shapes = tuple((name, tuple(one.shape)) for name, one in classifier.model.state_dict().items())
    key = (type(classifier.model), classifier.arch, classifier.size, hash(shapes))
    if key not in _found:
        _found[key] = _tried(
            replace(classifier, model=_drawn(classifier.model), device=torch.device("cpu"))
        )
    return _found[key]


def heads_can_be_cut(classifier: Classifier, graph: FilterGraph) -> bool:
    """Whether the model without the last head of every layer answers as with them silent. Something
    else may count
    heads: biases by relative position, windows (Swin, BEiT). Found once per shape."""
    key = (type(classifier.model), classifier.arch, classifier.size, graph.widths)
    if key not in _heads:
        _heads[key] = _heads_agree(classifier, graph)
    return _heads[key]


def _heads_agree(classifier: Classifier, graph: FilterGraph) -> bool:
    try:
        own = _masked_and_cut(classifier, graph)
        return judged(
            own,
            torch.float32,
            lambda: _masked_and_cut(doubled(classifier), graph),
            lambda: float((_masked_and_cut(classifier, graph, 2)[0][:1] - own[0]).abs().max()),
        ).holds
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        if is_out_of_memory(error):
            raise
        return False


def _masked_and_cut(classifier: Classifier, graph: FilterGraph, count: int = 1) -> Twice:
    """Logits of one image, `count` times, with the last head of every layer silent, and without
    it."""
    keep = torch.ones(graph.total, device=classifier.device)
    small = copy.deepcopy(classifier.model)
    for one, group in zip(classifier.architecture.attentions(small), graph.groups, strict=True):
        if group.width > 1:
            keep[group.start + group.width - 1] = 0.0
            cut_heads(small, one, [group.width - 1])
    side, like = classifier.size, next(classifier.model.parameters())
    image = torch.as_tensor(
        rng("images tried").standard_normal((1, 3, side, side)), dtype=torch.float32
    )
    images = image.to(like).repeat(count, 1, 1, 1)
    with torch.no_grad():
        with gated(classifier.model, graph, keep):
            masked = classifier.model(images)
        return masked.double(), small(images).double()


def _tried(classifier: Classifier) -> frozenset[str]:
    """All groups at once; where that fails, halves, until the faulty ones stand alone."""
    graph = candidate_graph(classifier)
    keep = rng("filters tried").random(graph.total) < SHARE
    for group in graph.groups:
        keep[[group.start, group.start + group.width - 1]] = True, False
        keep[group.start] = True  # of a single filter nothing can be cut
    good: list[str] = []
    bad: list[str] = []
    waiting = [[group.root for group in graph.groups]]
    while waiting:
        some = waiting.pop()
        if _agrees(classifier, graph, keep, {*good, *some}):
            good += some
        elif len(some) == 1:
            bad += some
        else:
            waiting += [some[len(some) // 2 :], some[: len(some) // 2]]
    return frozenset(bad)


def _agrees(classifier: Classifier, graph: FilterGraph, keep: np.ndarray, roots: set[str]) -> bool:
    """Whether the model without the filters that `keep` [units] bool drops from these groups
    answers as the masked."""
    gates = np.ones(graph.total)
    for group in graph.groups:
        if group.root in roots:
            gates[group.start : group.start + group.width] = keep[
                group.start : group.start + group.width
            ]
    side = classifier.size
    images = torch.as_tensor(rng("images tried").standard_normal((2, 3, side, side)))
    small = copy.deepcopy(classifier.model)
    with torch.no_grad(), gated(classifier.model, graph, torch.as_tensor(gates)):
        masked = classifier.model(images)
    try:
        found = dependency_graph(small, classifier)
        for group in graph.groups:
            gone = np.flatnonzero(gates[group.start : group.start + group.width] == 0).tolist()
            if gone:
                some_of_group(found, small.get_submodule(group.root), gone).prune()
        with torch.no_grad():
            cut = small(images)
    except (
        Exception
    ):  # Torch-Pruning and the cut model raise whatever shapes that do not fit make them raise
        return False
    return bool(cut.isfinite().all()) and float((masked - cut).abs().max()) <= RELATIVE * float(
        masked.abs().max()
    )


def _drawn(model: nn.Module) -> nn.Module:
    """A copy in float64 whose parameters and running statistics are drawn anew, none of them
    zero."""
    other = copy.deepcopy(model).cpu().double().eval()
    draw = torch.Generator().manual_seed(0)
    for module in other.modules():
        for name, value in [
            *module.named_parameters(recurse=False),
            *module.named_buffers(recurse=False),
        ]:
            if value.is_floating_point():
                value.data = _numbers(name, value, draw)
    return other.requires_grad_(False)


def _numbers(name: str, like: Tensor, draw: torch.Generator) -> Tensor:
    """Numbers for a parameter or buffer: weights of a layer as wide as their inputs ask, scales
    around 1, else ±0.5."""
    if like.dim() > 1 and name == "weight":
        return torch.randn(like.shape, generator=draw).double() * (2.0 / like[0].numel()) ** 0.5
    drawn = torch.rand(like.shape, generator=draw).double()
    return drawn + 0.5 if name in ("running_var", "weight") else drawn - 0.5
