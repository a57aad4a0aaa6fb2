"""A picture that is put to two classifiers, kept by the audit or brought: decoded, or refused with
every fault."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np

from engine.core.errors import RequestError, refusal
from engine.core.types import Values
from engine.data.images.pixels import SAID, Damaged, Preparation, decoded
from engine.store.runs import Run

LARGEST_FILE = 5_000_000
"""Bytes of a picture that is brought."""
BEGINNINGS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")
"""Of PNG and JPEG; nothing else is decoded."""
SMALL_COPY = 64
"""Pixels a side of the pictures that runs keep."""
OCCLUSION, GRAD_CAM = "occlusion", "grad-cam"
WAYS = (OCCLUSION, GRAD_CAM)
"""Ways to see where a model looks; the first is what is shown unless another is asked for."""


def pixels_of(given: Values, run: Run) -> tuple[np.ndarray, list[str]]:
    """What the models see, [size, size, 3] uint8, and what must be said of it.

    given: `image` (id of a picture that the run kept) or `file` (a PNG or JPEG in base64).
    """
    image, file, size = given.get("image"), given.get("file"), int(run.model["size"])
    if (image is None) == (file is None):
        raise refusal(
            "picture", "one is needed, and one only.", "Name a kept image, or bring a file."
        )
    notes: list[str] = []
    content = _kept(run, image, size, notes) if file is None else _brought(file)
    try:
        pixels, told = decoded(content, size, None if file is None else _processor(run))
        return pixels, [
            *notes,
            *(f"{SAID[name]} in this picture." for name in told if file is not None),
        ]
    except Damaged as error:
        raise refusal("picture", f"cannot be decoded ({error}).", "Bring a PNG or JPEG.") from error


def _kept(run: Run, image: Any, size: int, notes: list[str]) -> bytes:
    if not run.has("thumbs"):
        raise refusal("image", "names none: this audit kept no pictures.", "Bring a file.")
    table = run.table("thumbs")
    rows = table[table["image_id"] == image]
    if rows.empty:
        what = f"{str(image)[:40]!r} is not among the {len(table)} pictures that this audit kept."
        raise refusal("image", what, "Name one of the table `thumbs`, or bring a file.")
    if size > SMALL_COPY:
        notes.append(
            f"The audit kept a copy of {SMALL_COPY} pixels: the answers can differ from those of"
            " the audit."
        )
    return rows.iloc[0]["png"]


def _processor(run: Run) -> Preparation | None:
    """The model's own processor, where the audit's pictures went through one."""
    said = run.model.get("processor")
    if said is None:
        return None
    from engine.models.image_processor import processor_of  # transformers

    found, faults = processor_of(said, None, "the model's processor")
    if faults:
        raise RequestError(faults)
    return found


def _brought(file: Any) -> bytes:
    fix = f"Bring a PNG or JPEG of at most {LARGEST_FILE / 1e6:g} MB."
    if not isinstance(file, str) or len(file) > LARGEST_FILE * 4 // 3 + 4:
        raise refusal("picture", "is no file, or too large.", fix)
    try:
        content = base64.b64decode(file, validate=True)
    except (binascii.Error, ValueError) as error:
        raise refusal("picture", "is not in base64.", fix) from error
    if not content.startswith(BEGINNINGS):
        raise refusal("picture", "is neither PNG nor JPEG.", fix)
    return content
