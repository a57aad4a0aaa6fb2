"""Multiply filters by gates for a while, leaving no trace: 0/1 to mask them, soft and
differentiable to learn them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engine.core.errors import MaskError
from engine.core.types import FilterMask
from engine.models.load_image_classifier import Classifier
from engine.surgery.filters.reading import FilterGraph

PROBE_IMAGES = 4


@contextlib.contextmanager
def gated(
    model: nn.Module, graph: FilterGraph, gates: Callable[[], Tensor] | Tensor
) -> Iterator[None]:
    """Within it every filter's output, after its batch norm, is multiplied by its gate: [units], or
    [images, units].

    A callable is asked at the start of every forward pass. Hooks are removed whatever happens.
    """
    current: dict[str, Tensor] = {}
    ask = gates if callable(gates) else lambda: gates

    def fresh(_: nn.Module, __: Any) -> None:
        current["gates"] = ask()

    handles = [model.register_forward_pre_hook(fresh)]
    try:
        for group in graph.groups:
            for name, channels in group.gated:
                how = _multiply_input if group.is_heads else _multiply
                handles.append(how(model.get_submodule(name), current, group.start, channels))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _multiply(
    module: nn.Module, current: dict[str, Tensor], start: int, channels: np.ndarray
) -> Any:
    """Hook the module: its output's channel c is multiplied by gate start + channels[c]; channels
    [channels] int.

    Channels of -1 stay as they are.
    """
    straight = np.array_equal(channels, np.arange(len(channels)))
    places, others = torch.as_tensor(start + channels), torch.as_tensor(channels < 0)
    places[others] = start

    def multiply(made_by: nn.Module, _: Any, output: Tensor) -> Tensor:
        gates = current["gates"]
        mine = (
            gates[..., start : start + len(channels)]
            if straight
            else gates[..., places.to(gates.device)]
        )
        if others.any():
            mine = mine.masked_fill(others.to(gates.device), 1.0)
        last = (1, 1, len(channels)) if isinstance(made_by, nn.Linear) else (len(channels), 1, 1)
        return output * mine.to(output.dtype).view(-1, *last)

    return module.register_forward_hook(multiply)


def _multiply_input(
    module: nn.Module, current: dict[str, Tensor], start: int, channels: np.ndarray
) -> Any:
    """Hook the module: column c of its input [images, tokens, columns] is multiplied by gate start
    + channels[c]."""
    places = torch.as_tensor(start + channels)

    def multiply(_: nn.Module, given: Any) -> Any:
        gates = current["gates"]
        mine = gates[..., places.to(gates.device)].to(given[0].dtype)
        return (given[0] * mine.view(-1, 1, len(channels)), *given[1:])

    return module.register_forward_pre_hook(multiply)


@contextlib.contextmanager
def masked_filters(classifier: Classifier, graph: FilterGraph, mask: FilterMask) -> Iterator[None]:
    """The classifier with these filters silenced. MaskError where the mask is for other groups."""
    if mask.widths != graph.widths:
        raise MaskError(
            f"The mask is for {len(mask.widths)} groups of filters that are not those of the model."
        )
    keep = torch.as_tensor(mask.keep(), dtype=torch.float32, device=classifier.device)
    with gated(classifier.model, graph, keep):
        yield


def prove_filter_mask_works(
    classifier: Classifier, graph: FilterGraph, check: Callable[[], None] = lambda: None
) -> None:
    """MaskError unless silencing all filters of any one group changes the logits of random
    images."""
    images = _probes(classifier)
    with torch.no_grad():
        dense = classifier.model(images)
        if not dense.isfinite().all():
            raise MaskError(
                f"{classifier.name} answers with numbers that are not finite: there is nothing to"
                " mask."
            )
        for group in graph.groups:
            check()
            keep = torch.ones(graph.total, device=classifier.device)
            keep[group.start : group.start + group.width] = 0.0
            with gated(classifier.model, graph, keep):
                changed = classifier.model(images)
            if torch.equal(dense, changed):
                raise MaskError(_unmoved(classifier.name, group.root, dense))


def _unmoved(name: str, root: str, dense: torch.Tensor) -> str:
    """Why the answers, dense [images, classes], stay when all of a group is silenced."""
    if torch.equal(dense, dense[:1].expand_as(dense)):
        return (
            f"{name} answers the same to every picture, so nothing that is cut can show: its last"
            " layer may be zero, or the network dead. Give a trained model."
        )
    return f"Silencing all filters of {root} changes nothing: masks do not reach the model."


def _probes(classifier: Classifier) -> torch.Tensor:
    """Random images, the same for every model, prepared for it: [PROBE_IMAGES, 3, size, size]."""
    draw = np.random.default_rng(0)
    pixels = draw.integers(
        0, 256, (PROBE_IMAGES, classifier.size, classifier.size, 3), dtype=np.uint8
    )
    return classifier.prepared(pixels)
