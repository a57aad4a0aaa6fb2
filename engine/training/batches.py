"""Batches of training images in a seeded order: from memory where they fit, else decoded ahead by
threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from engine.core.ids import rng

AHEAD = 3
"""Batches that are decoded before they are needed."""


@dataclass(frozen=True)
class Batch:
    """`rows` [batch]: places among the training examples; `inputs` as the model takes them.

    Those are images [batch, 3, H, W], or encoded texts: tensors [batch, tokens] by name.
    """

    rows: Tensor
    inputs: Any


class Feed(Protocol):
    """What a model is fitted on: `count` examples in `per_epoch` batches, in an order of (seed,
    epoch)."""

    @property
    def seed(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def per_epoch(self) -> int: ...
    def epoch(self, number: int) -> Iterator[Batch]: ...


@dataclass(frozen=True)
class Batches:
    """Training images of one set, named by `positions`, [n] row positions of the set's table.

    `read` turns positions [batch] into pixels [batch, H, W, 3] uint8, `prepare` those into the
    model's inputs, [batch, 3, H, W] float32. The order of an epoch depends on (seed, epoch) only,
    so a resumed run meets the same batches. Mirroring flips every image left to right with
    probability one half, drawn from the same stream. apart: mirrored images have places of their
    own, behind those of all images as they are, so that each view has its own target.
    """

    positions: np.ndarray
    read: Callable[[np.ndarray], np.ndarray]
    prepare: Callable[[np.ndarray], Tensor]
    size: int
    seed: int
    mirror: bool = False
    apart: bool = False

    @property
    def count(self) -> int:
        return len(self.positions)

    @property
    def per_epoch(self) -> int:
        """Batches of one epoch; a last one of a single image is left out, for batch norm cannot
        train on it."""
        whole, rest = divmod(len(self.positions), self.size)
        return max(1, whole + (rest > 1))

    def epoch(self, number: int, first: int = 0) -> Iterator[Batch]:
        """All training images once, in the order of this epoch, from its batch `first` on."""
        draw = rng("batches", self.seed, number)
        order = draw.permutation(len(self.positions))
        flips = draw.random(len(order)) < 0.5 if self.mirror else np.zeros(len(order), dtype=bool)
        parts = [order[start : start + self.size] for start in range(0, len(order), self.size)][
            first : self.per_epoch
        ]
        yield from ahead(lambda rows: self._batch(rows, flips[rows]), parts)

    def forever(self, step: int = 0) -> Iterator[Batch]:
        """Epoch after epoch, without end, starting after the first `step` batches."""
        if not len(self.positions):
            raise ValueError("there are no training images")
        number, first = divmod(step, self.per_epoch)
        while True:
            yield from self.epoch(number, first)
            number, first = number + 1, 0

    def _batch(self, rows: np.ndarray, flip: np.ndarray) -> Batch:
        """The images of `rows` [batch], places in `positions`; those where `flip` [batch] bool are
        mirrored."""
        pixels = self.read(self.positions[rows])
        if flip.any():
            pixels = np.where(flip[:, None, None, None], pixels[:, :, ::-1], pixels)
        images = self.prepare(np.ascontiguousarray(pixels))
        places = rows + len(self.positions) * flip if self.apart else rows
        return Batch(torch.as_tensor(places, device=images.device), images)


def ahead(make: Callable[[Any], Batch], parts: list[Any]) -> Iterator[Batch]:
    """`make(part)` for each part in order; the next AHEAD are prepared in the background."""
    with ThreadPoolExecutor(1) as pool:
        waiting = [pool.submit(make, part) for part in parts[:AHEAD]]
        try:
            for place in range(len(parts)):
                done = waiting.pop(0).result()
                if place + AHEAD < len(parts):
                    waiting.append(pool.submit(make, parts[place + AHEAD]))
                yield done
        finally:
            for future in waiting:
                future.cancel()


# Batches of training texts in a seeded order, and a text classifier as a plain function from a
# batch to logits.


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
