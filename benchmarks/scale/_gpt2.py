"""Language models of GPT-2's vocabulary with random weights; as the program has it, of small's
shape: 124 million parameters, 12 layers of 12 heads."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import torch

from engine.models.load_language_model import LanguageModel, load_language_model
from engine.models.structure.adapter import Decoder


@cache
def gpt2(**shape: Any) -> LanguageModel:
    """It reads words with the tokenizer of the demo, which knows the first 428 of its 50,257
    tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    demo = load_language_model("demo-gpt2", device="cpu")
    config = GPT2Config(**shape, bos_token_id=2, eos_token_id=3, pad_token_id=0)
    model = GPT2LMHeadModel(config).eval().requires_grad_(False)
    return replace(
        demo,
        name="GPT-2's shape",
        model=model,
        adapter=Decoder.of(config),
        weight_hash="random weights, seed 0",
    )
