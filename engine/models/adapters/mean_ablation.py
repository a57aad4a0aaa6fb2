"""Mean ablation as zero ablation of a shifted model.

W y + b = W (y − m) + (b + W m): with the projection's input centred on the heads' means m and its
bias raised by W m the model computes what it did, and silencing a head's slice of (y − m) sets the
head to its mean. So masks, prefix reuse, gate gradients and cuts serve mean ablation unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import nn

if TYPE_CHECKING:
    from transformers.pytorch_utils import Conv1D

Projection: TypeAlias = "nn.Linear | Conv1D"


class Centred(nn.Module):
    """Stands where the output projection stood; `inner` is that projection with its bias raised.

    means: [heads * head_dim], what the heads of the layer hand over on average.
    """

    means: torch.Tensor
    plain_bias: torch.Tensor | None

    def __init__(self, inner: Projection, means: torch.Tensor) -> None:
        super().__init__()
        means = means.to(inner.weight)
        bias = inner.bias
        self.inner = inner
        self.register_buffer("means", means, persistent=False)
        self.register_buffer(
            "plain_bias", None if bias is None else bias.detach().clone(), persistent=False
        )
        raised = shift(inner, means) if bias is None else bias.detach() + shift(inner, means)
        set_bias(inner, raised, learned=bias is not None)

    def forward(self, heads: torch.Tensor) -> torch.Tensor:
        """heads [batch, tokens, heads * head_dim] -> [batch, tokens, hidden]."""
        return self.inner(heads - self.means)

    def folded(self, dead: Sequence[int], head_dim: int) -> nn.Module:
        """The plain projection, with what the dead heads hand over on average in its bias."""
        bias = self.plain_bias
        if dead:
            kept = torch.zeros_like(self.means)
            for head in dead:
                place = slice(head * head_dim, (head + 1) * head_dim)
                kept[place] = self.means[place]
            bias = shift(self.inner, kept) if bias is None else bias + shift(self.inner, kept)
        set_bias(self.inner, bias)
        return self.inner


def shift(projection: Projection, means: torch.Tensor) -> torch.Tensor:
    """W m, [hidden] in the weights' dtype, summed in float32; means m: [heads * head_dim]."""
    weight = projection.weight.detach().float()
    product = (
        means.float() @ weight if hasattr(projection, "nf") else weight @ means.float()
    )  # Conv1D is transposed
    return product.to(projection.weight.dtype)


def set_bias(projection: Projection, bias: torch.Tensor | None, learned: bool = True) -> None:
    """Replace the bias by `bias` [hidden], or none; `learned`: as a parameter that is saved, else
    as a buffer."""
    projection._parameters.pop("bias", None)
    projection._buffers.pop("bias", None)
    if learned or bias is None:
        wanted = projection.weight.requires_grad
        projection.register_parameter(
            "bias", None if bias is None else nn.Parameter(bias, requires_grad=wanted)
        )
    else:
        projection.register_buffer("bias", bias, persistent=False)
