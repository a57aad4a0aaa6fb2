"""Weights of a classifier as numpy arrays, and back: how trained and cut models are kept."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import nn

from engine.models.load_image_classifier import Classifier, state_hash
from engine.surgery.filters.reading import FilterGroup

if TYPE_CHECKING:
    from engine.models.load_text_classifier import TextClassifier

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
