"""CIFAR-10's python batches: pickles, which can run code, so only the published files, told by
their MD5, are read.

Nobody can make another file of a given MD5; torchvision, whose import takes torch, checks the same.
"""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path

import numpy as np
import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.data.images.readers.base import CLASS, ImageInfo, ImageReader, Listing, Wanted
from engine.data.images.readers.pixels import ArrayPixels, listed

FOLDER = "cifar-10-batches-py"
PUBLISHED = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
"""MD5 (hex) of every batch on CIFAR-10's page."""
FIRST, TEST = "data_batch_1", "test_batch"
LARGEST = 2**25
"""Bytes that are read of a batch; the published ones have 31 MB."""
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SIZES = (32, 64, 128)


class Cifar10Batches(ImageReader):
    """50,000 + 10,000 images of 32 x 32; a tenth of the training images validates."""

    name = f"CIFAR-10 ({FOLDER}/ with data_batch_1 to 5 and test_batch)"

    def recognises(self, source: str, path: Path) -> bool:
        return any((_home(path) / name).is_file() for name in PUBLISHED)

    def look(self, source: str, path: Path) -> ImageInfo:
        n = 10_000 * len(_files(_home(path)))
        return ImageInfo(
            "CIFAR-10", "arrays", ("label",), (CLASS,), "label", (CLASS,), SIZES, n, 32, CLASSES
        )

    def read(self, source: str, path: Path, wanted: Wanted) -> Listing:
        tables, images = [], []
        for file, raw in _sound(_files(_home(path))).items():
            content = pickle.loads(raw, encoding="latin1")
            split = "test" if file.name == TEST else "train"
            ids = [f"{split}/{name}" for name in content["filenames"]]
            named = [CLASSES[label] for label in content["labels"]]
            tables.append(pd.DataFrame({"image_id": ids, "target": named, "split": split}))
            images.append(content["data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        table = pd.concat(tables, ignore_index=True)
        if table["image_id"].duplicated().any():
            table["image_id"] = [
                f"{split}/{place:05d}" for place, split in enumerate(table["split"])
            ]
        return Listing("CIFAR-10", table, ArrayPixels(np.concatenate(images)), CLASSES)


def _home(path: Path) -> Path:
    return path / FOLDER if (path / FOLDER).is_dir() else path


def _files(home: Path) -> list[Path]:
    """The batches there are; raises RequestError without training or test images."""
    found = [home / name for name in PUBLISHED if (home / name).is_file()]
    absent = [name for name in (FIRST, TEST) if not (home / name).is_file()]
    if absent:
        raise RequestError(
            Fault(f"CIFAR-10 in {home}", f"Absent: {listed(absent)}.", "Unpack the archive again.")
        )
    return found


def _sound(files: list[Path]) -> dict[Path, bytes]:
    """The bytes of every batch. RequestError, before any is opened, for those that are not the
    published ones."""
    found = {}
    for path in files:
        with path.open("rb") as file:
            found[path] = file.read(LARGEST)
    other = [
        path.name
        for path, raw in found.items()
        if hashlib.md5(raw).hexdigest() != PUBLISHED[path.name]
    ]
    if other:
        what = (
            f"Not as published (by MD5): {listed(other)}. A pickle can run code, so none was"
            " opened."
        )
        fix = (
            "Fetch the archive again from CIFAR-10's page, or save your images as npz or in a"
            " folder per class."
        )
        raise RequestError(Fault(f"CIFAR-10 in {files[0].parent}", what, fix))
    return found
