"""Weights of a classifier as numpy arrays, and back: how trained and cut models are kept."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from engine.models.load_image_classifier import Classifier, state_hash


def arrays_of(model: nn.Module) -> dict[str, np.ndarray]:
    """Every tensor of the state dict by its name, in its own shape and dtype."""
    return {name: value.detach().cpu().numpy() for name, value in model.state_dict().items()}


def with_weights(classifier: Classifier, arrays: Mapping[str, np.ndarray]) -> Classifier:
    """The same classifier with other weights, by name and of the same shapes; its hash is theirs.

    The given one stays as it is.
    """
    model = copy.deepcopy(classifier.model)
    state = {name: torch.as_tensor(np.asarray(array)) for name, array in arrays.items()}
    model.load_state_dict(state)
    model.eval().requires_grad_(False)
    return replace(classifier, model=model, weight_hash=state_hash(model.state_dict()))
