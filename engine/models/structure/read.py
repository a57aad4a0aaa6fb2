"""Where the heads of a transformer are: names and numbers, read off its modules and its config.
No weights are needed (the meta device will do).

An attention is known here by the one projection that its heads hand over to: [heads * width] in,
[hidden] out. What makes queries, keys and values are the other projections in it. How their outputs
are shared out among the heads is read off names and sizes, and proved on the loaded model
(proofs.py).

Refused, with a sentence that says why: models without attention in every layer (state-space and
linear-attention models), encoder-decoders, layers built unlike each other, and attention without
one output projection.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from engine.core.errors import RequestError, refusal, said_by
from engine.models import runtime  # noqa: F401
from engine.models.structure.cutting import is_transposed, takes_biases

_OUT = re.compile(
    r"(^|\.)(o|o_proj|out_proj|c_proj|dense|Wo|wo|out_lin|o_lin|out|output|post_proj)$"
)
_QUERY = re.compile(r"(^|\.)(q|query|queries|q_proj|query_proj|q_lin|wq)$", re.IGNORECASE)
_SHARED = re.compile(
    r"(^|\.)(k|v|key|value|k_proj|v_proj|key_proj|value_proj|k_lin|v_lin|wk|wv)$", re.IGNORECASE
)
_STACKED = ("Wqkv", "qkv_proj", "c_attn")
_PER_HEAD = (
    "query_key_value",
    "in_proj",
    "pos_proj",
    "pos_q_proj",
    "pos_key_proj",
    "pos_query_proj",
)
_INNER_NORMS = re.compile(r"(^|\.)(q|k|query|key|q_a|kv)_?(norm|layernorm|ln)$")
_NORMS = re.compile(
    r"^(norm|final_layernorm|final_layer_norm|ln_f|norm_f|final_norm|layer_norm|ln_out)$"
)
_POSITIONS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "n_ctx",
    "model_max_length",
)
_NO_LIMIT = 2048
"""Tokens for models without a limit of their own (ALiBi)."""
_OTHER_MIXERS = re.compile(
    r"Mamba|Rwkv|DeltaNet|SSM|LSTM|Conv|Recurrent|Linear.*Attention|Lightning|Fourier|Hyena"
)


@dataclass(frozen=True)
class Read:
    """A projection in an attention that is not the output projection, and how its outputs lie.

    kind: "heads", a block per query head; "groups", a block per key/value head; "stacked", all
    queries, then all keys, then all values; "" where it is not known.
    """

    name: str
    outputs: int
    kind: str


@dataclass(frozen=True)
class Layout:
    """Names are dotted: `blocks` in the model, `attention` in a block, `projection` and `reads` in
    the attention."""

    model_type: str
    kind: str
    """Name of the attention's class."""
    blocks: tuple[str, ...]
    attention: str
    projection: str
    reads: tuple[Read, ...]
    heads: int
    groups: int
    """Key/value heads: as many as `heads`, fewer where query heads share them."""
    width: int
    positions: int
    after: tuple[str, ...]
    """What stands between the last block and the output embeddings, in order."""
    fast: bool
    """Whether attention can be computed by sdpa with the same result."""
    per_head: tuple[str, ...] = ()
    """Parameters in the attention with one number per query head: sinks."""
    biases: tuple[str, ...] = ()
    """Parameters in the attention with `width` numbers per query head: biases apart from their
    projection."""
    biased: bool = False
    """Whether an attention is given position biases of all heads."""
    mixing: tuple[str, ...] = ()
    """Norms over all heads at once: a head cannot leave without changing them for the others."""
    transposed: bool = False
    """Whether projections hold their weights as [inputs, outputs] (GPT-2's Conv1D)."""
    depth: int = 0
    """How often the layers are gone through where they are fewer than the model is deep (ALBERT);
    else 0."""
    head: tuple[str, ...] = ()
    """Of a classifier: the modules that make up its head, the last layer last."""
    outputs: str = ""
    """Of a classifier: its last Linear."""
    pooler: tuple[str, ...] = ()
    """Of a classifier: its pooler, where it has one."""
    types: bool = False
    """Whether the model reads which of two texts a token belongs to."""
    whole: str = ""
    """Why no head can be cut out, "" where heads can: then heads are zeroed instead."""

    @property
    def holder(self) -> str:
        """Name of the module that goes through the blocks and what stands after them."""
        return self.blocks[0].rsplit(".", 2)[0]

    @property
    def weigher(self) -> str:
        """Name of the module in the attention that holds all projections but the output's: it
        weighs tokens. "" for the attention itself."""
        return min((read.name.rpartition(".")[0] for read in self.reads), key=len)

    def places(self, read: Read, head: int) -> list[slice]:
        """Outputs of a projection that a query head reads, shared ones included."""
        group = head // (self.heads // self.groups)
        if read.kind == "stacked":
            blocks = (head, self.heads + group, self.heads + self.groups + group)
            return [slice(at * self.width, (at + 1) * self.width) for at in blocks]
        shares, at = {"heads": (self.heads, head), "groups": (self.groups, group)}.get(
            read.kind, (0, 0)
        )
        size = read.outputs // shares if shares else 0
        return [slice(at * size, (at + 1) * size)] if size else []

    def rows(self, read: Read, head: int) -> list[int]:
        """The same, one by one."""
        return [row for at in self.places(read, head) for row in range(at.start, at.stop)]

    def kept(self, read: Read, heads: Sequence[int]) -> torch.Tensor:
        """Outputs of a projection that some of these heads read, ascending, [n] int64."""
        rows = {row for head in heads for row in self.rows(read, head)}
        return torch.tensor(sorted(rows), dtype=torch.long)

    def living(self, heads: Sequence[int]) -> list[int]:
        """Key/value heads that some of these heads read, ascending."""
        return sorted({head // (self.heads // self.groups) for head in heads})

    def said(self) -> str:
        """One line: how the model was read."""
        layers = f"{len(self.blocks)} layers" if len(self.blocks) > 1 else "1 layer"
        if self.depth:
            layers += f" gone through {self.depth} times, so that a head acts at every depth"
        keys = {self.heads: "", 1: " on one key/value head"}.get(
            self.groups, f" on {self.groups} key/value heads"
        )
        names = ", ".join(read.name.rpartition(".")[2] for read in self.reads)
        cut = "heads can be cut out"
        if self.whole:
            cut = f"heads are zeroed, not cut out: {self.whole}"
        return (
            f"Read off its modules: {layers} of {self.kind}, {self.heads} heads{keys}, "
            f"{self.width} wide, from {names} to {self.projection.rpartition('.')[2]}; {cut}."
        )


KEPT = 64
"""Layouts that are kept, the oldest goes first."""
_layouts: dict[str, Layout] = {}


def layout_of(config: Any, causal: bool) -> Layout:
    """The layout of the model that a config describes; nothing is loaded. RequestError says why
    there is none.

    causal: of its language model; else of its text classifier.
    """
    said = [type(config).__name__, config.to_dict(), causal]
    key = json.dumps(said, sort_keys=True, default=str)
    if key not in _layouts:
        if len(_layouts) >= KEPT:
            del _layouts[next(iter(_layouts))]
        model = _skeleton(config, causal)
        layout = _read(model, config)
        _layouts[key] = layout if causal else _with_head(model, layout)
    return _layouts[key]


def _skeleton(config: Any, causal: bool) -> nn.Module:
    """The model without weights. RequestError where transformers has none of this kind."""
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

    if getattr(config, "is_encoder_decoder", False):
        what = (
            f"{config.model_type!r} reads a text with one half and writes with the other"
            " (encoder-decoder): its heads are not those of one language model or one classifier."
        )
        raise _refusal(what, "Use a decoder, or an encoder with a classification head.")
    kind = AutoModelForCausalLM if causal else AutoModelForSequenceClassification
    try:
        with torch.device("meta"), torch.random.fork_rng(devices=[]):
            return kind.from_config(config, trust_remote_code=False)
    except Exception as error:  # transformers checks configs by whatever fails first
        what = f"describes a model that cannot be made: {type(error).__name__}, {said_by(error)}."
        raise refusal("config.json", what, "Fix the field that is named.") from error


def _read(model: nn.Module, config: Any) -> Layout:
    """The layout of a model. RequestError says why there is none."""
    if "text_config" in vars(config) and not getattr(config, "num_attention_heads", None):
        raise _refusal(
            "its config.json describes a model of several parts (text_config): pictures or sound"
            " come to its texts.",
            "Save its language model alone, with its own config.json and tokenizer, and give that.",
        )
    blocks, depth = _blocks(model, config)
    parts = [_attention(name, model.get_submodule(name)) for name in blocks]
    odd = [at for at, part in enumerate(parts) if part != parts[0]]
    if odd:
        raise _refusal(f"the attention of layer {odd[0]} is built unlike that of layer 0.")
    attention, projection, sizes = parts[0]
    module = model.get_submodule(blocks[0]).get_submodule(attention)
    last, heads = module.get_submodule(projection), _heads(config)
    width = _width(config, heads, (_sides(last) or (0, 0))[0])
    groups = _groups(config, heads, width, sizes)
    reads = [
        Read(name, size, _kind(name, size, heads, groups, width)) for name, size in sizes.items()
    ]
    own = {
        name.rpartition(".")[2]: len(one)
        for name, one in module.named_parameters()
        if one.dim() == 1 and name.rpartition(".")[2] not in ("weight", "bias")
    }
    shell = Layout(
        config.model_type,
        type(module).__name__,
        blocks,
        attention,
        projection,
        tuple(sorted(reads, key=lambda read: not _QUERY.search(read.name))),
        heads,
        groups,
        width,
        _positions(model, config),
        _after(model, blocks),
        _is_fast(model, config),
        per_head=tuple(name for name, size in own.items() if size == heads),
        biases=tuple(name for name, size in own.items() if size == heads * width),
        biased=any(takes_biases(part) for part in module.modules()),
        mixing=_mixing(module, {heads * width, groups * width} - {width}),
        transposed=is_transposed(last),
        depth=depth if depth > len(blocks) else 0,
    )
    return replace(shell, whole=_why_whole(module, shell))


def _with_head(model: Any, layout: Layout) -> Layout:
    """The layout with what else is to be known of a text classifier."""
    base = model.base_model_prefix
    head = [
        name
        for name, part in model.named_children()
        if name != base and any(True for _ in part.parameters())
    ]
    linears = [name for name, part in model.named_modules() if isinstance(part, nn.Linear)]
    poolers = [name for name, _ in model.base_model.named_children() if name == "pooler"]
    taken = inspect.signature(type(model).forward).parameters
    several = int(getattr(model.config, "type_vocab_size", 0) or 0) > 1
    return replace(
        layout,
        head=tuple(head),
        outputs=[name for name in linears if name.split(".")[0] in head][-1],
        pooler=tuple(f"{base}.{name}" for name in poolers),
        types="token_type_ids" in taken and several,
    )


def _refusal(
    what: str, fix: str = "Use a transformer whose heads end in one output projection."
) -> RequestError:
    return refusal("architecture", what, fix)


def _blocks(model: nn.Module, config: Any) -> tuple[tuple[str, ...], int]:
    """Names of the layers in order, and how deep the model is."""
    depth = getattr(config, "num_hidden_layers", None)
    if not isinstance(depth, int):
        raise _refusal("its config.json names no number of layers.")
    lists = {name: part for name, part in model.named_modules() if isinstance(part, nn.ModuleList)}
    whole = [name for name, part in lists.items() if len(part) == depth][:1]
    shared = [
        name
        for name, part in lists.items()
        if any(_is_attention(one) for one in part[0].children())
    ]
    if not whole and not shared:
        raise _refusal(
            f"none of its lists of modules has the {depth} layers that config.json names."
        )
    names = [f"{name}.{at}" for name in whole or shared for at in range(len(lists[name]))]
    return tuple(names), depth


def _is_attention(module: nn.Module) -> bool:
    return "Attention" in type(module).__name__ and not _OTHER_MIXERS.search(type(module).__name__)


def _attention(block: str, module: nn.Module) -> tuple[str, str, dict[str, int]]:
    """Names of the attention in a block and of its output projection, and the outputs of its other
    projections."""
    found: list[str] = []
    for name, part in module.named_modules():
        if name and _is_attention(part) and not any(name.startswith(f"{one}.") for one in found):
            found.append(name)
    if not found:
        raise _refusal(_why_no_attention(block, module))
    if len(found) > 1:
        raise _refusal(f"{block} has {len(found)} attentions: {', '.join(found)}.")
    attention = module.get_submodule(found[0])
    linears = {name: sides for name, part in attention.named_modules() if (sides := _sides(part))}
    out = [name for name in linears if _OUT.search(name)]
    if len(out) != 1:
        raise _refusal(
            f"{type(attention).__name__} has {len(out)} output projections that are known by name."
        )
    return found[0], out[0], {name: sides[1] for name, sides in linears.items() if name != out[0]}


def _why_no_attention(block: str, module: nn.Module) -> str:
    kinds = [type(part).__name__ for part in module.modules()]
    mixers = [name for name in kinds if _OTHER_MIXERS.search(name)]
    named = [name for name in mixers if not re.search(r"^Conv[12]d$|Layer$|Block$|Norm", name)]
    if mixers:
        return (
            f"{block} mixes tokens by {(named or mixers)[0]}, not by attention heads (state-space,"
            " recurrent or linear layers): there is no head to silence."
        )
    return f"{block} ({type(module).__name__}) has no attention, so there is no head to silence."


def _sides(module: Any) -> tuple[int, int] | None:
    """Inputs and outputs of a Linear or of GPT-2's Conv1D; None for anything else."""
    if isinstance(module, nn.Linear):
        return int(module.in_features), int(module.out_features)
    if is_transposed(module) and getattr(module, "weight", None) is not None:
        return int(module.nx), int(module.nf)
    return None


def _heads(config: Any) -> int:
    heads = getattr(config, "num_attention_heads", None)
    if not isinstance(heads, int) or heads < 1:
        raise _refusal("its config.json names no number of attention heads, or one per layer.")
    return heads


def _width(config: Any, heads: int, inputs: int) -> int:
    """Width of a head: what the output projection reads, shared out among the heads, is what
    config.json says."""
    named = getattr(config, "v_head_dim", None) or getattr(config, "head_dim", None)
    width = int(named or config.hidden_size // heads)
    if inputs != heads * width:
        raise _refusal(
            f"the output projection reads {inputs} numbers, {heads} heads of {width} would give "
            f"{heads * width}."
        )
    return width


def _groups(config: Any, heads: int, width: int, sizes: dict[str, int]) -> int:
    shared = {size for name, size in sizes.items() if _SHARED.search(name)}
    is_older = not getattr(config, "new_decoder_architecture", False)
    if len(shared) == 1 and min(shared) % width == 0:
        groups = shared.pop() // width
    elif getattr(config, "multi_query", False) and is_older:
        groups = 1
    else:
        named = (getattr(config, name, None) for name in ("num_key_value_heads", "num_kv_heads"))
        groups = int(next(filter(None, named), heads))
    if groups < 1 or heads % groups:
        what = f"{heads} query heads do not divide over {groups} key/value heads."
        raise refusal("config.json", what, "Fix config.json.")
    return groups


def _kind(name: str, size: int, heads: int, groups: int, width: int) -> str:
    """How the outputs of a projection lie, by name and size; "" where that is not known."""
    last = name.rpartition(".")[2]
    if _QUERY.search(name):
        return "heads" if size == heads * width else ""
    if _SHARED.search(name):
        return {groups * width: "groups", heads * width: "heads"}.get(size, "")
    is_stacked = last in _STACKED or (last == "query_key_value" and groups == 1 < heads)
    if size == (heads + 2 * groups) * width and is_stacked:
        return "stacked"
    return "heads" if last in _PER_HEAD and groups == heads and size % (heads * width) == 0 else ""


def _mixing(attention: nn.Module, wide: set[int]) -> tuple[str, ...]:
    """Names of norms over as many numbers as all heads have together."""
    return tuple(
        name
        for name, part in attention.named_modules()
        if "Norm" in type(part).__name__
        and _INNER_NORMS.search(name)
        and any(tuple(weight.shape) in {(one,) for one in wide} for weight in part.parameters())
    )


def _positions(model: nn.Module, config: Any) -> int:
    """Longest text in tokens; embeddings of positions that begin behind the padding's id have
    fewer."""
    named = (getattr(config, name, None) for name in _POSITIONS)
    most = int(next(filter(None, named), _NO_LIMIT))
    for name, part in model.named_modules():
        if name.endswith(".position_embeddings"):
            offset = getattr(part, "padding_idx", None)
            return most if offset is None else most - int(offset) - 1
    return most


def _after(model: nn.Module, blocks: tuple[str, ...]) -> tuple[str, ...]:
    holder = blocks[0].rsplit(".", 2)[0]
    parts = dict(model.get_submodule(holder).named_children())
    norms = [
        name for name, part in parts.items() if _NORMS.match(name) and "Norm" in type(part).__name__
    ]
    out = [name for name in ("project_out",) if parts.get(name) is not None]
    return tuple(f"{holder}.{name}" for name in (*norms[:1], *out))


def _is_fast(model: nn.Module, config: Any) -> bool:
    """sdpa has no soft caps and no sinks, and computes in no other precision."""
    asked = ("attn_logit_softcapping", "reorder_and_upcast_attn")
    can = bool(getattr(model, "_supports_sdpa", False))
    return can and not any(getattr(config, name, None) for name in asked)


def _why_whole(attention: nn.Module, layout: Layout) -> str:
    """Why heads of this layout cannot be cut out; "" where they can."""
    if layout.mixing:
        return f"{', '.join(layout.mixing)} normalise over all heads at once"
    if "residual" in inspect.signature(type(attention).forward).parameters:
        return "its attention adds the layer's input to what its heads give"
    lists = [name for name, part in attention.named_modules() if isinstance(part, nn.ModuleList)]
    if lists:
        return f"{lists[0]} holds a module per head"
    unknown = [read.name for read in layout.reads if not read.kind]
    if unknown:
        return f"how {', '.join(unknown)} are shared out among heads is not known"
    fused = [read.name for read in layout.reads if read.kind == "stacked"]
    if fused and layout.groups < layout.heads:
        return f"{fused[0]} is taken apart by numbers of config.json"
    return ""
