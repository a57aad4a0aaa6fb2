"""isp: Algorithm 6.2. Every round takes a share of the heads that are left, and fine-tunes the pre-trained weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from engine.tracks.text_classifiers.procedures.base import Procedure, of_remaining


@final
class ISP(Procedure):
    name = "isp"
    place = 5
    scored = "retrained"
    trained = "every"

    def counts(self, total: int, asked: Sequence[int], step: float) -> list[int]:
        return of_remaining(total, asked, step)
