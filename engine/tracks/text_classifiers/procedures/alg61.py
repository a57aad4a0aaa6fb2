"""alg61: Algorithm 6.1. Score again in every round with the heads so far masked; mask a share of the initial heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from engine.tracks.text_classifiers.procedures.base import Procedure, of_initial


@final
class Algorithm61(Procedure):
    name = "alg61"
    place = 1
    scored = "masked"
    trained = "never"

    def counts(self, total: int, asked: Sequence[int], step: float) -> list[int]:
        return of_initial(total, asked, step)
