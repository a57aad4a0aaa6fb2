"""CIFAR-10's python batches, read without executing what a pickle could execute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.data.images.readers import safe_pickle
from engine.data.images.readers.base import CLASS, ImageInfo, ImageReader, Listing, Wanted
from engine.data.images.readers.pixels import ArrayPixels, listed

FOLDER = "cifar-10-batches-py"
TRAIN, TEST, META = tuple(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SIZES = (32, 64, 128)


class Cifar10Batches(ImageReader):
    """50,000 + 10,000 images of 32 x 32; a tenth of the training images validates."""

    name = f"CIFAR-10 ({FOLDER}/ with data_batch_1 to 5 and test_batch)"

    def recognises(self, source: str, path: Path) -> bool:
        return any((_home(path) / name).is_file() for name in (*TRAIN, TEST))

    def look(self, source: str, path: Path) -> ImageInfo:
        files = _files(_home(path))
        classes = _classes(_home(path))
        n = 10_000 * len(files)
        return ImageInfo("CIFAR-10", "arrays", ("label",), (CLASS,), "label", (CLASS,), SIZES, n, 32, classes)

    def read(self, source: str, path: Path, wanted: Wanted) -> Listing:
        home = _home(path)
        classes, tables, images = _classes(home), [], []
        for file in _files(home):
            pixels, labels, names = _batch(file, len(classes))
            split = "test" if file.name == TEST else "train"
            ids = [f"{split}/{name}" for name in names]
            named = [classes[label] for label in labels]
            tables.append(
                pd.DataFrame({"image_id": ids, "target": named, "split": split if split == "test" else "train"})
            )
            images.append(pixels)
        table = pd.concat(tables, ignore_index=True)
        if table["image_id"].duplicated().any():
            table["image_id"] = [f"{split}/{place:05d}" for place, split in enumerate(table["split"])]
        return Listing("CIFAR-10", table, ArrayPixels(np.concatenate(images)), classes)


def _home(path: Path) -> Path:
    return path / FOLDER if (path / FOLDER).is_dir() else path


def _files(home: Path) -> list[Path]:
    """The batches there are; raises RequestError without training or test images."""
    found = [home / name for name in (*TRAIN, TEST) if (home / name).is_file()]
    absent = [name for name in (TRAIN[0], TEST) if not (home / name).is_file()]
    if absent:
        raise RequestError(Fault(f"CIFAR-10 in {home}", f"Absent: {listed(absent)}.", "Unpack the archive again."))
    return found


def _classes(home: Path) -> tuple[str, ...]:
    if not (home / META).is_file():
        return CLASSES
    names = safe_pickle.load(home / META).get("label_names")
    if not isinstance(names, list) or len(names) < 2 or not all(isinstance(name, bytes | str) for name in names):
        raise RequestError(Fault(META, "It holds no list label_names.", "Unpack the archive again."))
    return tuple(name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in names)


def _batch(file: Path, n_classes: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """(images [n, 32, 32, 3] uint8, labels [n] int64, names) of one batch. RequestError where it is no such batch."""
    content = safe_pickle.load(file)
    data, labels, names = content.get("data"), content.get("labels"), content.get("filenames")
    if (
        not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape[1:] != (3072,)
        or not _labels_fit(labels, len(data), n_classes)
    ):  # fmt: skip
        what = f"It holds no images of 3,072 bytes, each with a label from 0 to {n_classes - 1}."
        raise RequestError(Fault(f"batch {file.name}", what, "Unpack the archive again."))
    if not isinstance(names, list) or len(names) != len(data):
        names = [f"{file.name}/{place:05d}" for place in range(len(data))]
    texts = [name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in names]
    return data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), np.asarray(labels, dtype=np.int64), texts


def _labels_fit(labels: Any, n: int, n_classes: int) -> bool:
    if not isinstance(labels, list | np.ndarray) or len(labels) != n or not n:
        return False
    if isinstance(labels, list) and not all(isinstance(label, int) for label in labels):
        return False
    given = np.asarray(labels)
    return given.ndim == 1 and given.dtype.kind in "iu" and given.min() >= 0 and given.max() < n_classes
