"""Labels put in the order of a model's outputs."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from engine.core.types import digest_of
from engine.data.images.load import ImageSet
from engine.data.texts.load import TextSet

Labelled = TypeVar("Labelled", ImageSet, TextSet)


def in_order_of(data: Labelled, classes: tuple[str, ...]) -> Labelled:
    """The same data with labels in the order of `classes`, where these are the same names in another order or case."""
    named = [name.casefold() for name in classes]
    own = [name.casefold() for name in data.classes]
    if len(set(named)) < len(named) or sorted(named) != sorted(own) or tuple(classes) == tuple(data.classes):
        return data
    place = np.array([named.index(name) for name in own])
    table = data.table.assign(label=place[data.table["label"].to_numpy()].astype(np.int64))
    digest = digest_of([data.digest, "classes in another order", list(classes)])
    return replace(data, table=table, classes=tuple(classes), digest=digest)
