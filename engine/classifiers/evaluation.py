"""What evaluating one classifier on one set of images or texts gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

GROUPS = ("auc", "accuracy", "tpr", "fpr")


@dataclass(frozen=True)
class Evaluation:
    """rows: axis ("" for all images), metric, group, value, low, high (95 %, over images), n,
    verdict.

    notes: sentences that must be read with them.
    """

    model: str
    data: str
    n: int
    rows: list[dict[str, Any]]
    notes: tuple[str, ...] = ()
