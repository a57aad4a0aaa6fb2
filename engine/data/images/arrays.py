"""Images in arrays: npz files, and CIFAR-10's python batches."""

from __future__ import annotations

import hashlib
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from engine.core.errors import refusal
from engine.core.text import words
from engine.data.images.load import CLASS, ImageInfo, ImageReader, Listing, Wanted
from engine.data.images.pixels import ArrayPixels, listed, visible
from engine.data.tables import one_spelling

MARKS = {"train": "train", "validation": "val", "test": "test"}
MAX_BYTES = 8 * 2**30
"""Bytes one file may unpack to."""
TAKEN = ("labels", "class_names", "label", "split", "image_id", "target", "unit", CLASS)
"""Names of arrays that cannot be group columns."""
FIX = (
    "Save it with np.savez: images uint8 [n, height, width, 3], labels integers [n], class_names"
    " texts [k]."
)

TO_EIGHT_BITS = {
    "f": " Of numbers from 0 to 1: np.rint(images * 255).astype(np.uint8).",
    "u": " Of 16 bits: np.rint(images / 257).astype(np.uint8).",
}
"""What to do about other numbers, by their kind: only who made them knows their range."""


BROKEN = (ValueError, EOFError, KeyError, AttributeError, zipfile.BadZipFile, MemoryError)


class NpzArrays(ImageReader):
    """*train*.npz and *test*.npz (perhaps *val*.npz), each with images, labels and class_names.
    Further arrays with one text or whole number per image are group columns."""

    name = "npz files (a folder with *train*.npz and *test*.npz: images, labels, class_names)"
    general = True

    def recognises(self) -> bool:
        return "train" in _files(self.path)

    def look(self) -> ImageInfo:
        files = _files(self.path)
        if "test" not in files:
            raise refusal(
                f"npz files in {self.path}",
                "There is no *test*.npz.",
                "Put one beside *train*.npz.",
            )
        parts = {split: _Part(file) for split, file in files.items()}
        shared = set.intersection(*(set(part.columns) for part in parts.values()))
        columns = (name for name in parts["train"].columns if name in shared)
        return ImageInfo(
            _name(self.path, parts["train"].classes),
            (*columns, CLASS),
            note=" ".join(note for part in parts.values() for note in part.notes),
            size=parts["train"].size,
        )

    def read(self, wanted: Wanted) -> Listing:
        tables, images, classes, notes = [], [], tuple[str, ...](), tuple[str, ...]()
        for split, file in _files(self.path).items():
            part = _Part(file)
            classes, notes = classes or part.classes, (*notes, *part.notes)
            if part.classes != classes:
                raise refusal(file.name, "Its class_names differ from those of *train*.npz.", FIX)
            images.append(part.images)
            cells = {
                "image_id": [f"{split}/{place:06d}" for place in range(len(part.labels))],
                "split": split,
                "target": [classes[label] for label in part.labels],
            }
            own = {name: part.columns[name].astype(str) for name in wanted.groups if name != CLASS}
            tables.append(pd.DataFrame(cells | own))
        if len({image.shape[1:] for image in images}) > 1:
            raise refusal(f"npz files in {self.path}", "Their images differ in size.", FIX)
        table = pd.concat(tables, ignore_index=True)
        for column in wanted.groups:
            if column != CLASS:
                table[column], more = one_spelling(table[column], column)
                notes = (*notes, *more)
        pixels = ArrayPixels(np.concatenate(images))
        return Listing(_name(self.path, classes), table, pixels, classes, notes)


def _name(path: Path, classes: tuple[str, ...]) -> str:
    return "CIFAR-10" if classes == CLASSES else (path if path.is_dir() else path.parent).name


class _Part:
    """One npz file, opened without pickles: its short arrays at once, its images when asked. Raises
    RequestError."""

    def __init__(self, file: Path) -> None:
        self.file = file
        arrays = self._arrays(lambda name: name != "images")
        for name in ("labels", "class_names"):
            if name not in arrays:
                found = ", ".join(sorted(arrays)) or "nothing"
                what = f"There is no array {name}; found besides images: {found}."
                raise refusal(file.name, what, FIX)
        self.labels, names = arrays["labels"], arrays["class_names"].ravel()
        self.classes = tuple(
            name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
            for name in names
        )
        if len(set(self.classes)) < len(self.classes):
            raise refusal(file.name, "class_names holds one name twice.", FIX)
        good = self.labels.ndim == 1 and self.labels.dtype.kind in "iu" and len(self.labels)
        if not good or self.labels.min() < 0 or self.labels.max() >= len(self.classes):
            what = f"labels must be whole numbers below {len(self.classes)}."
            raise refusal(file.name, what, FIX)
        self.columns = {
            name: array
            for name, array in arrays.items()
            if name not in TAKEN and array.shape == self.labels.shape and array.dtype.kind in "Uiub"
        }
        others = [name for name in arrays if name not in (*self.columns, "labels", "class_names")]
        what = "no text or whole number per image, or named as the audit names its own"
        self.notes = (f"{file.name}: {listed(others)} not read: {what}.",) if others else ()

    @property
    def size(self) -> int:
        """Shorter side of the images, from their header alone. Raises RequestError where they are
        no RGB images."""
        with zipfile.ZipFile(self.file) as archive, archive.open("images.npy") as member:
            header = np.lib.format
            first = header.read_magic(member) == (1, 0)
            read = header.read_array_header_1_0 if first else header.read_array_header_2_0
            shape, _, dtype = read(member)
        self._fits(shape, dtype)
        return int(min(shape[1:3]))

    @property
    def images(self) -> np.ndarray:
        """The images, [n, height, width, 3] uint8. Raises RequestError."""
        images = self._arrays(lambda name: name == "images")["images"]
        self._fits(images.shape, images.dtype)
        return images

    def _fits(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        n = len(self.labels)
        fits = len(shape) == 4 and (shape[0], shape[3]) == (n, 3) and min(shape) > 0
        if not fits or dtype != np.uint8:
            what = f"images are {dtype} {list(shape)}, not uint8 [{n}, height, width, 3]."
            how = "" if dtype == np.uint8 else TO_EIGHT_BITS.get(dtype.kind, "")
            raise refusal(self.file.name, what, f"{FIX}{how}")

    def _arrays(self, wanted: Callable[[str], bool]) -> dict[str, np.ndarray]:
        """Arrays of the file whose name is wanted, in their own shapes. Raises RequestError."""
        try:
            with np.load(self.file, allow_pickle=False) as opened:
                if sum(item.file_size for item in opened.zip.infolist()) > MAX_BYTES:
                    what = "It unpacks to more than 8 GB."
                    raise refusal(self.file.name, what, "Split or shrink it.")
                if "images" not in opened.files:
                    found = ", ".join(opened.files) or "nothing"
                    raise refusal(self.file.name, f"There is no array images; found: {found}.", FIX)
                return {name: opened[name] for name in opened.files if wanted(name)}
        except BROKEN as error:
            why = str(error)[:120] or type(error).__name__
            what = f"It cannot be read as plain arrays ({why})."
            raise refusal(self.file.name, what, FIX) from error


def _files(path: Path) -> dict[str, Path]:
    """File per split, for a folder or for one of its npz files."""
    if not path.is_dir() and not (path.suffix == ".npz" and path.is_file()):
        return {}
    found: dict[str, Path] = {}
    for split, mark in MARKS.items():
        for file in visible(path if path.is_dir() else path.parent, "*.npz"):
            if mark in file.stem.lower():
                found.setdefault(split, file)
    return found


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
CLASSES = words("airplane automobile bird cat deer dog frog horse ship truck")


class Cifar10Batches(ImageReader):
    """50,000 + 10,000 images of 32 x 32; a tenth of the training images validates.

    The batches are pickles, which can run code, so only the published files, told by their MD5, are
    read. Nobody can make another file of a given MD5; torchvision, whose import takes torch, checks
    the same.
    """

    name = f"CIFAR-10 ({FOLDER}/ with data_batch_1 to 5 and test_batch)"

    def recognises(self) -> bool:
        return any((self.home / name).is_file() for name in PUBLISHED)

    def look(self) -> ImageInfo:
        self.batches()
        return ImageInfo("CIFAR-10")

    def read(self, wanted: Wanted) -> Listing:
        tables, images = [], []
        for file, raw in _sound(self.batches()).items():
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

    @property
    def home(self) -> Path:
        return self.path / FOLDER if (self.path / FOLDER).is_dir() else self.path

    def batches(self) -> list[Path]:
        """The batches there are; raises RequestError without training or test images."""
        found = [self.home / name for name in PUBLISHED if (self.home / name).is_file()]
        absent = [name for name in (FIRST, TEST) if not (self.home / name).is_file()]
        if absent:
            where, what = f"CIFAR-10 in {self.home}", f"Absent: {listed(absent)}."
            raise refusal(where, what, "Unpack the archive again.")
        return found


def _sound(files: list[Path]) -> dict[Path, bytes]:
    """The bytes of every batch. RequestError, before any is opened, for those that are not the
    published ones."""
    found, other = {}, []
    for path in files:
        with path.open("rb") as file:
            found[path] = file.read(LARGEST)
        if hashlib.md5(found[path]).hexdigest() != PUBLISHED[path.name]:
            other.append(path.name)
    if other:
        what = (
            f"Not as published (by MD5): {listed(other)}. A pickle can run code, so none was"
            " opened."
        )
        fix = (
            "Fetch the archive again from CIFAR-10's page, or save your images as npz or in a"
            " folder per class."
        )
        raise refusal(f"CIFAR-10 in {files[0].parent}", what, fix)
    return found
