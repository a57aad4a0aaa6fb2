"""Tables that every audit of an image classifier writes, from its measurements. Columns:
docs/TABLES.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from engine.classifiers.images.context import DENSE, TEST, ImageContext, ImageShard
from engine.store.array_table import pack, within


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
