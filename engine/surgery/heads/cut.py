"""Make a mask permanent: a model that is really smaller, or one of the same shape with zeros where
heads were."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TypeVar

import torch

from engine.core.errors import MaskError
from engine.core.types import HeadMask
from engine.models.transformer import TransformerModel
from engine.surgery.heads.mask import is_masked

M = TypeVar("M", bound=TransformerModel)


def cut(lm: M, mask: HeadMask) -> M:
    """A copy without the cut heads' weights. It computes what `masked` computes, with fewer
    parameters.

    `lm` is not touched and shares no memory with the copy. MaskError for a mask of another shape,
    or a model that is cut already or masked right now.
    """
    model = _copy(lm, mask)
    lm.adapter.cut_heads(model, mask)
    return replace(lm, model=model, cut=mask, means=None)


def zeroed(lm: M, mask: HeadMask) -> M:
    """A copy of the same shape, zero where the output projection reads a cut head. Errors as for
    `cut`.

    No smaller and no faster, but a checkpoint that plain transformers loads anywhere. MaskError
    also where heads are set to their means and the architecture has no bias to keep them in.
    """
    if not can_be_zeroed(lm):
        raise MaskError(
            f"{lm.name} has no output bias to keep the means of silenced heads in; save the cut"
            " model."
        )
    model = _copy(lm, mask)
    lm.adapter.zero_heads(model, mask)
    return replace(lm, model=model, means=None)


def can_be_zeroed(lm: TransformerModel) -> bool:
    """Whether plain transformers can hold the masked model: always for zeros, for means only with
    an output bias."""
    return lm.means is None or isinstance(
        lm.adapter.output_projection(lm.model, 0).bias, torch.nn.Parameter
    )


def parameters(lm: TransformerModel) -> int:
    """Numbers in the model as it is now; tied weights count once."""
    return lm.n_parameters


def _copy(lm: TransformerModel, mask: HeadMask) -> torch.nn.Module:
    if lm.cut is not None:
        raise MaskError(f"{lm.name} is cut already; cut the model it was cut from.")
    _check(lm, mask)
    model = copy.deepcopy(lm.model)
    lm.adapter.fold(model, mask)
    return model


def _check(lm: TransformerModel, mask: HeadMask) -> None:
    if is_masked(lm):  # the copy would take the hooks along and keep them
        raise MaskError(f"{lm.name} is masked; leave the mask before copying it.")
    if (mask.n_layers, mask.n_heads) != (lm.n_layers, lm.n_heads):
        raise MaskError(
            f"a mask of {mask.n_layers} layers x {mask.n_heads} heads does not fit {lm.name}: "
            f"{lm.n_layers} layers x {lm.n_heads} heads."
        )
