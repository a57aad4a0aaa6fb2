"""igspp: as Algorithm 6.1, but every round cuts the pre-trained weights, fine-tunes them and scores the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from engine.tracks.text_classifiers.procedures.base import Procedure, of_initial


@final
class IGSPP(Procedure):
    name = "igspp"
    place = 4
    scored = "retrained"
    trained = "every"

    def counts(self, total: int, asked: Sequence[int], step: float) -> list[int]:
        return of_initial(total, asked, step)
