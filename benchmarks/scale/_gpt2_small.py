"""A language model of GPT-2 small's shape with random weights: 124 million parameters, 12 layers of
12 heads."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import torch

from engine.models.load_language_model import LanguageModel, load_language_model


@cache
def gpt2_small() -> LanguageModel:
    """It reads words with the tokenizer of the demo, which knows the first 428 of its 50,257
    tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    demo = load_language_model("demo-gpt2", device="cpu")
    config = GPT2Config(bos_token_id=2, eos_token_id=3, pad_token_id=0)
    model = GPT2LMHeadModel(config).eval().requires_grad_(False)
    return replace(
        demo, name="GPT-2 small's shape", model=model, weight_hash="random weights, seed 0"
    )
