"""How a model is fitted, and where an unfinished fit is kept. No torch."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol

from engine.errors import Fault


@dataclass(frozen=True)
class Recipe:
    """How a model is fitted. Published retraining: AdamW with cosine annealing over all epochs (Table 4).

    rate is the learning rate of the last layer; all others use rate * body_share, and stay as they are for the first
    frozen_epochs. steps: epochs at which the rate falls to a tenth (schedule "steps").
    """

    epochs: int = 5
    rate: float = 1e-3
    batch: int = 128
    schedule: str = "cosine"
    body_share: float = 1.0
    frozen_epochs: int = 0
    steps: tuple[int, ...] = ()
    weight_decay: float = 0.01
    mirror: bool = True

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {**asdict(self), "steps": list(self.steps)}

    @classmethod
    def known(cls) -> list[str]:
        return [item.name for item in fields(cls)]

    def faults(self, where: str) -> list[Fault]:
        """Values that cannot be."""
        wrong = []
        if not isinstance(self.epochs, int) or self.epochs < 0:
            wrong.append(("epochs", "Give a whole number, 0 for none."))
        if not isinstance(self.batch, int) or self.batch < 2:
            wrong.append(("batch", "Give at least 2 images: batch norm cannot train on one."))
        if not 0 < self.rate < math.inf:
            wrong.append(("rate", "Give a learning rate above 0."))
        if self.schedule not in ("cosine", "steps", "constant"):
            wrong.append(("schedule", "Known: constant, cosine, steps."))
        if not 0 <= self.body_share <= 1:
            wrong.append(("body_share", "Give a share in [0, 1]."))
        return [Fault(f"{where} {name}", f"{getattr(self, name)!r} is not allowed.", fix) for name, fix in wrong]


class Keep(Protocol):
    """Where the state of an unfinished fit is kept."""

    def load(self) -> dict[str, Any] | None: ...
    def save(self, state: dict[str, Any]) -> None: ...
    def clear(self) -> None: ...


class Nowhere:
    """Keeps nothing."""

    def load(self) -> dict[str, Any] | None:
        return None

    def save(self, state: dict[str, Any]) -> None:
        return None

    def clear(self) -> None:
        return None
