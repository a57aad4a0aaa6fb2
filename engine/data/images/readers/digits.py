"""scikit-learn's digits: 1,797 real handwritten digits of 8 x 8 pixels, enlarged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from engine.data.images.readers.base import CLASS, ImageInfo, ImageReader, Listing, Wanted
from engine.data.images.readers.pixels import ArrayPixels
from engine.data.splits import deal

SHARES = {"test": 0.3, "validation": 0.1}
CLASSES = tuple("0123456789")
COUNT = 1_797


class Digits(ImageReader):
    """60 % train, 10 % validation, 30 % test, by class and seed. Enlarged by bilinear
    interpolation, white on black."""

    name = "digits (embedded: real handwritten digits from scikit-learn)"

    def recognises(self, source: str, path: Path) -> bool:
        return source == "digits"

    def look(self, source: str, path: Path) -> ImageInfo:
        groups = (CLASS,)
        return ImageInfo(
            "digits",
            "arrays",
            ("digit",),
            groups,
            "digit",
            groups,
            (16, 32, 64),
            COUNT,
            32,
            CLASSES,
        )

    def read(self, source: str, path: Path, wanted: Wanted) -> Listing:
        from sklearn.datasets import load_digits  # slow to import, and only needed here

        found = load_digits()
        table = pd.DataFrame(
            {"image_id": [f"digit-{place:04d}" for place in range(len(found.target))]}
        )
        table["target"] = [CLASSES[label] for label in found.target]
        table["split"] = deal(table, SHARES, "train", wanted.seed)
        grey = np.rint(found.images * (255 / 16)).astype(np.uint8)
        return Listing("digits", table, ArrayPixels(np.repeat(grey[..., None], 3, axis=3)), CLASSES)
