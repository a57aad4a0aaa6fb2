"""Small pictures of test images whose predicted class changed in some variant, for the gallery."""

from __future__ import annotations

import io
from collections.abc import Iterable

import numpy as np
import pandas as pd
from PIL import Image

from engine.classifiers.images.context import TEST, ImageContext
from engine.core.seeds import rng

MOST = 400
"""Pictures kept per run."""
LARGEST = 64
"""Their longest side, in pixels."""


def thumbnails(
    context: ImageContext, firsts: Iterable[np.ndarray], dense: np.ndarray
) -> pd.DataFrame:
    """image_id and png (bytes) of at most MOST images; small groups first get their full share.

    firsts: probabilities of the test images by the first trial of each variant; dense: by the dense
    model, [images, classes] each. An image counts as changed when the first trial of any variant
    predicts another class than the dense model.
    """
    changed = np.zeros(len(dense), dtype=int)
    for answers in firsts:
        changed += answers.argmax(axis=1) != dense.argmax(axis=1)
    rows = context.rows(TEST)
    table = context.images.table.iloc[rows].reset_index(drop=True)
    places = chosen(table, list(context.images.groups), np.flatnonzero(changed > 0))
    pixels = (
        context.images.read(rows[places]) if len(places) else np.zeros((0, 1, 1, 3), dtype=np.uint8)
    )
    return pd.DataFrame(
        {"image_id": table["image_id"].to_numpy()[places], "png": [_png(one) for one in pixels]}
    )


def chosen(table: pd.DataFrame, groups: list[str], changed: np.ndarray) -> np.ndarray:
    """At most MOST of the changed images, dealt out evenly over the cells of class and groups,
    seeded.

    table: one row per test image with label and `groups`; changed and the result: row positions,
    [n] int.
    """
    if len(changed) <= MOST:
        return changed
    shuffled = rng("gallery").permutation(changed)
    cells = table.iloc[shuffled].groupby(["label", *groups], sort=True).cumcount().to_numpy()
    return np.sort(shuffled[np.argsort(cells, kind="stable")][:MOST])


def _png(pixels: np.ndarray) -> bytes:
    """PNG bytes of an image [height, width, 3] uint8, made smaller where it is larger than
    LARGEST."""
    picture = Image.fromarray(pixels)
    picture.thumbnail((LARGEST, LARGEST))
    memory = io.BytesIO()
    picture.save(memory, "PNG", optimize=True)
    return memory.getvalue()
