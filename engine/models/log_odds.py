"""Log-odds of classes: what attributions are of, for two logits that rise together decide
nothing."""

from __future__ import annotations

import torch
from torch import Tensor


def log_odds(logits: Tensor) -> Tensor:
    """Of every class against all others, from logits [n, classes]."""
    sure = logits.log_softmax(-1)
    rest = [
        torch.cat([sure[:, :at], sure[:, at + 1 :]], 1).logsumexp(-1) for at in range(sure.shape[1])
    ]
    return sure - torch.stack(rest, dim=1)
