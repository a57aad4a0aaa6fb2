"""once: score the fine-tuned model one time, then mask the lowest heads at several ratios (Michel et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from engine.tracks.text_classifiers.procedures.base import Procedure, at_asked


@final
class Once(Procedure):
    name = "once"
    place = 0
    scored = "first"
    trained = "never"

    def counts(self, total: int, asked: Sequence[int], step: float) -> list[int]:
        return at_asked(asked)
