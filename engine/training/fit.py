"""The loop that fits a model to targets: a schedule, early stopping, cancel per batch, resuming
from an epoch."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from engine.core.errors import PruneAuditError
from engine.core.types import Values, key_of, rng
from engine.training.losses import Targets
from engine.training.recipe import Keep, Nowhere, Recipe, rate_left

# Batches of training images in a seeded order: from memory where they fit, else decoded ahead by
# threads.


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

    def forward(self, batch: Values) -> Tensor:
        """Logits of an encoded batch, [batch, classes]."""
        return self.inner(**batch).logits


SAVE_EVERY = 15.0
"""Seconds between two checkpoints of a training."""
BODY = 1
"""Which group of the optimizer's parameters is everything below the last layer."""


def fit(
    model: nn.Module,
    batches: Feed,
    targets: Targets,
    recipe: Recipe,
    last_layer: str,
    check: Callable[[], None] = lambda: None,
    step: Callable[[int, int], None] = lambda done, total: None,
    keep: Keep | None = None,
    validate: Callable[[], float] | None = None,
) -> list[dict[str, float]]:
    """Train `model` in place; one row per epoch: epoch, loss (mean over its batches, nats), rate,
    images.

    Leaves it in eval mode without parameter gradients. Raises PruneAuditError where the loss is no
    number, naming the epoch; what was kept before is still there. Resumed from `keep`, it ends with
    the same weights.

    validate: the loss of `model` as it is on validation images (nats). Given, the weights of its
    lowest come back, it ends early by the recipe's patience, and every row says what it gave as
    val_loss.
    """
    keep = keep or Nowhere()
    optimizer = _optimizer(model, recipe, last_layer)
    state = keep.load() or {}
    rows: list[dict[str, float]] = state.get("rows", [])
    best: dict[str, Tensor] = state.get("best", {})
    if state:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    saved = time.monotonic()
    model.requires_grad_(True)
    # Whether the last `patience` epochs brought no lower loss on validation images.
    while len(rows) < recipe.epochs and not (
        validate
        and (bool(recipe.patience and rows) and len(rows) - 1 - _best(rows) >= recipe.patience)
    ):
        epoch = len(rows)
        rate = _set_rates(optimizer, recipe, epoch)
        loss = _epoch(model, optimizer, batches, targets, epoch, recipe, check, step)
        rows.append({"epoch": epoch, "loss": loss, "rate": rate, "images": batches.count})
        if validate:
            model.eval()
            rows[-1]["val_loss"] = _finite(validate(), "loss on validation images", epoch, recipe)
            best = (
                {name: value.detach().clone() for name, value in model.state_dict().items()}
                if _best(rows) == epoch
                else best
            )
        if time.monotonic() - saved > SAVE_EVERY:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rows": rows}
            keep.save({**state, **({"best": best} if validate else {})})
            saved = time.monotonic()
    if best:
        model.load_state_dict(best)
    if len(rows) < recipe.epochs:
        # No more will come.
        step(recipe.epochs * batches.per_epoch, recipe.epochs * batches.per_epoch)
    keep.clear()
    model.eval().requires_grad_(False)
    return rows


def _best(rows: list[dict[str, float]]) -> int:
    """The epoch with the lowest loss on validation images, the first of equals."""
    return min(range(len(rows)), key=lambda epoch: rows[epoch]["val_loss"])


def _epoch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Feed,
    targets: Targets,
    epoch: int,
    recipe: Recipe,
    check: Callable[[], None],
    step: Callable[[int, int], None],
) -> float:
    """One pass over the images; the mean loss of its batches."""
    model.train()
    # A resumed run drops what an uninterrupted one drops.
    torch.manual_seed(key_of("dropout", batches.seed, epoch))
    device = next(model.parameters()).device
    total, done = torch.zeros((), device=device), 0
    for batch in batches.epoch(epoch):
        check()
        optimizer.zero_grad(set_to_none=True)
        with mixed(device):
            logits = model(batch.inputs)
        loss = targets.loss(batch.rows, logits)
        loss.backward()
        optimizer.step()
        total += loss.detach()
        done += 1
        step(epoch * batches.per_epoch + done, recipe.epochs * batches.per_epoch)
    return _finite(float(total) / done, "loss", epoch, recipe)


def _finite(value: float, what: str, epoch: int, recipe: Recipe) -> float:
    """The value. PruneAuditError where it is no number."""
    if not math.isfinite(value):
        raise PruneAuditError(
            f"The {what} became {value} in epoch {epoch + 1}, at learning rate {recipe.rate:g}."
            " Lower the rate."
        )
    return value


def mixed(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """bf16 autocast for training on CUDA; nothing elsewhere. Evaluation is always fp32."""
    if device.type == "cuda" and torch.cuda.is_bf16_supported():
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return contextlib.nullcontext()


def _optimizer(model: nn.Module, recipe: Recipe, last_layer: str) -> torch.optim.Optimizer:
    """The recipe's optimizer with two groups of parameters: the last layer, and the BODY at its
    share of the rate."""
    head = [value for name, value in model.named_parameters() if name.startswith(f"{last_layer}.")]
    body = [
        value for name, value in model.named_parameters() if not name.startswith(f"{last_layer}.")
    ]
    groups = [{"params": head, "share": 1.0}, {"params": body, "share": recipe.body_share}]
    return optimizer_of(groups, recipe)


def optimizer_of(parameters: Iterable[Any], recipe: Recipe) -> torch.optim.Optimizer:
    """AdamW, or plain SGD without momentum, over parameters or groups of them."""
    made = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[recipe.optimizer]
    return made(parameters, lr=recipe.rate, weight_decay=recipe.weight_decay)


def _set_rates(optimizer: torch.optim.Optimizer, recipe: Recipe, epoch: int) -> float:
    """The rate of this epoch: as `rate_left` says, or steps of a tenth."""
    rate = recipe.rate * rate_left(recipe.schedule, epoch, max(1, recipe.epochs))
    if recipe.schedule == "steps":
        rate *= 0.1 ** sum(epoch >= at for at in recipe.steps)
    for place, group in enumerate(optimizer.param_groups):
        frozen = place == BODY and epoch < recipe.frozen_epochs
        group["lr"] = 0.0 if frozen else rate * group["share"]
    return rate


@torch.no_grad()
def probabilities(
    model: nn.Module,
    positions: Any,
    read: Callable[[Any], Any],
    prepare: Callable[[Any], Tensor],
    batch: int = 256,
    check: Callable[[], None] = lambda: None,
) -> Tensor:
    """softmax of the logits in fp32 per image, [images, classes] float32 on the CPU. The model must
    be in eval mode.

    positions [images]: row positions that `read` turns into pixels, and `prepare` into the model's
    inputs.
    """
    found = []
    for start in range(0, len(positions), batch):
        check()
        images = prepare(read(positions[start : start + batch]))
        found.append(torch.softmax(model(images).float(), dim=-1).cpu())
    return torch.cat(found)
