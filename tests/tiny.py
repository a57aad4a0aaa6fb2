"""Tiny random models, one family or variant each, for every adapter. Saved like any checkpoint, with a tokenizer.

The words are w0, w1, ... so that a text is easy to write down: "w3 w1 w4" is tokens 6 4 7 (0 to 2 are special).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import torch

from engine.models import runtime  # noqa: F401
from engine.models.load import LanguageModel, load_language_model

VOCABULARY = 48
SPECIAL = ("<unk>", "<s>", "</s>")

# name -> (model_type of config.json, settings); 3 layers x 4 heads of width 8, 64 positions
TINY: dict[str, tuple[str, dict]] = {
    "gpt2": ("gpt2", {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64}),
    "gpt_neo": (
        "gpt_neo",
        {
            "hidden_size": 32,
            "num_layers": 3,
            "num_heads": 4,
            "max_position_embeddings": 64,
            "window_size": 4,
            "attention_types": [[["global", "local", "global"], 1]],
            "intermediate_size": 64,
        },
    ),
    "gptj": ("gptj", {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64, "rotary_dim": 4}),
    "llama_grouped": (
        "llama",
        {
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 64,
        },
    ),
    "llama": (
        "llama",
        {
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "max_position_embeddings": 64,
            "attention_bias": True,
            "tie_word_embeddings": True,
        },
    ),
}


def build(name: str, folder: Path, seed: int = 0, **settings: object) -> Path:
    """Save the tiny model `name` into a folder. Weights are wide, so that every head visibly matters."""
    from transformers import AutoConfig, AutoModelForCausalLM

    model_type, own = TINY[name]
    config = AutoConfig.for_model(model_type, vocab_size=VOCABULARY, bos_token_id=1, eos_token_id=2, **(own | settings))
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # the same model whatever ran before
        model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            scale = 0.3 if parameter.dim() > 1 else 0.1
            parameter.add_(torch.randn(parameter.shape, generator=generator) * scale)
    model.save_pretrained(folder)
    save_tokenizer(folder)
    return folder


def save_tokenizer(folder: Path, size: int = VOCABULARY) -> None:
    """A word-level tokenizer of `size` tokens."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = [*SPECIAL, *(f"w{number}" for number in range(size - len(SPECIAL)))]
    plain = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=plain, unk_token="<unk>", bos_token="<s>", eos_token="</s>", model_max_length=64
    ).save_pretrained(folder)


@cache
def folder_of(name: str) -> Path:
    """The saved tiny model, made once per test session. Do not write into it."""
    return build(name, Path(mkdtemp(prefix=f"tiny-{name}-")))


def tiny_model(name: str, dtype: str = "float32") -> LanguageModel:
    """A fresh tiny model on the CPU."""
    return load_language_model(folder_of(name), device="cpu", dtype=dtype)


def text(*numbers: int) -> str:
    """text(3, 1) = "w3 w1"."""
    return " ".join(f"w{number}" for number in numbers)
