"""Ids of levels, and randomness that does not depend on batch size, order or device.

Every prompt owns a stream. A number is a pure function of (key, step, token). So a variant of a
model that meets the same prompt draws the same numbers as the dense model (common random numbers).
Levels (how much is cut: a sparsity, a speedup, a strength, a γ) are told apart by an id, never
compared as floats.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd


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


MILLION = 1_000_000
ROUNDING = 1e-9
"""Products that are whole numbers but for their last digits count as such."""


def level_id(value: float) -> int:
    """The level in millionths: two numbers that were asked for as the same level have the same
    id."""
    return round(value * MILLION)


def at_level(column: pd.Series, value: float) -> pd.Series:
    """Which entries of a column of levels are this level (bools); an entry that is NaN is at no
    level."""
    return (column * MILLION).round() == level_id(value)


def is_level(value: float, levels: Iterable[float]) -> bool:
    """Whether a level is one of several."""
    return level_id(value) in map(level_id, levels)


def exact_count(share: float, total: int) -> int:
    """int(share * total) as Algorithm 1 of FASP has it, without floating-point surprises: 0.29 of
    100 is 29, not 28."""
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share {share} is outside [0, 1]")
    return int(share * total + ROUNDING)
