"""From a share to an exact number of heads."""

from __future__ import annotations


def exact_count(share: float, total: int) -> int:
    """int(share * total) as Algorithm 1 of FASP has it, without floating-point surprises: 0.29 of 100 is 29, not 28."""
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share {share} is outside [0, 1]")
    return int(share * total + 1e-9)
