"""A small picture with where a model looks laid over it, for galleries; in the colours of the chart
of one picture."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image, ImageColor

from engine.report.charts.class_chances import SIDES
from engine.report.charts.where_it_looks import STRONGEST, full_colours
from engine.report.palette import theme

PIXELS = 128
"""A side of what is drawn."""


def overlays(answer: Mapping[str, Any], dark: bool) -> tuple[tuple[str, bytes], ...]:
    """Each model's map over the picture: which model, and a PNG. answer: of
    `engine.report.picture_ask`."""
    ends = full_colours(answer)
    with Image.open(
        io.BytesIO(base64.b64decode(answer["picture"], validate=True)), formats=("PNG",)
    ) as opened:
        picture = np.asarray(
            opened.convert("RGB").resize((PIXELS, PIXELS), Image.Resampling.BICUBIC), dtype=float
        )
    return tuple(
        (side, _over(picture, np.array(answer[side]["map"]) / ends[side], dark)) for side in SIDES
    )


def _over(picture: np.ndarray, shares: np.ndarray, dark: bool) -> bytes:
    """picture: [PIXELS, PIXELS, 3] of 0 to 255; shares: [rows, columns] of −1 (against) to 1
    (for)."""
    fine = Image.fromarray(shares.astype(np.float32)).resize(
        (PIXELS, PIXELS), Image.Resampling.NEAREST
    )
    strength = np.asarray(fine, dtype=float)[..., None]
    stops = theme(dark).diverging
    against, towards = (
        np.array(ImageColor.getrgb(stop), dtype=float) for stop in (stops[0][1], stops[-1][1])
    )
    cover = STRONGEST * np.abs(strength).clip(0, 1)
    mixed = (1 - cover) * picture + cover * np.where(strength < 0, against, towards)
    memory = io.BytesIO()
    Image.fromarray(mixed.round().astype(np.uint8)).save(memory, "PNG")
    return memory.getvalue()
