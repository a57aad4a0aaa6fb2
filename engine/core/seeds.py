"""Randomness that does not depend on batch size, order or device.

Every prompt owns a stream. A number is a pure function of (key, step, token), so a variant of a
model that meets the same prompt draws the same numbers as the dense model (common random numbers).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np


def key_of(*parts: object) -> int:
    """A 63-bit key from any printable parts; the same on every machine and Python version."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def stream_keys(seed: int, prompt_ids: Sequence[str]) -> np.ndarray:
    """One stream key per prompt, [prompts] int64."""
    return np.array([key_of("prompt", seed, prompt_id) for prompt_id in prompt_ids], dtype=np.int64)


def rng(*parts: object) -> np.random.Generator:
    """A numpy generator keyed by its purpose, e.g. rng("bootstrap", seed, axis)."""
    return np.random.Generator(np.random.Philox(key=key_of(*parts)))
