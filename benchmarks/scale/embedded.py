"""The language model's audit that the project ships, made smaller, over what cannot be avoided. Without cuts of random
heads, which came after its bar: they report texts of their own.

Usually two axes of 30 prompts; with `--full` all five axes of 60. One decoding seed.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.report import Measure
from benchmarks.scale._unavoidable import over_unavoidable
from engine.tracks.language_models.embedded import REQUEST

BAR = 1.25


def measures(full: bool = False) -> list[Measure]:
    axes, prompts, every = (REQUEST.axes, 60, 3) if full else (REQUEST.axes[:2], 30, 4)
    request = replace(REQUEST, axes=axes, max_prompts=prompts, seeds=1, controls=0)
    return over_unavoidable(f"embedded audit, {len(axes)} axes of {prompts} prompts, 1 seed", request, BAR, every)
