"""Reading a Layout off a model whose weights need not be there (the meta device will do).

Refused, with a sentence that says why: models without attention in every layer (state-space and
linear-attention models), encoder-decoders, layers built unlike each other, and attention without
one output projection.
"""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import replace
from functools import lru_cache
from typing import Any

from torch import nn

from engine.core.errors import Fault, RequestError, said_by
from engine.models import runtime  # noqa: F401
from engine.models.structure.layout import Layout, Read

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


def layout_of(config: Any, causal: bool) -> Layout:
    """The layout of the model that a config describes; nothing is loaded. RequestError says why
    there is none.

    causal: of its language model; else of its text classifier.
    """
    return _cached(
        json.dumps([type(config).__name__, causal, config.to_dict()], sort_keys=True, default=str),
        config,
    )


class _Keyed:
    """A config that counts as equal where its text is: the cache's key."""

    def __init__(self, text: str, config: Any) -> None:
        self.text, self.config = text, config

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and self.text == other.text


def _cached(text: str, config: Any) -> Layout:
    return _read(_Keyed(text, config), json.loads(text)[1])


@lru_cache(maxsize=64)
def _read(key: _Keyed, causal: bool) -> Layout:
    return read(skeleton(key.config, causal), key.config)


def skeleton(config: Any, causal: bool) -> nn.Module:
    """The model without weights. RequestError where transformers has none of this kind."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

    if getattr(config, "is_encoder_decoder", False):
        what = (
            f"{config.model_type!r} reads a text with one half and writes with the other"
            " (encoder-decoder): "
        )
        what += "its heads are not those of one language model or one classifier."
        raise RequestError(
            Fault("architecture", what, "Use a decoder, or an encoder with a classification head.")
        )
    kind = AutoModelForCausalLM if causal else AutoModelForSequenceClassification
    try:
        with torch.device("meta"), torch.random.fork_rng(devices=[]):
            return kind.from_config(config, trust_remote_code=False)
    except Exception as error:  # transformers checks configs by whatever fails first
        raise RequestError(
            Fault("config.json", f"describes no model: {said_by(error)}.", "Fix config.json.")
        ) from error


def read(model: nn.Module, config: Any) -> Layout:
    """The layout of a model. RequestError says why there is none."""
    if "text_config" in vars(config) and not getattr(config, "num_attention_heads", None):
        what = (
            "its config.json describes a model of several parts (text_config): pictures or sound"
            " come to its texts."
        )
        raise _refusal(
            what,
            "Save its language model alone, with its own config.json and tokenizer, and give that.",
        )
    blocks, layers = _blocks(model, config)
    parts = [_attention(name, model.get_submodule(name)) for name in blocks]
    heads = _heads(config)
    found = {
        (attention, projection, tuple(sizes.items())) for attention, projection, sizes in parts
    }
    if len(found) > 1:
        odd = next(at for at, part in enumerate(parts) if part != parts[0])
        raise _refusal(f"the attention of layer {odd} is built unlike that of layer 0.")
    attention, projection, sizes = parts[0]
    module = model.get_submodule(blocks[0]).get_submodule(attention)
    inputs, _ = _sides(module.get_submodule(projection)) or (0, 0)
    width = _width(config, heads, inputs)
    groups = _groups(config, heads, width, sizes)
    reads = tuple(
        Read(name, size, _kind(name, size, heads, groups, width)) for name, size in sizes.items()
    )
    mixing = _mixing(module, heads, groups, width)
    own = {
        name.rpartition(".")[2]: tuple(one.shape)
        for name, one in module.named_parameters()
        if one.dim() == 1
    }
    per_head = tuple(
        name for name, shape in own.items() if shape == (heads,) and name not in ("weight", "bias")
    )
    biases = tuple(
        name
        for name, shape in own.items()
        if shape == (heads * width,) and name not in ("weight", "bias")
    )
    last, biased = module.get_submodule(projection), _is_biased(module)
    shell = Layout(
        config.model_type,
        type(module).__name__,
        blocks,
        attention,
        projection,
        reads,
        heads,
        groups,
        width,
        _positions(model, config),
        _after(model, blocks),
        _is_fast(model, config),
        per_head,
        biases,
        biased,
        mixing,
        hasattr(last, "nf"),
        layers if layers > len(blocks) else 0,
    )
    return replace(shell, whole=_why_whole(module, shell, config))


def _refusal(
    what: str, fix: str = "Use a transformer whose heads end in one output projection."
) -> RequestError:
    return RequestError(Fault("architecture", what, fix))


def _blocks(model: nn.Module, config: Any) -> tuple[tuple[str, ...], int]:
    """Names of the layers in order, and how deep the model is."""
    depth = getattr(config, "num_hidden_layers", None)
    if not isinstance(depth, int):
        raise _refusal("its config.json names no number of layers.")
    lists = {name: part for name, part in model.named_modules() if isinstance(part, nn.ModuleList)}
    mine = [name for name, part in lists.items() if len(part) == depth]
    if mine:
        return tuple(f"{mine[0]}.{at}" for at in range(depth)), depth
    shared = [
        name
        for name, part in lists.items()
        if any(_is_attention(one) for one in part[0].children())
    ]
    if not shared:
        raise _refusal(
            f"none of its lists of modules has the {depth} layers that config.json names."
        )
    return tuple(f"{name}.{at}" for name in shared for at in range(len(lists[name]))), depth


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
    mixers = [
        type(part).__name__
        for part in module.modules()
        if _OTHER_MIXERS.search(type(part).__name__)
    ]
    named = [
        name for name in mixers if not re.search(r"^Conv[12]d$|Layer$|Block$|Norm", name)
    ] or mixers
    if named:
        return (
            f"{block} mixes tokens by {named[0]}, not by attention heads (state-space, recurrent or"
            " linear layers): there is no head to silence."
        )
    return f"{block} ({type(module).__name__}) has no attention, so there is no head to silence."


def _sides(module: Any) -> tuple[int, int] | None:
    """Inputs and outputs of a Linear or of GPT-2's Conv1D; None for anything else."""
    weight = getattr(module, "weight", None)
    if isinstance(module, nn.Linear):
        return int(module.in_features), int(module.out_features)
    if hasattr(module, "nf") and weight is not None and weight.dim() == 2:
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
    said = (
        getattr(config, "v_head_dim", None)
        or getattr(config, "head_dim", None)
        or config.hidden_size // heads
    )
    if inputs != heads * said:
        what = (
            f"the output projection reads {inputs} numbers, {heads} heads of {said} would hand over"
            f" {heads * said}."
        )
        raise _refusal(what)
    return int(said)


def _groups(config: Any, heads: int, width: int, sizes: dict[str, int]) -> int:
    shared = [size for name, size in sizes.items() if _SHARED.search(name)]
    if shared and len(set(shared)) == 1 and shared[0] % width == 0:
        groups = shared[0] // width
    elif getattr(config, "multi_query", False) and not getattr(
        config, "new_decoder_architecture", False
    ):
        groups = 1
    else:
        groups = int(
            getattr(config, "num_key_value_heads", None)
            or getattr(config, "num_kv_heads", None)
            or heads
        )
    if groups < 1 or heads % groups:
        raise _refusal(
            f"{heads} query heads do not divide over {groups} key/value heads.", "Fix config.json."
        )
    return groups


def _kind(name: str, size: int, heads: int, groups: int, width: int) -> str:
    """How the outputs of a projection lie, by name and size; "" where that is not known."""
    last = name.rpartition(".")[2]
    if _QUERY.search(name):
        return "heads" if size == heads * width else ""
    if _SHARED.search(name):
        return "heads" if size == heads * width else "groups" if size == groups * width else ""
    stacked = (heads + 2 * groups) * width
    if size == stacked and (
        last in _STACKED or (last == "query_key_value" and groups == 1 < heads)
    ):
        return "stacked"
    return "heads" if last in _PER_HEAD and groups == heads and size % (heads * width) == 0 else ""


def _mixing(attention: nn.Module, heads: int, groups: int, width: int) -> tuple[str, ...]:
    wide = {heads * width, groups * width} - {width}
    return tuple(
        name
        for name, part in attention.named_modules()
        if "Norm" in type(part).__name__
        and re.search(r"(^|\.)(q|k|query|key|q_a|kv)_?(norm|layernorm|ln)$", name)
        and (weight := getattr(part, "weight", None)) is not None
        and tuple(weight.shape) in {(one,) for one in wide}
    )


def _is_biased(attention: nn.Module) -> bool:
    taken = [inspect.signature(type(part).forward).parameters for part in attention.modules()]
    return any(name in one for one in taken for name in ("position_bias", "alibi"))


def _positions(model: nn.Module, config: Any) -> int:
    """Longest text in tokens; embeddings of positions that begin behind the padding's id have
    fewer."""
    said = next(
        (int(value) for name in _POSITIONS if (value := getattr(config, name, None))), _NO_LIMIT
    )
    table = next(
        (part for name, part in model.named_modules() if name.endswith(".position_embeddings")),
        None,
    )
    offset = getattr(table, "padding_idx", None)
    return said if offset is None else said - int(offset) - 1


def _after(model: nn.Module, blocks: tuple[str, ...]) -> tuple[str, ...]:
    holder = blocks[0].rsplit(".", 2)[0]
    parts = dict(model.get_submodule(holder).named_children())
    norms = [
        name for name, part in parts.items() if _NORMS.match(name) and "Norm" in type(part).__name__
    ]
    out = [name for name in ("project_out",) if parts.get(name) is not None]
    return tuple(f"{holder}.{name}" for name in (*norms[:1], *out))


def _is_fast(model: nn.Module, config: Any) -> bool:
    """sdpa has no soft caps and no sinks."""
    return bool(getattr(model, "_supports_sdpa", False)) and not getattr(
        config, "attn_logit_softcapping", None
    )


def _why_whole(attention: nn.Module, layout: Layout, config: Any) -> str:
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
    fused = [
        read.name
        for read in layout.reads
        if read.kind == "stacked" and layout.groups < layout.heads
    ]
    if fused:
        return f"{fused[0]} is taken apart by numbers of config.json"
    return ""
