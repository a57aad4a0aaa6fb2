"""one-shot-isp: the masks of `once`, cut from the pre-trained weights, which are then fine-tuned (Sec. 6.6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from engine.tracks.text_classifiers.procedures.base import Procedure, at_asked


@final
class OneShotISP(Procedure):
    name = "one-shot-isp"
    place = 2
    scored = "first"
    trained = "asked"

    def counts(self, total: int, asked: Sequence[int], step: float) -> list[int]:
        return at_asked(asked)
