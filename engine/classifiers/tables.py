"""Tables that every audit of an image classifier writes, from its measurements. Columns:
docs/TABLES.md."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from engine.classifiers.images.context import DENSE, TEST, ImageContext, ImageShard
from engine.core.errors import Fault, RequestError
from engine.core.ids import rng
from engine.store.runs import Run
from engine.store.tables import pack, unpack, within


def test_images(context: ImageContext) -> pd.DataFrame:
    """The table `images`: one row per test image, columns image_id, split, label and one per group
    column."""
    table = context.images.table.iloc[context.rows(TEST)].reset_index(drop=True)
    return table[["image_id", "split", "label", *context.images.groups]]


def predictions_table(answers: Mapping[str, np.ndarray], images: pd.DataFrame) -> pd.DataFrame:
    """The table `predictions`, from the answers [images, classes] of every variant, the dense model
    first.

    images: one row per image with image_id, in the order of the answers. Columns: variant,
    image_id, p_0, p_1, … float32.
    """
    columns = [f"p_{place}" for place in range(answers[DENSE].shape[1])]
    return pd.concat(
        [
            pd.DataFrame(found.astype(np.float32), columns=columns).assign(
                variant=name, image_id=images["image_id"]
            )
            for name, found in answers.items()
        ],
        ignore_index=True,
    )[["variant", "image_id", *columns]]


def layers_table(widths: Mapping[str, Sequence[tuple[str, int, int]]]) -> pd.DataFrame:
    """The table `layers`: one row per trial and group with columns variant, layer, group, filters,
    kept.

    widths: (group, filters, kept) of every group of every trial.
    """
    rows = [
        (name, place, group, width, kept)
        for name, layers in widths.items()
        for place, (group, width, kept) in enumerate(layers)
    ]
    return pd.DataFrame(rows, columns=["variant", "layer", "group", "filters", "kept"])


def costs_table(
    context: ImageContext, shards: Mapping[str, Any], variants: pd.DataFrame
) -> pd.DataFrame:
    """The table `costs`: one row for the dense model and one for each of `shards`, by variant.

    variants: the table `variants`, of which max_logit_difference is carried over.
    """
    shards = {DENSE: ImageShard("cost"), **shards}
    tables = context.fetch(list(shards.values()))
    found = pd.concat(
        [table.assign(variant=name) for name, table in zip(shards, tables, strict=True)],
        ignore_index=True,
    )
    worst = variants.set_index("variant")["max_logit_difference"]
    return found.assign(max_logit_difference=found["variant"].map(worst), agrees=True)


def weights_table(
    context: ImageContext, kept: Iterable[tuple[str, Mapping[str, np.ndarray]]]
) -> pd.DataFrame:
    """The table `weights`, one row per tensor: columns variant, name, shape, dtype, data.

    Of a dense model that was fitted here, and of `kept`, pairs of variant and tensors by name.
    """
    parts = []
    if context.settings.train is not None:
        parts.append(
            pack(within(context.fetch_arrays(ImageShard("dense_weights"))[0], "weights/")).assign(
                variant=DENSE
            )
        )
    parts += [pack(arrays).assign(variant=name) for name, arrays in kept]
    columns = ["variant", "name", "shape", "dtype", "data"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


# Small pictures of test images whose predicted class changed in some variant, for the gallery.


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


# What a run of a classifier stored of its repeats: the row of the first one, and the weights
# that were kept.


def first_repeat(run: Run, variant: dict[str, Any]) -> dict[str, Any]:
    """The row of a trial or seed itself; the first one's for a pooled variant."""
    table = run.table("variants")
    seeds = table[(table["pooled"] == variant["variant"]) & (table["seed"] >= 0)].sort_values(
        "seed"
    )
    return variant if seeds.empty else seeds.iloc[0].to_dict()


def kept_weights(run: Run, variant: str) -> dict[str, np.ndarray]:
    """Weights of a model by name, in the shapes they had when kept. RequestError where the audit
    kept none of it."""
    table = run.table("weights") if run.has("weights") else None
    mine = None if table is None else table[table["variant"] == variant]
    if mine is None or mine.empty:
        kept = run.meta["request"].get("keep_weights", "first")
        what = f"{variant!r} has no weights in this audit, which kept those of: {kept}."
        raise RequestError(
            Fault("variant", what, "Choose the first one, or audit again with --keep-weights all.")
        )
    return unpack(mine.drop(columns="variant"))[0]
