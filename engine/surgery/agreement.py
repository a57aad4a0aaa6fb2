"""Whether two models that must compute the same do, judged by the model's own rounding and not by a
fixed number.

Two right ways to compute one model differ in their last digits, by how much hangs on the model:
SmolLM2 cut at random differs by 2e-5 of its largest logit in float32, its rounding alone is 1e-4.
So both are computed in float64 too, where what is equal differs by nothing and one weight that is 1
% off shows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from engine.models.load_image_classifier import Classifier
from engine.models.runtime import on_device
from engine.models.transformer import TransformerModel

RELATIVE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""A difference that is never too large, as a share of the largest logit (at least 1)."""
EXACT = 1e-8
"""As RELATIVE, in float64. Cuts of SmolLM2 differ by 0; of its weights, one that is 1 % off moves
logits by 3e-7."""
ROUNDINGS = 4
"""As many times the model's own rounding may two right ways to compute it differ."""
BATCHINGS = 32
"""The same in what other batches change, a part of rounding only: cuts of SmolLM2 differed by 17
times it."""

AnyModel = TypeVar("AnyModel", TransformerModel, Classifier)
Twice = tuple[Tensor, Tensor]
"""Logits of two models that must be the same, [n, classes] float64 each."""


@dataclass(frozen=True)
class Judged:
    """difference: the largest of a logit, in the models' own numbers; tolerance: what of it is
    rounding. exact: the largest in float64, None where that could not be computed."""

    difference: float
    tolerance: float
    exact: float | None
    holds: bool


def judged(
    own: Twice,
    dtype: torch.dtype,
    in_float64: Callable[[], Twice],
    batched_otherwise: Callable[[], float],
    exact: float = EXACT,
) -> Judged:
    """Whether two models agree.

    own: their logits in their own numbers, of `dtype`. in_float64: the same computed by `doubled`
    models; where there is no room, or a model cannot run so, batched_otherwise decides: the largest
    difference of a logit of one model between batches. exact: what may differ in float64, as a
    share of the largest logit.
    """
    difference, scale = _apart(*own), max(1.0, float(own[0].abs().max()))
    tolerance = RELATIVE[dtype] * scale
    if dtype == torch.float64:
        return Judged(difference, tolerance, difference, difference <= tolerance)
    true = _if_finite(in_float64)
    if true is None:
        if not difference <= tolerance:
            tolerance = max(tolerance, BATCHINGS * batched_otherwise())
        return Judged(difference, tolerance, None, difference <= tolerance)
    tolerance = max(tolerance, ROUNDINGS * _apart(own[0], true[0]))
    apart = _apart(*true)
    return Judged(difference, tolerance, apart, difference <= tolerance and apart <= exact * scale)


def doubled(one: AnyModel) -> AnyModel:
    """A copy that computes in float64, on the CPU where the device cannot. RuntimeError where there
    is no room."""
    place = torch.device("cpu") if one.device.type == "mps" else one.device
    if 8 * sum(value.numel() for value in one.model.state_dict().values()) > on_device(place):
        raise RuntimeError("no room for a copy in float64")
    two = replace(one, model=copy.deepcopy(one.model).to(place).double(), device=place)
    return replace(two, dtype=torch.float64) if isinstance(two, TransformerModel) else two


def _if_finite(in_float64: Callable[[], Twice]) -> Twice | None:
    """What was computed in float64. None where there is no room, or where layers know their own
    number format only: they fail, or make no numbers (BLOOM's and MPT's masks)."""
    try:
        found = in_float64()
    except (RuntimeError, TypeError):
        return None
    return found if all(bool(torch.isfinite(one).all()) for one in found) else None


def _apart(one: Tensor, two: Tensor) -> float:
    return float((one - two).abs().max())
