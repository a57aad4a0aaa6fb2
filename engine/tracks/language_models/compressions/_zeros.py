"""Setting weights to zero: which of a layer's, by an importance per weight."""

from __future__ import annotations

import torch

from engine.core.levels import exact_count


def lowest(importance: torch.Tensor, share: float) -> torch.Tensor:
    """True at the int(share·n) lowest of every row; ties go to the earlier one. importance [rows,
    n]."""
    order = importance.argsort(dim=1, stable=True)[:, : exact_count(share, importance.shape[1])]
    return torch.zeros_like(importance, dtype=torch.bool).scatter_(1, order, True)


def packed_bits(weight: torch.Tensor) -> float:
    """Bits per number where zeros are left out and one bit per number says where they are."""
    return 1.0 + 8.0 * weight.element_size() * float((weight != 0).float().mean())
