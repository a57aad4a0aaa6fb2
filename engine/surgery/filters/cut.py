"""Cut filters for real with Torch-Pruning, and replay a cut from its history."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from engine.core.errors import MaskError, RequestError, refusal
from engine.core.types import FilterMask
from engine.models.load_image_classifier import Classifier, state_hash
from engine.surgery.agreement import Twice, doubled, judged
from engine.surgery.filters.graph import filter_graph, masked_filters
from engine.surgery.filters.heads import cut_heads
from engine.surgery.filters.reading import (
    FilterGraph,
    FilterGroup,
    dependency_graph,
    some_of_group,
    width_of,
)

if TYPE_CHECKING:
    from engine.models.load_text_classifier import TextClassifier

History = list[list[Any]]
"""Torch-Pruning's pruning history: [module, is it an output pruning, indices], JSON-able, replayed
in order."""


@dataclass(frozen=True)
class FilterAgreement:
    """Masked against cut on the same images: their logits.

    exact: the largest difference of a logit where both are computed in float64, None where they
    cannot.
    """

    max_logit_difference: float
    tolerance: float
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
    return refusal("pruning history", what, "Give the mask as exported.")


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
    return FilterAgreement(found.difference, found.tolerance, found.holds, len(pixels), found.exact)


def widths_after(mask: FilterMask) -> Sequence[tuple[str, int, int]]:
    """(group, filters before, filters kept) in the order of the network."""
    gone = dict(mask.cut)
    return [(group, width, width - len(gone.get(group, ()))) for group, width in mask.widths]


# Where the numbers of a cut model sit in the whole one: what was trained small is put back.


DIGIT = 2**20
"""Places are carried through the cut as float32, which is exact up to 2**24: in two digits to this
base."""


def places_of(classifier: Classifier, mask: FilterMask) -> dict[str, Tensor]:
    """For every floating tensor of the cut model, the flat place of each entry in the whole model's
    tensor.

    Tensors by name, int64, in the cut shapes. The cut itself is asked: a model whose numbers are
    their own places is cut.
    """
    low, high = (_cut_numbers(classifier, mask, digit) for digit in (0, 1))
    return {name: low[name].long() + DIGIT * high[name].long() for name in low}


def put_back(
    whole: Mapping[str, Tensor], small: Mapping[str, Tensor], places: Mapping[str, Tensor]
) -> dict:
    """The whole state dict with the cut model's numbers where they belong; all else as it was.

    Tensors by name: `whole` in the shapes of the whole model, `small` and `places` (as from
    `places_of`) in those of the cut one.
    """
    found = {}
    for name, value in whole.items():
        found[name] = value.clone(memory_format=torch.contiguous_format)
        if name in places:
            found[name].view(-1)[places[name].to(value.device).reshape(-1)] = (
                small[name].to(value.device).reshape(-1)
            )
        else:
            found[name].copy_(small[name])
    return found


def _cut_numbers(classifier: Classifier, mask: FilterMask, digit: int) -> dict[str, Tensor]:
    """Floating tensors of a cut model that held its own flat places, one digit of them, float32 in
    the cut shapes."""
    model: nn.Module = copy.deepcopy(classifier.model).cpu()
    with torch.no_grad():
        for value in model.state_dict().values():
            if value.is_floating_point():
                numbers = torch.arange(value.numel())
                value.copy_((numbers // DIGIT if digit else numbers % DIGIT).view(value.shape))
    numbered = replace(classifier, model=model, device=torch.device("cpu"))
    small, _ = cut_filters(numbered, mask)
    return {
        name: value for name, value in small.model.state_dict().items() if value.is_floating_point()
    }


# Weights as numpy arrays, and back: how trained and cut models are kept.


OfAny = TypeVar("OfAny", Classifier, "TextClassifier")


def arrays_of(model: nn.Module) -> dict[str, np.ndarray]:
    """Every tensor of the state dict by its name, in its own shape and dtype."""
    return {name: value.detach().cpu().numpy() for name, value in model.state_dict().items()}


def rows_of(model: Any, group: FilterGroup) -> Iterator[np.ndarray]:
    """The weights of each unit of a group, [units, numbers] float64: of its convolutions, or what
    reads each head."""
    for name in group.convolutions:
        weight = model.get_submodule(name).weight.detach().double().cpu().numpy()
        yield weight.reshape(len(weight), -1)
    if group.is_heads:
        for name, _ in group.gated:
            weight = model.get_submodule(name).weight.detach().double().cpu().numpy().T
            yield weight.reshape(group.width, -1)


def with_weights(classifier: OfAny, arrays: Mapping[str, np.ndarray]) -> OfAny:
    """The same classifier with other weights, by name and of the same shapes; its hash is theirs.

    The given one stays as it is.
    """
    model = copy.deepcopy(classifier.model)
    state = {name: torch.as_tensor(np.asarray(array)) for name, array in arrays.items()}
    model.load_state_dict(state)
    model.eval().requires_grad_(False)
    return replace(classifier, model=model, weight_hash=state_hash(model.state_dict()))
