"""Cut filters for real with Torch-Pruning, and replay a cut from its history."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from engine.core.errors import Fault, MaskError, RequestError
from engine.core.types import FilterMask
from engine.models.load_image_classifier import Classifier
from engine.surgery.agreement import Twice, doubled, judged
from engine.surgery.filters.gates import masked_filters
from engine.surgery.filters.graph import filter_graph
from engine.surgery.filters.heads import cut_heads
from engine.surgery.filters.reading import FilterGraph, dependency_graph, some_of_group, width_of

History = list[list[Any]]
"""Torch-Pruning's pruning history: [module, is it an output pruning, indices], JSON-able, replayed
in order."""


@dataclass(frozen=True)
class FilterAgreement:
    """Masked against cut on the same images: logits, and whether every predicted class is the same.

    exact: the largest difference of a logit where both are computed in float64, None where they
    cannot.
    """

    max_logit_difference: float
    tolerance: float
    same_classes: bool
    holds: bool
    images: int
    exact: float | None = None


def cut_filters(classifier: Classifier, mask: FilterMask) -> tuple[Classifier, History]:
    """A smaller classifier of its own, and the history that replays the cut. The given one stays as
    it is."""
    if mask.cut and (
        wrong := [group for group, width in mask.widths if _width(classifier.model, group) != width]
    ):
        raise MaskError(f"The mask is for other filters than the model has, first in {wrong[0]}.")
    model = copy.deepcopy(classifier.model)
    if mask.cut and classifier.architecture.has_heads:
        history = [[group, True, list(map(int, indices))] for group, indices in mask.cut]
        _cut_heads(classifier, model, history)
    elif mask.cut:
        graph = dependency_graph(model, classifier)
        for group, indices in mask.cut:
            some_of_group(graph, model.get_submodule(group), list(indices)).prune()
        history = [
            [name, bool(out), [int(index) for index in indices]]
            for name, out, indices in graph.pruning_history()
        ]
    else:
        history = []
    return replace(classifier, model=_settled(model), cut=mask), history


def replayed(classifier: Classifier, history: History, mask: FilterMask) -> Classifier:
    """The classifier cut as its history says. RequestError for a history that does not fit the
    model."""
    model = copy.deepcopy(classifier.model)
    if history:
        try:
            graph = (
                None if classifier.architecture.has_heads else dependency_graph(model, classifier)
            )
            _must_be_there(model, history)
            if graph is None:
                _cut_heads(classifier, model, history)
            else:
                graph.load_pruning_history(copy.deepcopy(history))
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError, KeyError) as error:
            raise _misfit(classifier, f"{type(error).__name__}: {error}") from error
    for group, _, kept in widths_after(mask):
        if _width(model, group) != kept:
            raise _misfit(
                classifier,
                f"it leaves {_width(model, group)} filters of {group}, its groups say {kept}",
            )
    if mask.widths != filter_graph(classifier).widths:
        raise _misfit(classifier, "its groups are not those of the model")
    return replace(classifier, model=_settled(model), cut=mask)


def _cut_heads(classifier: Classifier, model: Any, history: History) -> None:
    """Take heads out of `model`, in place. KeyError for a layer that is none of its attention
    layers."""
    layers = {one.name: one for one in classifier.architecture.attentions(model)}
    for name, _, heads in history:
        cut_heads(model, layers[name], heads)


def _must_be_there(model: Any, history: History) -> None:
    """IndexError for a step that names filters its layer does not have, or all it has."""
    for name, _, indices in history:
        width = _width(model, name)
        if not all(0 <= index < width for index in indices) or len(set(indices)) >= width:
            raise IndexError(f"{name} has {width} filters")


def _width(model: Any, name: str) -> int:
    """Outputs of a layer of the model; -1 for one that has none."""
    return width_of(model.get_submodule(name))


def _misfit(classifier: Classifier, why: str) -> RequestError:
    what = f"does not fit {classifier.name} ({why})."
    return RequestError(Fault("pruning history", what, "Give the mask as exported."))


def _settled(model: Any) -> Any:
    """In eval mode, without gradients; parameters share no memory with the old ones and are
    contiguous.

    Why they must be: see Classifier.prepared.
    """
    model.eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.data = parameter.data.clone().contiguous()
        parameter.grad = None
    return model


def agree_filters(
    whole: Classifier, graph: FilterGraph, mask: FilterMask, small: Classifier, pixels: np.ndarray
) -> FilterAgreement:
    """`whole` with `mask` against `small`, which was cut from it, on uint8 images [n, H, W, 3]."""
    images = whole.prepared(pixels)

    def logits(one: Classifier, some: torch.Tensor) -> torch.Tensor:
        is_masked = one.cut is None
        with torch.no_grad(), masked_filters(one, graph, mask) if is_masked else nullcontext():
            return one.model(some).double().cpu()

    def in_float64() -> Twice:
        first, second = (
            logits(big := doubled(one), images.to(big.device).double()) for one in (whole, small)
        )
        return first, second

    def one_by_one() -> float:
        return float(
            (torch.cat([logits(whole, one) for one in images.split(1)]) - own[0]).abs().max()
        )

    own = logits(whole, images), logits(small, images)
    found = judged(own, images.dtype, in_float64, one_by_one)
    same = bool((own[0].argmax(1) == own[1].argmax(1)).all())
    return FilterAgreement(
        found.difference, found.tolerance, same, found.holds, len(pixels), found.exact
    )


def widths_after(mask: FilterMask) -> Sequence[tuple[str, int, int]]:
    """(group, filters before, filters kept) in the order of the network."""
    gone = dict(mask.cut)
    return [(group, width, width - len(gone.get(group, ()))) for group, width in mask.widths]
