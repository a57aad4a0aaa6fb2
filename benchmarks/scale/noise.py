"""The share of decoding that the noise takes: a vocabulary of 50,257 tokens, 128 texts at once."""

from __future__ import annotations

import time
from typing import Any
from unittest.mock import patch

from benchmarks.report import Measure
from benchmarks.scale._gpt2 import gpt2
from engine.core.types import Decoding
from engine.models import decode

BAR = 0.05
TEXTS, PROMPT, NEW = 128, 8, 8
"""Prompts shorter than real ones: reading them is part of decoding, so that the share is not
flattered."""


def measures() -> list[Measure]:
    lm, spent, plain = gpt2(), [0.0], decode.winners
    words = [word for word in list(lm.tokenizer.get_vocab()) if word.isalpha()]
    texts = [
        " ".join(words[(at + place) % len(words)] for place in range(PROMPT)) for at in range(TEXTS)
    ]

    def timed(*given: Any) -> Any:
        start = time.perf_counter()
        found = plain(*given)
        spent[0] += time.perf_counter() - start
        return found

    with patch.object(decode, "winners", timed):
        start = time.perf_counter()
        decode.sample(lm, texts, texts, [0] * TEXTS, Decoding(max_new_tokens=NEW), batch_size=TEXTS)
        whole = time.perf_counter() - start
    return [
        Measure(
            "noise, share of decoding time, vocabulary 50,257, batch 128", spent[0] / whole, "", BAR
        )
    ]
