"""Tiny random models, one family or variant each, for every adapter. Saved like any checkpoint,
with a tokenizer.

The words are w0, w1, ... so that a text is easy to write down: "w3 w1 w4" is tokens 6 4 7 (0 to 2
are special); for encoders, which are text classifiers here, 8 6 9 between 2 and 3 (0 to 4 are
special).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch

from engine.models import runtime  # noqa: F401
from engine.models.checkpoint import load_tokenizer
from engine.models.load_language_model import LanguageModel, load_language_model
from engine.models.load_text_classifier import TextClassifier, load_text_classifier
from engine.models.transformer import TransformerModel

VOCABULARY = 48
SPECIAL = ("<unk>", "<s>", "</s>")
ENCODER_SPECIAL = ("<unk>", "<pad>", "<s>", "</s>", "<mask>")
CLASSES = ("red", "green", "blue")

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

_BERT = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
_ROBERTA = _BERT | {"max_position_embeddings": 66, "type_vocab_size": 1}
ENCODERS: dict[str, tuple[str, dict]] = {
    "bert": ("bert", _BERT),
    "distilbert": (
        "distilbert",
        {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 64},
    ),
    "roberta": ("roberta", _ROBERTA),
    "xlm_roberta": ("xlm-roberta", _ROBERTA),
    "camembert": ("camembert", _ROBERTA),
}
EVERY = TINY | ENCODERS

_ROTARY = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
_OLDER = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
_EXPERTS = _ROTARY | {"num_local_experts": 4}
_WINDOWS = {
    "sliding_window": 4,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}
# Families that are not known: read by their structure, and proved each time.
DECODERS: dict[str, tuple[str, dict]] = {
    "opt": ("opt", _OLDER | {"ffn_dim": 48, "word_embed_proj_dim": 32}),
    "opt_narrow": (  # as opt-350m: narrower embeddings, norms behind, none at the end
        "opt",
        _OLDER | {"ffn_dim": 48, "word_embed_proj_dim": 16, "do_layer_norm_before": False},
    ),
    "gpt_neox": ("gpt_neox", _OLDER | {"intermediate_size": 48}),
    "bloom": ("bloom", {"hidden_size": 32, "n_layer": 3, "n_head": 4, "seq_length": 64}),
    "falcon": ("falcon", _OLDER),
    "falcon_alibi": ("falcon", _OLDER | {"alibi": True, "multi_query": False, "bias": True}),
    "falcon_grouped": ("falcon", _OLDER | {"new_decoder_architecture": True, "num_kv_heads": 2}),
    "mpt": (
        "mpt",
        {"d_model": 32, "n_heads": 4, "n_layers": 3, "max_seq_len": 64, "expansion_ratio": 2},
    ),
    "phi": ("phi", _OLDER | {"intermediate_size": 48}),
    "phi3": ("phi3", _ROTARY),
    "qwen2": ("qwen2", _ROTARY | {"vocab_size": 56}),  # its tokenizer class adds a token of its own
    "qwen3": ("qwen3", _ROTARY),
    "mistral": ("mistral", _ROTARY | {"sliding_window": 4}),
    "mixtral": ("mixtral", _EXPERTS),
    "gpt_oss": ("gpt_oss", _EXPERTS | _WINDOWS),
    "llama4": (
        "llama4_text",
        _EXPERTS | {"intermediate_size_mlp": 32, "interleave_moe_layer_step": 1},
    ),
    "gemma": ("gemma", _ROTARY),
    "gemma2": ("gemma2", _ROTARY | _WINDOWS),
    "gemma3": ("gemma3_text", _ROTARY | _WINDOWS),
    "olmo": ("olmo", _ROTARY),
    "olmo2": ("olmo2", _ROTARY),
    "stablelm": ("stablelm", _ROTARY),
    "smollm3": ("smollm3", _ROTARY),
    "granite": ("granite", _ROTARY | {"logits_scaling": 2.0, "residual_multiplier": 0.5}),
    "cohere": ("cohere", _ROTARY),
    "starcoder2": ("starcoder2", _ROTARY),
    "qwen3_moe": (
        "qwen3_moe",
        _ROTARY | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    ),
    "glm": ("glm", _ROTARY),
}
_ENCODER = _BERT | {"intermediate_size": 48}
_RELATIVE = {
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "position_biased_input": False,
}
_BUCKETS = {"position_buckets": 8, "norm_rel_ebd": "layer_norm", "max_relative_positions": 16}
# The same of text classifiers: encoders, then decoders with a classification head.
CLASSIFIERS: dict[str, tuple[str, dict]] = {
    "electra": ("electra", _ENCODER | {"embedding_size": 16}),
    "deberta": ("deberta", _ENCODER | _RELATIVE | {"max_relative_positions": 16}),
    "deberta_v2": ("deberta-v2", _ENCODER | _RELATIVE | _BUCKETS | {"share_att_key": True}),
    "deberta_v2_own_keys": ("deberta-v2", _ENCODER | _RELATIVE | {"max_relative_positions": 16}),
    "albert": ("albert", _ENCODER | {"embedding_size": 16}),
    "mpnet": ("mpnet", _ENCODER | {"max_position_embeddings": 66}),
    "modernbert": (
        "modernbert",
        _ENCODER | {"global_attn_every_n_layers": 2, "local_attention": 8},
    ),
    "ernie": ("ernie", _ENCODER),
    "rembert": ("rembert", _ENCODER | {"input_embedding_size": 16, "output_embedding_size": 16}),
    "data2vec": ("data2vec-text", _ENCODER | {"max_position_embeddings": 66}),
    "gpt2_classifier": ("gpt2", TINY["gpt2"][1]),
    "llama_classifier": ("llama", TINY["llama_grouped"][1]),
    "qwen3_classifier": ("qwen3", _ROTARY),
    "opt_classifier": ("opt", _OLDER | {"ffn_dim": 48, "word_embed_proj_dim": 32}),
}
STRUCTURAL = DECODERS | CLASSIFIERS
READ_WHOLE = {**ENCODERS, **CLASSIFIERS}


def build(name: str, folder: Path, seed: int = 0, **settings: object) -> Path:
    """Save the tiny model `name` into a folder. Weights are wide, so that every head visibly
    matters."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

    model_type, own = (EVERY | STRUCTURAL)[name]
    kind: Any
    if name in READ_WHOLE:
        kind, special = (
            AutoModelForSequenceClassification,
            {"pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3},
        )
        own = {
            "id2label": dict(enumerate(CLASSES)),
            "label2id": {one: at for at, one in enumerate(CLASSES)},
        } | own
    else:
        kind, special = AutoModelForCausalLM, {"bos_token_id": 1, "eos_token_id": 2}
    config = AutoConfig.for_model(
        model_type, **({"vocab_size": VOCABULARY} | own | special | settings)
    )
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # the same model whatever ran before
        model = kind.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            scale = 0.3 if parameter.dim() > 1 else 0.1
            parameter.add_(torch.randn(parameter.shape, generator=generator) * scale)
    model.save_pretrained(folder)
    (save_encoder_tokenizer if name in READ_WHOLE else save_tokenizer)(folder)
    return folder


def save_tokenizer(folder: Path, size: int = VOCABULARY) -> None:
    """A word-level tokenizer of `size` tokens."""
    from transformers import PreTrainedTokenizerFast

    PreTrainedTokenizerFast(
        tokenizer_object=_words(SPECIAL, size),
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        model_max_length=64,
    ).save_pretrained(folder)


def save_encoder_tokenizer(folder: Path, size: int = VOCABULARY) -> None:
    """A word-level tokenizer of `size` tokens: <s> text </s>, and <s> text </s> text </s> for
    two."""
    from tokenizers import processors
    from transformers import PreTrainedTokenizerFast

    plain = _words(ENCODER_SPECIAL, size)
    plain.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> $B:1 </s>:1",
        special_tokens=[("<s>", 2), ("</s>", 3)],
    )
    PreTrainedTokenizerFast(
        tokenizer_object=plain,
        unk_token="<unk>",
        pad_token="<pad>",
        cls_token="<s>",
        sep_token="</s>",
        mask_token="<mask>",
        model_max_length=64,
    ).save_pretrained(folder)


def _words(special: tuple[str, ...], size: int) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = [*special, *(f"w{number}" for number in range(size - len(special)))]
    plain = Tokenizer(
        models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="<unk>")
    )
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    return plain


@cache
def folder_of(name: str) -> Path:
    """The saved tiny model, made once per test session. Do not write into it."""
    return build(name, Path(mkdtemp(prefix=f"tiny-{name}-")))


def tiny_model(name: str, dtype: str = "float32") -> TransformerModel:
    """A fresh tiny model on the CPU: a language model, or a text classifier where the family is an
    encoder."""
    if name in READ_WHOLE:
        return tiny_text_classifier(name, dtype=dtype)
    return tiny_language_model(name, dtype)


def tiny_language_model(name: str, dtype: str = "float32") -> LanguageModel:
    """A fresh tiny language model on the CPU."""
    lm = load_language_model(folder_of(name), device="cpu", dtype=dtype)
    if (
        name == "qwen2"
    ):  # transformers reads its tokenizers by a class that knows bytes, not our words
        return replace(lm, tokenizer=load_tokenizer(folder_of("qwen3")))
    return lm


def tiny_text_classifier(
    name: str = "bert", classes: Sequence[str] = CLASSES, **more: Any
) -> TextClassifier:
    """A fresh tiny text classifier on the CPU, with a trained head of three classes. more: see
    load_text_classifier."""
    more = {"max_length": 64, "new_head": tuple(classes) != CLASSES} | more
    return load_text_classifier(folder_of(name), classes, device="cpu", **more)


def text(*numbers: int) -> str:
    """text(3, 1) = "w3 w1"."""
    return " ".join(f"w{number}" for number in numbers)


TEXTS = [text(3, 1, 4, 1, 5), text(9), text(2, 6, 5, 3, 5, 8)]
"""Of several lengths."""
