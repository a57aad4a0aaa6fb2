"""Where the heads of a transformer are, as read off its modules and its config: names and numbers,
no weights.

An attention is known here by the one projection that its heads hand over to: [heads * width] in,
[hidden] out. What makes queries, keys and values are the other projections in it; how their outputs
are shared out among the heads is read off names and sizes, and proved on the loaded model
(proofs.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Read:
    """A projection in an attention that is not the output projection, and how its outputs lie.

    kind: "heads", a block per query head; "groups", a block per key/value head; "stacked", all
    queries, then all keys, then all values; "" where it is not known.
    """

    name: str
    outputs: int
    kind: str

    def rows(self, head: int, heads: int, groups: int, width: int) -> torch.Tensor:
        """Its outputs that a query head reads, shared ones included, [n] int64."""
        if self.kind == "heads":
            return _block(head, self.outputs // heads)
        group = head // (heads // groups)
        if self.kind == "groups":
            return _block(group, self.outputs // groups)
        if self.kind == "stacked":
            keys, values = heads + group, heads + groups + group
            return torch.cat([_block(place, width) for place in (head, keys, values)])
        return torch.zeros(0, dtype=torch.long)


@dataclass(frozen=True)
class Layout:
    """Names are dotted: `blocks` in the model, `attention` in a block, `projection` and `reads` in
    the attention."""

    model_type: str
    kind: str
    """Name of the attention's class."""
    blocks: tuple[str, ...]
    attention: str
    projection: str
    reads: tuple[Read, ...]
    heads: int
    groups: int
    """Key/value heads: as many as `heads`, fewer where query heads share them."""
    width: int
    positions: int
    after: tuple[str, ...]
    """What stands between the last block and the output embeddings, in order."""
    fast: bool
    """Whether attention can be computed by sdpa with the same result."""
    per_head: tuple[str, ...] = ()
    """Parameters in the attention with one number per query head: sinks."""
    biases: tuple[str, ...] = ()
    """Parameters in the attention with `width` numbers per query head: biases apart from their
    projection."""
    biased: bool = False
    """Whether an attention is given position biases of all heads."""
    mixing: tuple[str, ...] = ()
    """Norms over all heads at once: a head cannot leave without changing them for the others."""
    transposed: bool = False
    """Whether projections hold their weights as [inputs, outputs] (GPT-2's Conv1D)."""
    depth: int = 0
    """How often the layers are gone through where they are fewer than the model is deep (ALBERT);
    else 0."""
    whole: str = ""
    """Why no head can be cut out, "" where heads can: then heads are zeroed instead."""

    @property
    def holder(self) -> str:
        """Name of the module that goes through the blocks and what stands after them."""
        return self.blocks[0].rsplit(".", 2)[0]

    def rows(self, read: Read, head: int) -> torch.Tensor:
        """Outputs of a projection that a head reads, [n] int64."""
        return read.rows(head, self.heads, self.groups, self.width)

    def kept(self, read: Read, heads: Sequence[int]) -> torch.Tensor:
        """Outputs of a projection that some of these heads read, ascending, [n] int64."""
        rows = [self.rows(read, head) for head in heads] or [torch.zeros(0, dtype=torch.long)]
        return torch.unique(torch.cat(rows))

    def living(self, heads: Sequence[int]) -> list[int]:
        """Key/value heads that some of these heads read, ascending."""
        return sorted({head // (self.heads // self.groups) for head in heads})

    def said(self) -> str:
        """One line: how the model was read."""
        layers = f"{len(self.blocks)} layers" if len(self.blocks) > 1 else "1 layer"
        if self.depth:
            layers += f" gone through {self.depth} times, so that a head acts at every depth"
        keys = {self.heads: "", 1: " on one key/value head"}.get(
            self.groups, f" on {self.groups} key/value heads"
        )
        names = ", ".join(read.name.rpartition(".")[2] for read in self.reads)
        cut = (
            f"heads are zeroed, not cut out: {self.whole}" if self.whole else "heads can be cut out"
        )
        return (
            f"Read off its modules: {layers} of {self.kind}, {self.heads} heads{keys}, "
            f"{self.width} wide, from {names} to {self.projection.rpartition('.')[2]}; {cut}."
        )


def _block(place: int, size: int) -> torch.Tensor:
    return torch.arange(place * size, (place + 1) * size)
