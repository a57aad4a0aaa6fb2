"""What PruneAudit must know about an architecture: where its heads are, how to silence one, how to
cut it out.

A head's output is what it hands to its layer's output projection: a slice of `head_dim` numbers of
that module's input, [batch, tokens, heads * head_dim], heads contiguous. Silencing a head, do(y_h =
0), zeroes that slice.

Worked example, 4 heads of width 8 in a layer, cutting head 1:
    masked   input[..., 8:16] = 0
    zeroed   output weight's input columns 8..15 = 0; loads anywhere
    cut      q, k, v lose their outputs 8..15, the output weight loses its input columns 8..15; 24 wide inside
All three give the same logits. The bias of the output projection belongs to no head and stays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

import torch
from torch import nn

from engine.core.errors import Fault
from engine.core.types import HeadMask
from engine.models import runtime  # noqa: F401
from engine.models.adapters.mean_ablation import Centred, Projection, set_bias


class Adapter(ABC):
    """One architecture family. Subclasses are final; everything that does not differ is here."""

    model_types: tuple[str, ...]
    """`model_type` values of config.json."""
    projection: str
    """Dotted name of the output projection in the attention module."""
    causal: ClassVar[bool] = True
    """Whether a token sees only those before it, as in a language model; else see encoder.py."""
    cuts: bool = True
    """Whether heads can be cut out; else `cut_heads` zeroes and silences them, and shapes stay."""
    splits: bool = True
    """Whether a pass can go on from any block and logits follow from the last one's output (prefix
    reuse)."""
    shared: bool = False
    """Whether a layer is gone through several times in one pass."""
    how: str = ""
    """One line for screens: how the model was read, where no file of this folder knows it."""

    def n_layers(self, model: Any) -> int:
        """Number of layers, from a model or its config."""
        return int(_config(model).num_hidden_layers)

    def n_heads(self, model: Any) -> int:
        """Query heads per layer before any cut, from a model or its config."""
        return int(_config(model).num_attention_heads)

    def n_positions(self, model: Any) -> int:
        """Longest text in tokens, from a model or its config."""
        return int(_config(model).max_position_embeddings)

    def head_dim(self, model: Any) -> int:
        """Width of one head, from a model or its config."""
        return int(_config(model).hidden_size) // self.n_heads(model)

    def attention_implementation(self, config: Any) -> str:
        """What to load the model with. "sdpa" is the fastest that equals "eager" to float
        tolerance."""
        return "sdpa"

    def config_faults(self, config: Any) -> list[Fault]:
        """What in the shape of this model does not add up."""
        heads, width = self.n_heads(config), int(config.hidden_size)
        if heads < 1 or width % heads:
            return [
                Fault(
                    "config.json",
                    f"hidden size {width} does not divide into {heads} heads.",
                    "Fix config.json.",
                )
            ]
        return []

    @abstractmethod
    def attention(self, model: nn.Module, layer: int) -> nn.Module:
        """The attention module of a layer (a `NoHeads` where the whole layer was cut)."""

    def backbone(self, model: Any) -> nn.Module:
        """All that lies below the language model's head, final norm included; its call gives
        `last_hidden_state`."""
        return model.base_model

    def blocks(self, model: Any) -> nn.ModuleList:
        """The layers in order. A block returns hidden states [batch, tokens, hidden], or a tuple
        that begins so."""
        return model.base_model.h

    def final_norm(self, model: Any) -> nn.Module:
        """What stands between the last block and the output embeddings."""
        return model.base_model.ln_f

    def as_saved(self, shapes: Mapping[str, Sequence[int]], mask: HeadMask) -> Adapter:
        """The adapter that made a file with tensors of these shapes by taking out a mask's heads,
        or zeroing them."""
        return self

    def stand_in(self, model: nn.Module, layer: int, given: torch.Tensor) -> tuple[nn.Module, Any]:
        """A module of the layer, and what it answers where the output projection gives `given`
        [rows, tokens, hidden]: put in its place, the layer goes on from there."""
        return self.attention(model, layer), (given, None)

    def logits(self, model: Any, hidden: torch.Tensor, normed: bool = False) -> torch.Tensor:
        """Logits [n, vocabulary] of hidden states [n, hidden]: the last block's, or (`normed`) the
        final norm's."""
        return model.get_output_embeddings()(hidden if normed else self.final_norm(model)(hidden))

    @final
    def output_projection(self, model: nn.Module, layer: int) -> Projection:
        """The module whose input is [batch, tokens, heads * head_dim], heads contiguous."""
        module: Any = self.attention(model, layer).get_submodule(self.projection)
        return module.inner if isinstance(module, Centred) else module

    @abstractmethod
    def head_tensors(self, model: nn.Module, layer: int, head: int) -> list[torch.Tensor]:
        """Views of the head's q, k, v and o weights and its q, k, v biases, each in the shape it
        has in its module.

        Weights of q, k, v are [head_dim, hidden] and of o [hidden, head_dim] in Linears, transposed
        in GPT-2's Conv1D; biases [head_dim]. A shared KV head belongs to each sharer.
        """

    def grow_heads(self, model: nn.Module, mask: HeadMask) -> None:
        """Undo `cut_heads` in place, as far as shapes go: zeros stand where the mask's heads were.
        Encoders only."""
        raise NotImplementedError

    @abstractmethod
    def _keep(self, attention: nn.Module, heads: list[int], head_dim: int) -> None:
        """Shrink an attention module, in place, to these heads (ascending; none only of an
        encoder)."""

    @abstractmethod
    def _empty(self, model: nn.Module, layer: int) -> None:
        """Take all heads out of a layer, in place. What it hands over then is the output
        projection's bias."""

    @final
    def centre(self, model: nn.Module, means: torch.Tensor) -> None:
        """Shift heads, in place, so that silencing one sets it to its mean. means: [layers, heads *
        head_dim]."""
        for layer, row in enumerate(means):
            centred = Centred(self.output_projection(model, layer), row)
            self.attention(model, layer).set_submodule(self.projection, centred)

    @final
    def fold(self, model: nn.Module, mask: HeadMask) -> None:
        """Undo `centre`, in place, but leave what the mask's heads hand over on average in the
        projections' biases."""
        for layer in range(mask.n_layers):
            attention = self.attention(model, layer)
            centred = attention.get_submodule(self.projection)
            if isinstance(centred, Centred):
                plain = centred.folded(sorted(mask.cut_in(layer)), self.head_dim(model))
                attention.set_submodule(self.projection, plain)

    @final
    def make_room(self, model: nn.Module, mask: HeadMask) -> None:
        """Give, in place, every layer with a cut head an output bias to keep means in. For
        skeletons."""
        for layer in {layer for layer, _ in mask.cut}:
            projection = self.output_projection(model, layer)
            if projection.bias is None:
                rows = projection.weight.shape[1 - _input_axis(projection)]
                set_bias(projection, projection.weight.new_zeros(rows))

    @final
    def zero_heads(self, model: nn.Module, mask: HeadMask) -> None:
        """Zero, in place, the output projection's weights that read a cut head. Shapes stay."""
        width = self.head_dim(model)
        with torch.no_grad():
            for layer, head in mask.cut:
                projection = self.output_projection(model, layer)
                projection.weight.narrow(_input_axis(projection), head * width, width).zero_()

    @final
    def cut_heads(self, model: nn.Module, mask: HeadMask, gone: HeadMask | None = None) -> None:
        """Remove, in place, the cut heads' weights. The model is smaller and computes what the
        masked one does.

        gone: heads of the mask that the model has lost already; encoders only. Where heads cannot
        be cut out they are zeroed, and silenced so that no training brings them back.
        """
        width = self.head_dim(model)
        if (
            gone is not None and gone.cut and self.how
        ):  # rows of a structure are known in the whole model only
            self.grow_heads(model, gone)
            gone = None
        if not self.cuts:
            self.zero_heads(model, mask)
            for layer in sorted({layer for layer, _ in mask.cut}):
                silence(self.output_projection(model, layer), sorted(mask.cut_in(layer)), width)
            return
        for layer in sorted({layer for layer, _ in mask.cut}):
            dead, lost = mask.cut_in(layer), () if gone is None else gone.cut_in(layer)
            there = [head for head in range(mask.n_heads) if head not in lost]
            alive = [place for place, head in enumerate(there) if head not in dead]
            if alive:
                self._keep(self.attention(model, layer), alive, width)
            else:
                self._empty(model, layer)


@final
class NoHeads(nn.Module):
    """Attention of a layer without heads: it answers the output projection's bias, independent of
    its input.

    It still tells the key/value cache how many tokens went by (one zero per token): transformers
    reads the length of the text from layer 0's cache and would take an empty one for the beginning
    of the text.
    """

    def __init__(self, layer: int, projection: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        bias = getattr(projection, "bias", None)
        self.bias = (
            None
            if bias is None
            else nn.Parameter(bias.detach().clone(), requires_grad=bias.requires_grad)
        )

    def forward(
        self,
        hidden_states: torch.Tensor,
        past_key_values: Any = None,
        layer_past: Any = None,
        **ignored: Any,
    ) -> tuple[torch.Tensor, None]:
        """hidden_states [batch, tokens, hidden] -> the same shape, the bias everywhere; and None
        for probabilities."""
        cache = past_key_values if past_key_values is not None else layer_past
        if cache is not None:
            mark = hidden_states.new_zeros(hidden_states.shape[0], 1, hidden_states.shape[1], 1)
            cache.update(mark, mark, self.layer)
        out = torch.zeros_like(hidden_states)
        return (out if self.bias is None else out + self.bias), None


@final
class Silenced:
    """A forward pre-hook that keeps heads of an output projection's input at zero; it goes along
    with copies."""

    def __init__(self, heads: Sequence[int], width: int) -> None:
        self.heads, self.width = tuple(heads), width

    def __call__(
        self, module: nn.Module, args: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor, ...]:
        """args: what the projection is given, first of all [batch, tokens, heads * width]."""
        keep = torch.ones(args[0].shape[-1], dtype=args[0].dtype, device=args[0].device)
        keep[span(self.heads, self.width).to(keep.device)] = 0
        return (args[0] * keep, *args[1:])


def silence(projection: nn.Module, heads: Sequence[int], width: int) -> None:
    """Keep these heads of a projection's input at zero from now on."""
    projection.register_forward_pre_hook(Silenced(heads, width))


def span(heads: Sequence[int], width: int, offset: int = 0) -> torch.Tensor:
    """Indices of whole heads, [heads * width] int64: span([0, 2], 3) = 0 1 2 6 7 8."""
    starts = torch.tensor(list(heads), dtype=torch.long) * width + offset
    return (starts[:, None] + torch.arange(width)).flatten()


def keep_outputs(module: nn.Module, index: torch.Tensor) -> None:
    """Shrink a Linear (or GPT-2's transposed Conv1D) to the outputs `index` [kept] int64, in
    place."""
    _set(module, "weight", 1 - _input_axis(module), index)
    if module.bias is not None:
        _set(module, "bias", 0, index)
    setattr(module, "nf" if hasattr(module, "nf") else "out_features", len(index))


def keep_inputs(module: nn.Module, index: torch.Tensor) -> None:
    """Shrink a Linear (or Conv1D) to the inputs `index` [kept] int64, in place. The bias stays."""
    _set(module, "weight", _input_axis(module), index)
    setattr(module, "nx" if hasattr(module, "nx") else "in_features", len(index))


def spread_outputs(module: nn.Module, index: torch.Tensor, size: int) -> None:
    """Undo `keep_outputs` of a Linear (or Conv1D) in place: `size` outputs, zero where `index` does
    not point."""
    set_entries(module, "weight", index, size, 1 - _input_axis(module))
    if module.bias is not None:
        set_entries(module, "bias", index, size)
    setattr(module, "nf" if hasattr(module, "nf") else "out_features", size)


def spread_inputs(module: nn.Module, index: torch.Tensor, size: int) -> None:
    """Undo `keep_inputs` of a Linear (or Conv1D) in place: `size` inputs, zero where `index` does
    not point."""
    set_entries(module, "weight", index, size, _input_axis(module))
    setattr(module, "nx" if hasattr(module, "nx") else "in_features", size)


def linear_head_tensors(
    layers: Sequence[Any], output: Projection, places: Sequence[slice]
) -> list[torch.Tensor]:
    """head_tensors for separate q, k, v Linears: weights [head_dim, hidden], biases [head_dim], o
    [hidden, head_dim].

    places: the head's slices of the outputs of q, k and v, and of the output projection's input.
    """
    found = []
    for module, place in zip(layers, places, strict=False):
        found.append(module.weight[place])
        if module.bias is not None:
            found.append(module.bias[place])
    return [*found, output.weight[:, places[-1]]]


def _input_axis(module: nn.Module) -> int:
    return 0 if hasattr(module, "nf") else 1  # Conv1D stores [in, out], Linear [out, in]


def _set(module: nn.Module, name: str, axis: int, index: torch.Tensor) -> None:
    """Leave a parameter the entries `index` [kept] int64 along one axis."""
    old = getattr(module, name)
    kept = old.detach().index_select(axis, index.to(old.device)).contiguous()
    setattr(module, name, nn.Parameter(kept, requires_grad=old.requires_grad))


def set_entries(
    module: nn.Module, name: str, index: torch.Tensor, size: int, axis: int = 0
) -> None:
    """Set a parameter to zeros of length `size` along one axis, its old entries at `index` [kept]
    int64."""
    old = getattr(module, name)
    shape = [size if place == axis else side for place, side in enumerate(old.shape)]
    grown = old.detach().new_zeros(shape).index_copy_(axis, index.to(old.device), old.detach())
    setattr(module, name, nn.Parameter(grown, requires_grad=old.requires_grad))


def _config(model: Any) -> Any:
    return getattr(model, "config", model)
