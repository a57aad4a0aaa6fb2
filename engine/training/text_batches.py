"""Batches of training texts in a seeded order, and a text classifier as a plain function from a
batch to logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engine.core.seeds import rng
from engine.training.batches import Batch


@dataclass(frozen=True)
class TextBatches:
    """Training texts of one set; `encode` turns texts (and second texts) into the model's inputs,
    padded.

    The order of an epoch depends on (seed, epoch) only, so a resumed run meets the same batches.
    """

    texts: Sequence[str]
    texts_b: Sequence[str] | None
    encode: Callable[[Sequence[str], Sequence[str] | None], dict[str, Tensor]]
    size: int
    seed: int

    @property
    def count(self) -> int:
        return len(self.texts)

    @property
    def per_epoch(self) -> int:
        """Batches of one epoch; the last one may be smaller."""
        return -(-self.count // self.size)

    def epoch(self, number: int) -> Iterator[Batch]:
        """All training texts once, in the order of this epoch."""
        order = rng("text batches", self.seed, number).permutation(self.count)
        for start in range(0, self.count, self.size):
            yield self._batch(order[start : start + self.size])

    def _batch(self, rows: np.ndarray) -> Batch:
        """The encoded texts of `rows` [batch], places in `texts`."""
        second = None if self.texts_b is None else [self.texts_b[row] for row in rows]
        inputs = self.encode([self.texts[row] for row in rows], second)
        return Batch(torch.as_tensor(rows, device=inputs["input_ids"].device), inputs)


class Logits(nn.Module):
    """A transformers classifier as a module of one argument: its encoded batch in, its logits
    out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.inner = model

    def forward(self, batch: dict[str, Any]) -> Tensor:
        """Logits of an encoded batch, [batch, classes]."""
        return self.inner(**batch).logits
