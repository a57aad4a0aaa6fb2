"""What PruneAudit must know of a transformer: where its heads are, how to silence and cut one.

All of it is answered from a Layout: names and numbers read off the model's modules (read.py).

A head's output is what it hands to its layer's output projection: a slice of `head_dim` numbers of
that module's input, [batch, tokens, heads * head_dim], heads contiguous. Silencing a head, do(y_h =
0), zeroes that slice.

Worked example, 4 heads of width 8 in a layer, cutting head 1.
    masked   input[..., 8:16] = 0.
    zeroed   output weight's input columns 8..15 = 0; loads anywhere.
    cut      q, k, v lose their outputs 8..15, the output weight loses its input columns 8..15.
All three give the same logits. The bias of the output projection belongs to no head and stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, final

import torch
from torch import nn

from engine.core.types import HeadMask
from engine.models import runtime  # noqa: F401
from engine.models.structure.cutting import (
    Centred,
    NoHeads,
    Projection,
    answers,
    bias_by_head,
    by_gate,
    emptied,
    input_axis,
    is_transposed,
    keep_entries,
    keep_inputs,
    keep_outputs,
    set_bias,
    span,
    spread_unevenly,
)
from engine.models.structure.read import Layout, layout_of

FAMILIES: Mapping[bool, tuple[str, ...]] = {
    True: ("gpt2", "gpt_neo", "gptj", "llama"),
    False: ("bert", "camembert", "distilbert", "roberta", "xlm-roberta"),
}
"""`model_type` values of config.json whose structure tests prove, so that no load proves heads
again: of language models (True) and of encoders (False)."""
_COUNTS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "num_attn_heads")
_GROUPS = ("num_key_value_heads", "num_kv_heads")
_WIDTHS = ("all_head_size", "split_size", "embed_dim")
_BARE = (nn.Linear, nn.Dropout, nn.Identity)
"""Parts of an attention that does nothing but attend: no residual, no norm."""


def adapter_of(config: Any, causal: bool = True) -> Adapter:
    """causal: of a language model, else of a text classifier. RequestError says why a structure
    cannot be read."""
    return (Decoder if causal else Encoder).of(config)


class Adapter:
    """What language models and text classifiers share."""

    causal: ClassVar[bool]
    """Whether it is of a language model, in which a token sees only those before it."""

    @classmethod
    def of(cls, config: Any) -> Self:
        """Of the model that a config describes. RequestError as for `adapter_of`."""
        return cls(layout_of(config, cls.causal), config.model_type in FAMILIES[cls.causal])

    def __init__(self, layout: Layout, is_known: bool = False) -> None:
        self.layout, self.is_known = layout, is_known
        self.n_layers, self.n_heads = len(layout.blocks), layout.heads
        self.head_dim, self.n_positions = layout.width, layout.positions
        self.cuts = not layout.whole
        """Whether heads can be cut out; else `cut_heads` zeroes and silences them, and shapes
        stay."""
        self.splits = True
        """Whether a pass can go on from any block, and logits follow from the last one's output
        (prefix reuse)."""
        self.packs = False
        """Whether texts that begin alike can share a row (packing.py)."""
        self.shared = layout.depth > 0
        """Whether a layer is gone through several times in one pass."""
        self.how = "" if is_known else layout.said()
        """One line for screens: how the model was read, where FAMILIES does not name its family."""

    @property
    def attention_implementation(self) -> str:
        """What to load the model with. "sdpa" is the fastest that equals "eager" to float
        tolerance; only "eager" hands out the attention probabilities of an encoder."""
        return "sdpa" if self.causal and self.layout.fast else "eager"

    def zeroing(self, why: str) -> Self:
        """The same, but heads are zeroed and not cut out."""
        return type(self)(replace(self.layout, whole=why), self.is_known)

    def as_saved(self, shapes: Mapping[str, Sequence[int]], mask: HeadMask) -> Self:
        """The adapter that made a file with tensors of these shapes by taking out a mask's heads,
        or zeroing them."""
        for layer in {layer for layer, _ in mask.cut}:
            name = f"{self.layout.blocks[layer]}.{self.layout.attention}.{self.layout.projection}"
            inputs = shapes.get(f"{name}.weight", (0, 0))[0 if self.layout.transposed else 1]
            if self.cuts and inputs == self.n_heads * self.head_dim:
                return self.zeroing("it was exported so")
        return self

    def at_projections(
        self, model: nn.Module, layers: Iterable[int], hook: Callable[[int], Any]
    ) -> Iterator[Any]:
        """Hooks, to be `attached`, that see what the heads of these layers hand over, before their
        output projections do."""
        for layer in layers:
            yield self.output_projection(model, layer).register_forward_pre_hook(hook(layer))

    def attention(self, model: nn.Module, layer: int) -> Any:
        """The attention module of a layer (a `NoHeads` where a language model's layer was cut)."""
        return model.get_submodule(self.layout.blocks[layer]).get_submodule(self.layout.attention)

    def blocks(self, model: nn.Module) -> nn.ModuleList:
        """The layers in order. A block returns hidden states [batch, tokens, hidden], or a tuple
        that begins so."""
        return nn.ModuleList([model.get_submodule(name) for name in self.layout.blocks])

    def output_projection(self, model: nn.Module, layer: int) -> Projection:
        """The module whose input is [batch, tokens, heads * head_dim], heads contiguous."""
        module = self.attention(model, layer).get_submodule(self.layout.projection)
        return module.inner if isinstance(module, Centred) else module

    def head_tensors(self, model: nn.Module, layer: int, head: int) -> list[torch.Tensor]:
        """Views of the head's weights, and of the biases of what makes queries, keys and values,
        each in the shape it has in its module; the output projection's weight last.

        Weights of q, k, v are [head_dim, hidden] and of o [hidden, head_dim] in Linears, transposed
        in Conv1D; biases [head_dim]. Shared keys and values belong to each sharer. Outputs of which
        it is not known whose they are belong to none.
        """
        attention, found = self.attention(model, layer), []
        for read in self.layout.reads:
            module = attention.get_submodule(read.name)
            places = self.layout.places(read, head)
            transposed = is_transposed(module)
            found += [module.weight[:, at] if transposed else module.weight[at] for at in places]
            found += [module.bias[at] for at in places if module.bias is not None]
        output = self.output_projection(model, layer)
        own = slice(head * self.head_dim, (head + 1) * self.head_dim)
        return [*found, output.weight[own] if is_transposed(output) else output.weight[:, own]]

    def centre(self, model: nn.Module, means: torch.Tensor) -> None:
        """Shift heads, in place, so that silencing one sets it to its mean. means: [layers, heads *
        head_dim]."""
        for layer, row in enumerate(means):
            centred = Centred(self.output_projection(model, layer), row)
            self.attention(model, layer).set_submodule(self.layout.projection, centred)

    def fold(self, model: nn.Module, mask: HeadMask) -> None:
        """Undo `centre`, in place, but leave what the mask's heads hand over on average in the
        projections' biases."""
        for layer in range(mask.n_layers):
            attention = self.attention(model, layer)
            centred = attention.get_submodule(self.layout.projection)
            if isinstance(centred, Centred):
                plain = centred.folded(sorted(mask.cut_in(layer)), self.head_dim)
                attention.set_submodule(self.layout.projection, plain)

    def make_room(self, model: nn.Module, mask: HeadMask) -> None:
        """Give, in place, every layer with a cut head an output bias to keep means in. For
        skeletons."""
        for layer in {layer for layer, _ in mask.cut}:
            projection = self.output_projection(model, layer)
            if projection.bias is None:
                rows = projection.weight.shape[1 - input_axis(projection)]
                set_bias(projection, projection.weight.new_zeros(rows))

    def zero_heads(self, model: nn.Module, mask: HeadMask) -> None:
        """Zero, in place, the output projection's weights that read a cut head. Shapes stay."""
        width = self.head_dim
        with torch.no_grad():
            for layer, head in mask.cut:
                projection = self.output_projection(model, layer)
                projection.weight.narrow(input_axis(projection), head * width, width).zero_()

    def cut_heads(self, model: nn.Module, mask: HeadMask) -> None:
        """Remove, in place, the cut heads' weights. The model is smaller and computes what the
        masked one does.

        Where heads cannot be cut out they are zeroed, and silenced so that no training brings them
        back.
        """
        if not self.cuts:
            self.zero_heads(model, mask)
        for layer in sorted({layer for layer, _ in mask.cut}):
            dead = mask.cut_in(layer)
            alive = [head for head in range(mask.n_heads) if head not in dead]
            if not self.cuts:
                keep = torch.tensor([float(head in alive) for head in range(mask.n_heads)])
                hook = by_gate(keep, self.head_dim)
                self.output_projection(model, layer).register_forward_pre_hook(hook)
                continue
            self._keep(self.attention(model, layer), alive)
            if not alive:
                self._empty(model, layer)

    def _keep(self, attention: nn.Module, heads: list[int]) -> None:
        """Shrink an attention module, in place, to these heads (ascending)."""
        layout, living = self.layout, self.layout.living(heads)
        for read in layout.reads:
            keep_outputs(attention.get_submodule(read.name), layout.kept(read, heads))
        keep_inputs(attention.get_submodule(layout.projection), span(heads, layout.width))
        for part, name, step in self._own_parameters(attention):
            keep_entries(part, name, span(heads, step))
        counts = (
            (_COUNTS, layout.heads, len(heads)),
            (_GROUPS, layout.groups, len(living)),
            (_WIDTHS, layout.heads * layout.width, len(heads) * layout.width),
        )
        for part in attention.modules():
            for names, old, new in counts:
                for name in names:
                    if part.__dict__.get(name) == old:
                        setattr(part, name, new)
        if layout.groups < layout.heads and heads:
            readers = layout.heads // layout.groups
            spread_unevenly(attention, [living.index(head // readers) for head in heads])
        if layout.biased and heads:
            bias_by_head(attention, heads, layout.heads)

    def _own_parameters(self, attention: nn.Module) -> Iterator[tuple[nn.Module, str, int]]:
        """Parameters of the attention itself that have a share per head, and its size: sinks,
        biases that stand apart from their projection."""
        for part in attention.modules():
            is_norm = "norm" in type(part).__name__.lower()
            if isinstance(part, nn.Linear) or is_transposed(part) or is_norm:
                continue
            for name in list(part._parameters):
                if name in self.layout.per_head:
                    yield part, name, 1
                elif name in self.layout.biases:
                    yield part, name, self.head_dim

    def _empty(self, model: nn.Module, layer: int) -> None:
        """Let a layer whose heads are all cut answer its output projection's bias, in place."""
        raise NotImplementedError


@final
class Decoder(Adapter):
    """A language model."""

    causal = True

    def backbone(self, model: Any) -> nn.Module:
        """All that lies below the language model's head, final norm included; its call gives
        `last_hidden_state`."""
        if model.base_model is not model:
            return model.base_model
        # Llama 4's text model: its prefix names a part of the whole with pictures.
        return self.holder(model)

    def holder(self, model: Any) -> nn.Module:
        """What goes through the blocks in every pass. Its output has `last_hidden_state`; its call
        may want other things than token ids (BERT), and OPT's `backbone` is not asked for texts."""
        return model.get_submodule(self.layout.holder)

    def blocks(self, model: Any) -> nn.ModuleList:
        return model.get_submodule(self.layout.blocks[0].rpartition(".")[0])

    def final_norm(self, model: nn.Module) -> nn.Module:
        """What stands between the last block and the output embeddings."""
        return nn.Sequential(*(model.get_submodule(name) for name in self.layout.after))

    def stand_in(self, model: nn.Module, layer: int, given: torch.Tensor) -> tuple[nn.Module, Any]:
        """A module of the layer, and what it answers where the output projection gives `given`
        [rows, tokens, hidden]: put in its place, the layer goes on from there.

        What attention adds to its projection's output (BLOOM: the residual) is known of families
        that are known; of others the projection alone is put in place.
        """
        if self.is_known:
            return self.attention(model, layer), (given, None)
        return self.output_projection(model, layer), given

    def logits(self, model: Any, hidden: torch.Tensor, normed: bool = False) -> torch.Tensor:
        """Logits [n, vocabulary] of hidden states [n, hidden]: the last block's, or (`normed`) the
        final norm's.

        Where FAMILIES does not name the family they come by the model's own code behind its last
        norm: soft caps and scales of logits come with it.
        """
        hidden = hidden if normed else self.final_norm(model)(hidden)
        if self.is_known:
            return model.get_output_embeddings()(hidden)
        ids = torch.zeros((1, 1), dtype=torch.long, device=hidden.device)
        with answers(self.holder(model), _Handed(hidden[None])):
            return model(input_ids=ids, use_cache=False).logits[0]

    def _empty(self, model: nn.Module, layer: int) -> None:
        block = model.get_submodule(self.layout.blocks[layer])
        without = NoHeads(layer, self.output_projection(model, layer))
        block.set_submodule(self.layout.attention, without)


class _Handed:
    """The output of a base model that has nothing but hidden states."""

    def __init__(self, hidden: torch.Tensor) -> None:
        self.last_hidden_state = hidden

    def __getattr__(self, name: str) -> None:
        return None

    def __getitem__(self, at: Any) -> Any:
        return self.last_hidden_state if at == 0 else () if isinstance(at, slice) else None


@final
class Encoder(Adapter):
    """A text classifier: an encoder, or a decoder with a classification head.

    A layer that lost all heads keeps its attention module with zero heads. The output projection
    has no inputs left and hands over its bias; the residual path and the LayerNorm stay. Attention
    probabilities are [batch, 0, tokens, tokens]. There is no key/value cache that would
    need `NoHeads`.
    """

    causal = False

    def __init__(self, layout: Layout, is_known: bool = False) -> None:
        super().__init__(layout, is_known)
        self.head, self.outputs, self.pooler = layout.head, layout.outputs, layout.pooler
        types = ("token_type_ids",) if layout.types else ()
        self.input_names = ("input_ids", "attention_mask", *types)
        """What the model takes of what a tokenizer gives."""

    def attention_probabilities(self, model: nn.Module, layer: int) -> nn.Module:
        """The module that returns (output, attention probabilities [batch, heads, tokens, tokens]).

        Heads are those that are left. The probabilities are the very tensor that is multiplied by
        the values, so gradients flow to it; `model(..., output_attentions=True).attentions` hands
        out the same ones, layer by layer.
        """
        return self.attention(model, layer).get_submodule(self.layout.weigher)

    def embeddings(self, model: Any) -> nn.Module:
        """The word embeddings: token ids [batch, tokens] -> [batch, tokens, hidden]."""
        return model.get_input_embeddings()

    def _empty(self, model: nn.Module, layer: int) -> None:
        if self.is_known:
            return  # its own code takes no heads as it is
        name, projection = self.layout.weigher, self.layout.projection
        weigher = self.attention(model, layer).get_submodule(name)
        if name and not projection.startswith(f"{name}."):
            emptied(weigher, "")
        elif all(isinstance(part, _BARE) or is_transposed(part) for part in weigher.children()):
            emptied(weigher, projection.removeprefix(f"{name}."))
