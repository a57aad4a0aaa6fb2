"""Tiny GGUF files, written as llama.cpp's converter writes them: names, order of rows, fields."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter
from safetensors.torch import load_file
from transformers import AutoConfig
from transformers.convert_slow_tokenizer import bytes_to_unicode

from tests.tiny import build

SPECIAL = ("<unk>", "<s>", "</s>", "<mask>")
WORDS = (*SPECIAL, *bytes_to_unicode().values(), "he", "th", "the", "Ġthe", "er", "an")
MERGES = ("h e", "t h", "t he", "Ġ the", "e r", "a n")
"""A vocabulary of bytes, as GPT-2's."""


def base(name: str, folder: Path, **settings: object) -> Path:
    """The tiny model that a file is made of, with room for `WORDS`."""
    return build(name, folder, vocab_size=len(WORDS), **settings)


def architecture_of(config: Any) -> str:
    return {"gemma3_text": "gemma3"}.get(config.model_type, config.model_type)


def fields_of(config: Any) -> dict[str, Any]:
    """What the header says of a model's shape, without the architecture's name before it."""
    heads = config.num_attention_heads
    rotary = (getattr(config, "rope_parameters", None) or {}).get("rope_theta")
    norm = getattr(config, "rms_norm_eps", None)
    plain = getattr(config, "layer_norm_epsilon", getattr(config, "norm_epsilon", None))
    found = {
        "block_count": config.num_hidden_layers,
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "feed_forward_length": getattr(config, "intermediate_size", 4 * config.hidden_size),
        "attention.head_count": heads,
        "attention.head_count_kv": getattr(config, "num_key_value_heads", None),
        "attention.layer_norm_rms_epsilon": norm,
        "attention.layer_norm_epsilon": plain,
        "rope.freq_base": rotary,
        "rope.dimension_count": config.hidden_size // heads if rotary else None,
        "attention.key_length": getattr(config, "head_dim", None),
        "attention.sliding_window": getattr(config, "sliding_window", None),
        "vocab_size": config.vocab_size,
    }
    return {name: value for name, value in found.items() if value is not None}


def as_converted(arch: str, name: str, tensor: torch.Tensor, config: Any) -> torch.Tensor:
    """What convert_hf_to_gguf.py makes of a tensor before it is written."""
    if arch == "llama" and (".attn_q." in name or ".attn_k." in name):
        heads = config.num_attention_heads if ".attn_q." in name else config.num_key_value_heads
        halves = tensor.reshape(heads, 2, tensor.shape[0] // heads // 2, *tensor.shape[1:])
        return halves.swapaxes(1, 2).reshape(tensor.shape)
    if arch == "gpt2" and name.endswith(
        ("attn_qkv.weight", "attn_output.weight", "ffn_up.weight", "ffn_down.weight")
    ):
        return tensor.T
    if arch == "gemma2" and name.endswith("norm.weight"):
        return tensor + 1
    return tensor


def write(
    path: Path,
    folder: Path,
    kind: str = "F32",
    *,
    fields: Mapping[str, Any] | None = None,
    more: Mapping[str, np.ndarray] | None = None,
    leave_out: tuple[str, ...] = (),
    words: tuple[str, ...] = WORDS,
) -> dict[str, torch.Tensor]:
    """Write a folder's model as a GGUF file, matrices as numbers of `kind`; what the matrices stand
    for then, by the model's own names.

    fields: header fields to change (None: left out); more: tensors beside the model's.
    """
    config = AutoConfig.from_pretrained(folder)
    arch = architecture_of(config)
    head = {f"{arch}.{name}": value for name, value in fields_of(config).items()}
    head |= {
        "general.architecture": arch,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": list(words),
        "tokenizer.ggml.token_type": [3 if one in SPECIAL else 1 for one in words],
        "tokenizer.ggml.merges": list(MERGES),
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }
    head |= fields or {}
    writer = GGUFWriter(path, str(head.pop("general.architecture") or ""))
    for name, value in head.items():
        _add(writer, name, value)
    names = gguf.get_tensor_name_map(_number_of(arch), config.num_hidden_layers)
    meant = {}
    for own, tensor in load_file(folder / "model.safetensors").items():
        stem, _, end = own.rpartition(".")
        name = f"{names.get_name(stem)}.{end}"
        if name in leave_out or names.get_name(stem) is None:
            continue
        wide = tensor.dim() == 2 and not name.startswith("position")
        values, meant[own] = _kept(
            as_converted(arch, name, tensor, config), kind if wide else "F32"
        )
        meant[own] = _back(arch, name, meant[own], tensor, config)
        writer.add_tensor(name, values[0], raw_dtype=values[1])
    for name, array in (more or {}).items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return meant


def _number_of(arch: str) -> gguf.MODEL_ARCH:
    return next(number for number, name in gguf.MODEL_ARCH_NAMES.items() if name == arch)


def _add(writer: GGUFWriter, name: str, value: Any) -> None:
    if isinstance(value, list):
        writer.add_array(name, value)
    elif value is not None:
        LISTS_OF = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32}
        LISTS_OF.get(type(value), writer.add_string)(name, value)


def _kept(tensor: torch.Tensor, kind: str) -> tuple[tuple[np.ndarray, Any], torch.Tensor]:
    """Numbers as a file keeps them, with their type, and what they stand for."""
    plain = tensor.contiguous().numpy()
    if kind in ("F32", "F16"):
        held = plain.astype(np.float16 if kind == "F16" else np.float32)
        return (held, None), torch.from_numpy(held.astype(np.float32))
    number = GGMLQuantizationType[kind]
    if "_K" in kind or kind.startswith(("IQ", "TQ", "MX")):  # random, but finite
        rows, width = plain.shape
        block, size = gguf.GGML_QUANT_SIZES[number]
        drawn = np.random.default_rng(rows).integers(0, 59, (rows, width // block * size))
        held = drawn.astype(np.uint8)
    else:
        held = gguf.quantize(plain, number)
    return (held, number), torch.from_numpy(gguf.dequantize(held, number).astype(np.float32))


def _back(
    arch: str, name: str, meant: torch.Tensor, tensor: torch.Tensor, config: Any
) -> torch.Tensor:
    """The same in the model's own order: where its numbers went tells where they come from."""
    if arch == "gemma2" and name.endswith("norm.weight"):
        return meant - 1
    places = torch.arange(tensor.numel(), dtype=torch.float64).reshape(tensor.shape)
    moved = as_converted(arch, name, places, config).long()
    back = torch.empty(tensor.numel(), dtype=meant.dtype)
    back[moved.flatten()] = meant.flatten()
    return back.reshape(tensor.shape)
