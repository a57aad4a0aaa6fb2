"""The language model's audit that the project ships, made smaller, over what cannot be avoided.
Without cuts of random heads, which came after its bar: they report texts of their own.

Usually two axes of 30 prompts and one decoding seed; with `--full` as large as it ships: half an
hour.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.report import Measure
from benchmarks.scale._unavoidable import over_unavoidable
from engine.tracks.language_models.request import REQUEST

BAR = 1.25


def measures(full: bool = False) -> list[Measure]:
    request = replace(REQUEST, controls=0)
    if not full:
        request = replace(request, axes=REQUEST.axes[:2], max_prompts=30, seeds=1)
    size = f"{len(request.axes)} axes of {request.max_prompts} prompts, {request.seeds} seed(s)"
    return over_unavoidable(f"embedded audit, {size}", request, BAR, 6 if full else 4)
