"""Where the numbers of a cut model sit in the whole one, so that what was trained small can be put
back."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from engine.core.types import FilterMask
from engine.models.load_image_classifier import Classifier
from engine.surgery.filters.cut import cut_filters

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
