"""Silence heads: for a while, for good, or set to what they hand over on average.

For a while is do(y_h = 0) before the output projection, leaving no trace behind. transformers 5
swallows `head_mask=` without effect, so the gate is a forward pre-hook of ours on each layer's
output projection. `prove_mask_works` shows on the loaded model that it acts.
"""

from __future__ import annotations

import copy
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch

from engine.core.errors import MaskError, PruneAuditError, refusal
from engine.core.types import HeadMask, Hooks
from engine.models.load_language_model import LanguageModel
from engine.models.structure.cutting import by_gate
from engine.models.transformer import TransformerModel, attached
from engine.surgery.record import MaskRecord

_lock = threading.Lock()
_gated: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()


@contextmanager
def masked(lm: TransformerModel, mask: HeadMask) -> Iterator[None]:
    """Within it, the mask's heads output zero. Layers without a cut head run untouched.

    Raises MaskError for a mask of another shape and for a model that is cut or masked already (here
    or in another thread: the model object is shared). Hooks are gone afterwards, whatever was
    raised inside.
    """
    _check_shape(lm, (mask.n_layers, mask.n_heads))
    with (
        claimed(lm),
        hooked(lm, torch.from_numpy(mask.keep()), sorted({layer for layer, _ in mask.cut})),
    ):
        yield


@contextmanager
def gated(lm: TransformerModel, gates: torch.Tensor) -> Iterator[None]:
    """Within it, head h of layer l is multiplied by gates[l, h]. Differentiable: d loss / d gates
    flows.

    gates: [layers, heads], 1 = as it is, 0 = silenced. Or [rows, layers, heads], gates of its own
    for every row of the batch, which then must have so many rows. Errors as for `masked`.
    """
    _check_shape(lm, tuple(gates.shape[-2:]))
    with claimed(lm), hooked(lm, gates, range(lm.n_layers)):
        yield


@contextmanager
def masked_rows(
    lm: TransformerModel, masks: Sequence[HeadMask]
) -> Iterator[Callable[[Sequence[int]], None]]:
    """Within it, every row of a batch has a mask of its own. What it gives takes the place in
    `masks` of each row: call it before a batch, and again whenever its rows change. Errors as for
    `masked`.
    """
    for mask in masks:
        _check_shape(lm, (mask.n_layers, mask.n_heads))
    width, factors = lm.adapter.head_dim, {}
    keep = torch.from_numpy(np.stack([mask.keep() for mask in masks])).to(lm.device, lm.dtype)
    layers = sorted({layer for mask in masks for layer, _ in mask.cut})

    def choose(rows: Sequence[int]) -> None:
        for layer in layers:
            factors[layer] = keep[list(rows), layer].repeat_interleave(width, dim=-1)[:, None]

    def gate(layer: int) -> Callable[..., tuple[torch.Tensor, ...]]:
        return lambda module, args: (args[0] * factors[layer], *args[1:])

    with claimed(lm), attached(lm.adapter.at_projections(lm.model, layers, gate)):
        yield choose


def prove_mask_works(lm: TransformerModel, check: Callable[[], None] = lambda: None) -> None:
    """MaskError unless silencing all heads of a layer changes the logits; tried on the first and
    the last layer.

    Eight tokens, one forward pass each. Do this before anything is scored.
    """
    length = min(8, lm.n_positions)
    tokens = (torch.arange(1, length + 1, device=lm.device) * 7919 % lm.vocab_size).unsqueeze(0)
    with torch.no_grad():
        plain = _logits(lm, tokens)
        for layer in sorted({0, lm.n_layers - 1}):
            check()
            mask = HeadMask(
                lm.n_layers, lm.n_heads, tuple((layer, head) for head in range(lm.n_heads))
            )
            with masked(lm, mask):
                silent = _logits(lm, tokens)
            if not bool(torch.isfinite(plain).all()):
                raise MaskError(lm.unusable("numbers that are not finite"))
            if not (plain - silent).abs().max() > 1e-6 * plain.abs().max():
                raise MaskError(
                    _unmoved(lm, layer, is_constant=torch.equal(plain, _logits(lm, tokens.flip(1))))
                )


def _unmoved(lm: TransformerModel, layer: int, is_constant: bool) -> str:
    """Why the answers stay with all heads of a layer masked. is_constant: they stay with another
    text too."""
    if is_constant:
        return (
            f"{lm.name} answers the same to every text, so no cut can show. Its last layer may be "
            "zero, or the network dead. Give a trained model."
        )
    return (
        f"masking all heads of layer {layer} of {lm.name} changes nothing: "
        "its scores would say nothing about its heads, so none are computed."
    )


def _logits(lm: TransformerModel, tokens: torch.Tensor) -> torch.Tensor:
    """Logits of tokens [texts, tokens]: [texts, tokens, vocabulary], or [texts, classes] of an
    encoder."""
    more = {"use_cache": False} if lm.adapter.causal else {}
    return lm.model(input_ids=tokens, **more).logits


def is_masked(lm: TransformerModel) -> bool:
    """Whether a mask or gates are set on the model right now, in this thread or another."""
    with _lock:
        return lm.model in _gated


@contextmanager
def claimed(lm: TransformerModel) -> Iterator[None]:
    """Within it no other code may set hooks on this model. MaskError where hooks are set
    already."""
    with _lock:
        if lm.model in _gated:
            raise MaskError(f"{lm.name} is masked already; leave that mask before setting another.")
        _gated.add(lm.model)
    try:
        yield
    finally:
        with _lock:
            _gated.discard(lm.model)


@contextmanager
def hooked(lm: TransformerModel, gates: torch.Tensor, layers: Any) -> Iterator[None]:
    """Within it, gates [layers, heads] or [rows, layers, heads] multiply the heads of `layers`. For
    code that has claimed the model."""
    gate = lambda layer: by_gate(gates[..., layer, :], lm.adapter.head_dim)  # noqa: E731
    with attached(lm.adapter.at_projections(lm.model, layers, gate)):
        yield


def _check_shape(lm: TransformerModel, shape: tuple[int, ...]) -> None:
    if lm.cut is not None:
        raise MaskError(f"{lm.name} is cut already; take the model it was cut from.")
    if shape != (lm.n_layers, lm.n_heads):
        raise MaskError(
            f"a mask of shape {shape} does not fit {lm.name}: {lm.n_layers} layers x {lm.n_heads}"
            " heads."
        )


# For good: a model that is really smaller, or one of the same shape with zeros.


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


def _copy(lm: TransformerModel, mask: HeadMask) -> torch.nn.Module:
    _check_shape(lm, (mask.n_layers, mask.n_heads))
    if is_masked(lm):  # the copy would take the hooks along and keep them
        raise MaskError(f"{lm.name} is masked; leave the mask before copying it.")
    model = copy.deepcopy(lm.model)
    lm.adapter.fold(model, mask)
    return model


# Mean ablation: what each head hands over on average, and a model whose silenced heads do that.


@torch.no_grad()
def head_means(
    lm: LanguageModel,
    windows: list[tuple[list[int], int]],
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
) -> np.ndarray:
    """Mean output of every head over text, [layers, heads * head_dim] float32, summed in float64.

    windows: token ids, and how many positions at their end count (so that overlapping windows count
    each token once).
    """
    total = torch.zeros(
        lm.n_layers,
        lm.n_heads * lm.adapter.head_dim,
        dtype=torch.float64,
        device=lm.device,
    )
    wanted = [0]

    def add(layer: int) -> Any:
        def hook(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> None:
            total[layer] += args[0][0, -wanted[0] :].double().sum(0)

        return hook

    with attached(lm.adapter.at_projections(lm.model, range(lm.n_layers), add)):
        for ids, last in windows:
            hooks.check()
            wanted[0] = last
            lm.model(input_ids=torch.tensor([ids], device=lm.device), use_cache=False)
    means = (total / sum(last for _, last in windows)).float().cpu().numpy()
    if not np.isfinite(means).all():
        raise PruneAuditError(lm.unusable("no finite head outputs"))
    return means


def centred(lm: LanguageModel, means: np.ndarray) -> LanguageModel:
    """`lm`, changed in place: it computes what it did, but a silenced head hands over its mean
    instead of zero.

    means: [layers, heads * head_dim] as from `head_means`. MaskError for another shape, a model
    that is cut or masked, or one centred already.
    """
    shape = (lm.n_layers, lm.n_heads * lm.adapter.head_dim)
    if lm.cut is not None or lm.means is not None or is_masked(lm):
        raise MaskError(f"{lm.name} is cut, masked or centred already; centre the whole model.")
    if means.shape != shape:
        raise MaskError(f"means of shape {means.shape} do not fit {lm.name}: {shape}.")
    means = np.ascontiguousarray(means, dtype=np.float32)
    lm.adapter.centre(lm.model, torch.from_numpy(means))
    return replace(lm, means=means)


def means_table(means: np.ndarray, n_heads: int) -> pd.DataFrame:
    """means [layers, heads * head_dim] as a table: unit, and a column ("0", "1", …) per number of a
    head's output."""
    rows = means.reshape(len(means) * n_heads, -1)
    table = pd.DataFrame(rows, columns=[str(place) for place in range(rows.shape[1])])
    table.insert(0, "unit", np.arange(len(rows)))
    return table


def means_of(table: pd.DataFrame, n_layers: int) -> np.ndarray:
    """The inverse of `means_table`: [layers, heads * head_dim] float32."""
    return (
        table.sort_values("unit")
        .drop(columns="unit")
        .to_numpy(dtype=np.float32)
        .reshape(n_layers, -1)
    )


def for_record(lm: LanguageModel, record: MaskRecord) -> LanguageModel:
    """`lm` as the mask file wants its heads silenced. RequestError for means of another width."""
    if not record.means:
        return lm
    width = lm.adapter.head_dim
    if len(record.means[0]) != width:
        what = f"hold {len(record.means[0])} numbers per head; those of {lm.name} are {width} wide."
        raise refusal("mask means", what, "Give a mask.json as exported, with its own model.")
    means = np.zeros((lm.n_layers, lm.n_heads, width), dtype=np.float32)
    for (layer, head), row in zip(record.units, record.means, strict=True):
        means[layer, head] = row
    return centred(lm, means.reshape(lm.n_layers, -1))
