"""A picture for a dense and a pruned image classifier, as asked; checked before anything loads."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.classifiers.stored_weights import first_repeat
from engine.core.errors import Fault, RequestError, unknown
from engine.data.images.readers.pixels import Damaged, decoded
from engine.report.charts import lookup
from engine.report.contents import default_choice
from engine.store.runs import Run

LARGEST_FILE = 5_000_000
"""Bytes of a picture that is brought."""
BEGINNINGS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")
"""Of PNG and JPEG; nothing else is decoded."""
SMALL_COPY = 64
"""Pixels a side of the pictures that runs keep."""
KNOWN = ("run", "image", "file", "variant")


@dataclass(frozen=True)
class Question:
    """What is asked. `variant`: the row of one trial; pixels: [size, size, 3] uint8."""

    run: Run
    variant: dict[str, Any]
    label: str
    pixels: np.ndarray
    notes: tuple[str, ...]


def question_of(given: Mapping[str, Any], run: Run) -> Question:
    """The question, or RequestError with every fault. given: see `asks/picture.py`."""
    faults = [unknown("question", name, KNOWN) for name in given if name not in KNOWN]
    notes: list[str] = []
    try:
        pixels = _pixels(run, given, notes)
    except RequestError as error:
        faults += error.faults
    table, name = lookup.frame(run, "variants"), given.get("variant")
    if name is None:
        name = lookup.variant_of(run, default_choice(run))["variant"]
    rows = table[table["variant"] == name]
    if rows.empty:
        faults.append(unknown("variant", name, lookup.reported(run)["variant"]))
    if faults:
        raise RequestError(faults)
    asked = rows.iloc[0].to_dict()
    trial = first_repeat(run, asked)
    if trial["variant"] != asked["variant"]:
        notes.append(f"Of several trials the first is shown ({int(trial['seed'])}); others may answer otherwise.")
    return Question(run, trial, lookup.variant_label(run, asked), pixels, tuple(notes))


def _pixels(run: Run, given: Mapping[str, Any], notes: list[str]) -> np.ndarray:
    """What the models see, [size, size, 3] uint8."""
    image, file, size = given.get("image"), given.get("file"), int(run.meta["model"]["size"])
    if (image is None) == (file is None):
        raise RequestError(Fault("picture", "one is needed, and one only.", "Name a kept image, or bring a file."))
    content = _kept(run, image, size, notes) if file is None else _brought(file)
    try:
        return decoded(content, size)
    except Damaged as error:
        raise RequestError(Fault("picture", f"cannot be decoded ({error}).", "Bring a PNG or JPEG.")) from error


def _kept(run: Run, image: Any, size: int, notes: list[str]) -> bytes:
    table = run.table("thumbs")
    rows = table[table["image_id"] == image]
    if rows.empty:
        what = f"{str(image)[:40]!r} is not among the {len(table)} pictures that this audit kept."
        raise RequestError(Fault("image", what, "Name one of the table `thumbs`, or bring a file."))
    if size > SMALL_COPY:
        notes.append(f"The audit kept a copy of {SMALL_COPY} pixels: the answers can differ from those of the audit.")
    return rows.iloc[0]["png"]


def _brought(file: Any) -> bytes:
    fix = f"Bring a PNG or JPEG of at most {LARGEST_FILE / 1e6:g} MB."
    if not isinstance(file, str) or len(file) > LARGEST_FILE * 4 // 3 + 4:
        raise RequestError(Fault("picture", "is no file, or too large.", fix))
    try:
        content = base64.b64decode(file, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RequestError(Fault("picture", "is not in base64.", fix)) from error
    if not content.startswith(BEGINNINGS):
        raise RequestError(Fault("picture", "is neither PNG nor JPEG.", fix))
    return content
