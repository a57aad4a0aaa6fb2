"""The Gumbel noise of every prompt, step and token, and the token that wins with it.

The noise is a pure function of (stream key, step, token): 53 bits of SplitMix64, then −log(−log u)
in double precision. Which token wins hardly needs it: a bound of the noise read off the upper bits,
in single precision, leaves one or two tokens of a vocabulary, and only theirs is computed. The
winner is to the bit that of all the noise.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch

_GOLDEN = (
    -7046029254386353131
)  # 0x9E3779B97F4A7C15 as int64, the increment of SplitMix64 (Steele et al. 2014)
_MIX1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MIX2 = -7723592293110705685  # 0x94D049BB133111EB
BLOCK = 65_536
"""Numbers handled at once on a CPU: few enough to stay in its cache."""
_SLOPE, _TOP = -math.log(2) * 2.0**-23, math.log(2) * (31 + 127) + 1e-4
"""−log of what a float32's bits at least stand for, as a straight line of these bits (see
`_bounds`)."""


def gumbel(keys: torch.Tensor, step: int | torch.Tensor, vocabulary: int) -> torch.Tensor:
    """Standard Gumbel noise, [rows, vocabulary] float32, of one step or each row's own, [rows]
    int64.

    keys: stream keys, [rows] int64.
    """
    tokens = torch.arange(1, vocabulary + 1, device=keys.device, dtype=torch.int64)
    return _noise(_mix(_bases(keys, step)[:, None] + tokens * _GOLDEN))


def winners(
    logits: torch.Tensor, keys: torch.Tensor, step: int | torch.Tensor, near: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """argmax of logits + `gumbel`, [rows] int64, and by how much it leads, [rows] float32, never
    more than `near`.

    logits: [rows, vocabulary] float32, -inf where a token cannot come; the others as in `gumbel`. A
    tie goes to the lower token.
    """
    if logits.device.type != "cpu":
        scores = logits + gumbel(keys, step, logits.shape[-1])
        two = scores.topk(min(2, scores.shape[-1]), dim=-1).values
        return scores.argmax(-1), (two[:, 0] - two[:, -1]).clamp(max=near)
    found, leads = _won(
        logits.contiguous().numpy(), _bases(keys, step).numpy().view(np.uint64), near
    )
    return torch.from_numpy(found), torch.from_numpy(leads)


def _won(logits: np.ndarray, bases: np.ndarray, near: float) -> tuple[np.ndarray, np.ndarray]:
    """`winners` on a CPU: logits [rows, vocabulary] float32, bases [rows] uint64.

    The token that is first by the bound is computed; any that beats it, or comes near, has a bound
    that does.
    """
    at_most, rows = _bounds(logits, bases), np.arange(len(logits))
    lowest = _scores(logits, bases, rows, at_most.argmax(axis=1)) - np.float32(near)
    row, token = np.divmod(np.flatnonzero(at_most >= lowest[:, None]), logits.shape[1])
    scores = np.full(
        (len(logits), int(np.bincount(row, minlength=1).max(initial=1))), -np.inf, np.float32
    )
    starts = np.searchsorted(row, rows)
    scores[row, np.arange(len(row)) - starts[row]] = _scores(logits, bases, row, token)
    first = scores.argmax(axis=1)  # of a row's tokens the lower ones come first
    top = scores[rows, first]
    scores[rows, first] = -np.inf
    return token[starts + first], np.minimum(top - scores.max(axis=1), np.float32(near))


def _scores(
    logits: np.ndarray, bases: np.ndarray, row: np.ndarray, token: np.ndarray
) -> np.ndarray:
    """logits + noise of single tokens, [n] float32; row and token [n] int64."""
    hashed = _mix(
        torch.from_numpy(bases[row].view(np.int64)) + torch.from_numpy(token + 1) * _GOLDEN
    )
    return logits[row, token] + _noise(hashed).numpy()


def _bounds(logits: np.ndarray, bases: np.ndarray) -> np.ndarray:
    """What logits + noise is at most, and above it by little, [rows, vocabulary] float32; arguments
    as of `_won`.

    −log(−log u) ≤ −log(1 − u), whose upper 31 bits stand before the mixer's last step already, as
    that step leaves them alone; and log2 of a float32 is at least its bits as an integer, over
    2^23, less 127.
    """
    out, steps = np.empty(logits.shape, np.float32), _steps(logits.shape[1])
    rows = min(len(logits), max(1, BLOCK // logits.shape[1]))
    whole = np.empty((2, rows, logits.shape[1]), np.uint64)
    for at in range(0, len(logits), rows):
        part = slice(at, at + rows)
        mixed, spare = whole[:, : len(bases[part])]
        np.add(bases[part, None], steps, out=mixed)
        for bits, factor in ((30, _MIX1), (27, _MIX2)):
            np.right_shift(mixed, np.uint64(bits), out=spare)
            np.bitwise_xor(mixed, spare, out=mixed)
            np.multiply(mixed, np.uint64(factor % 2**64), out=mixed)
        np.invert(mixed, out=mixed)
        np.right_shift(mixed, np.uint64(33), out=mixed)
        left = mixed.view(np.int64).astype(np.float32)  # 1 − u in steps of 2^-31, rounded down
        bound = np.multiply(
            left.view(np.int32).astype(np.float32), np.float32(_SLOPE), out=out[part]
        )
        bound += np.float32(_TOP)
        bound += logits[part]
    return out


@lru_cache(maxsize=8)
def _steps(vocabulary: int) -> np.ndarray:
    """What each token adds to a row's base, [vocabulary] uint64."""
    return np.arange(1, vocabulary + 1, dtype=np.uint64) * np.uint64(_GOLDEN % 2**64)


def _bases(keys: torch.Tensor, step: int | torch.Tensor) -> torch.Tensor:
    """What a row's noise at a step grows from, [rows] int64."""
    return _mix(keys + (torch.zeros_like(keys) + step + 1) * _GOLDEN)


def _noise(mixed: torch.Tensor) -> torch.Tensor:
    """Gumbel noise of mixed bits, int64 of any shape, as float32."""
    uniform = (_shift(mixed, 11).double() + 0.5) * 2.0**-53
    return (-torch.log(-torch.log(uniform))).float()


def _shift(x: torch.Tensor, bits: int) -> torch.Tensor:
    """Logical right shift of int64, of any shape."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _mix(x: torch.Tensor) -> torch.Tensor:
    """SplitMix64's finaliser on int64 of any shape; overflow wraps by intent."""
    x = (x ^ _shift(x, 30)) * _MIX1
    x = (x ^ _shift(x, 27)) * _MIX2
    return x ^ _shift(x, 31)
