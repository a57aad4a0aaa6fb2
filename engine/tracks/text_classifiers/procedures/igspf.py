"""igspf: the masks of Algorithm 6.1, cut from the pre-trained weights, which are fine-tuned at the end (Sec. 6.5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from engine.tracks.text_classifiers.procedures.base import Procedure, of_initial


@final
class IGSPF(Procedure):
    name = "igspf"
    place = 3
    scored = "masked"
    trained = "asked"

    def counts(self, total: int, asked: Sequence[int], step: float) -> list[int]:
        return of_initial(total, asked, step)
