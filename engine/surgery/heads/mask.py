"""Silence heads for a while: do(y_h = 0) before the output projection, leaving no trace behind.

transformers 5 swallows `head_mask=` without effect, so the gate is a forward pre-hook of ours on
each layer's output projection, and `prove_mask_works` shows on the loaded model that it acts.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch

from engine.core.errors import MaskError
from engine.core.types import HeadMask
from engine.models.transformer import TransformerModel

_lock = threading.Lock()
_gated: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()


@contextmanager
def masked(lm: TransformerModel, mask: HeadMask) -> Iterator[None]:
    """Within it, the mask's heads output zero. Layers without a cut head run untouched.

    Raises MaskError for a mask of another shape, a model that is already cut, or a model that is
    masked already (here or in another thread: the model object is shared). Hooks are gone
    afterwards, whatever was raised inside.
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

    gates: [layers, heads], 1 = as it is, 0 = silenced; or [rows, layers, heads], gates of its own
    for every row of the batch, which then must have so many rows. Errors as for `masked`.
    """
    _check_shape(lm, tuple(gates.shape[-2:]))
    with claimed(lm), hooked(lm, gates, range(lm.n_layers)):
        yield


@contextmanager
def masked_rows(
    lm: TransformerModel, masks: Sequence[HeadMask]
) -> Iterator[Callable[[Sequence[int]], None]]:
    """Within it, every row of a batch has a mask of its own: what it gives takes the place in
    `masks` of each row, and is to be called before a batch, and again whenever its rows change.
    Errors as for `masked`."""
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

    with claimed(lm), ExitStack() as hooks:
        for layer in layers:
            projection = lm.adapter.output_projection(lm.model, layer)
            hooks.callback(projection.register_forward_pre_hook(gate(layer)).remove)
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
                raise MaskError(
                    f"{lm.name} in {lm.dtype} gives numbers that are not finite: its weights are"
                    " damaged, or the precision is too low. Try --dtype float32."
                )
            if not (plain - silent).abs().max() > 1e-6 * plain.abs().max():
                raise MaskError(
                    _unmoved(lm, layer, is_constant=torch.equal(plain, _logits(lm, tokens.flip(1))))
                )


def _unmoved(lm: TransformerModel, layer: int, is_constant: bool) -> str:
    """Why the answers stay with all heads of a layer masked. is_constant: they stay with another
    text too."""
    if is_constant:
        return (
            f"{lm.name} answers the same to every text, so nothing that is cut can show: its last"
            " layer may be zero, or the network dead. Give a trained model."
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
    with ExitStack() as hooks:
        for layer in layers:
            projection = lm.adapter.output_projection(lm.model, layer)
            handle = projection.register_forward_pre_hook(
                _gate(gates[..., layer, :], lm.adapter.head_dim)
            )
            hooks.callback(handle.remove)
        yield


def _gate(row: torch.Tensor, width: int) -> Callable[..., tuple[torch.Tensor, ...]]:
    """A pre-hook that multiplies every head's share of a projection's input by its gate, [heads] or
    [batch, heads]."""

    def scale(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        inside = args[0]  # [batch, tokens, heads * width]
        factor = row.to(device=inside.device, dtype=inside.dtype).repeat_interleave(width, dim=-1)
        return (inside * (factor if factor.dim() == 1 else factor[:, None]), *args[1:])

    return scale


def _check_shape(lm: TransformerModel, shape: tuple[int, ...]) -> None:
    if lm.cut is not None:
        raise MaskError(f"{lm.name} is cut already; mask the model it was cut from.")
    if shape != (lm.n_layers, lm.n_heads):
        raise MaskError(
            f"a mask of shape {shape} does not fit {lm.name}: {lm.n_layers} layers x {lm.n_heads}"
            " heads."
        )
