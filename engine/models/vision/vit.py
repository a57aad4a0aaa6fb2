"""torchvision's vision transformers by name; their units are heads.

torchvision packs queries, keys and values into one tensor and never calls the layers of its
attention, so that nothing could be silenced in it. Here each attention is four linear layers with
the same numbers; weight files come as published (packed) or as saved here.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.models.vision.base import Attention
from engine.models.vision.torchvision_cnns import TorchvisionModels

_PACKED = "self_attention.in_proj_"
_PARTS = ("q_proj", "k_proj", "v_proj", "out_proj")


class SplitAttention(nn.Module):
    """nn.MultiheadAttention over one input [batch, tokens, width], as four linear layers."""

    def __init__(self, whole: nn.MultiheadAttention) -> None:
        super().__init__()
        self.head_dim, width = whole.head_dim, whole.embed_dim
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(width, width) for _ in range(3))
        self.out_proj = nn.Linear(width, width)
        packed = {
            f"{_PACKED}{name}": getattr(whole, f"in_proj_{name}").detach()
            for name in ("weight", "bias")
        }
        own = {key.removeprefix("self_attention."): part for key, part in unpacked(packed).items()}
        self.load_state_dict(
            {
                **own,
                **{f"out_proj.{name}": one for name, one in whole.out_proj.state_dict().items()},
            }
        )

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, need_weights: bool = False
    ) -> tuple[Tensor, None]:
        """As torchvision's blocks call it: the three are one tensor."""
        parts = (self.q_proj(query), self.k_proj(key), self.v_proj(value))
        q, k, v = (part.unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for part in parts)
        return (
            self.out_proj(
                functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            ),
            None,
        )


class TorchvisionViT(TorchvisionModels):
    """Patches of 14, 16 or 32 pixels; images of one size only, for every place has numbers of its
    own."""

    names = ("vit_b_16", "vit_b_32", "vit_l_16", "vit_l_32", "vit_h_14")
    min_size = 224
    is_fixed = has_heads = True
    mark = "encoder.pos_embedding"

    def build(self, name: str, n_classes: int) -> nn.Module:
        return split(super().build(name, n_classes))

    def attentions(self, model: nn.Module) -> tuple[Attention, ...]:
        return tuple(
            Attention(name, module.head_dim, tuple(f"{name}.{part}" for part in _PARTS))
            for name, module in model.named_modules()
            if isinstance(module, SplitAttention)
        )

    def renamed(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        return unpacked(state)


def split(model: nn.Module) -> nn.Module:
    """A model of torchvision, in place, whose attentions are linear layers."""
    for module in list(model.modules()):
        whole = getattr(module, "self_attention", None)
        if isinstance(whole, nn.MultiheadAttention):
            module.self_attention = SplitAttention(whole)
    return model


def unpacked(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors by name, packed queries, keys and values taken apart."""
    found: dict[str, Tensor] = {}
    for name, tensor in state.items():
        before, packed, kind = name.partition(_PACKED)
        if not packed or tensor.shape[0] % 3:
            found[name] = tensor
            continue
        for part, rows in zip(_PARTS, torch.chunk(tensor, 3), strict=False):
            found[f"{before}self_attention.{part}.{kind}"] = rows.contiguous()
    return found
