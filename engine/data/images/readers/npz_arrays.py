"""Images in npz files: *train*.npz and *test*.npz (perhaps *val*.npz), each with images, labels and
class_names."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.data.images.readers.base import CLASS, ImageInfo, ImageReader, Listing, Wanted
from engine.data.images.readers.cifar10_batches import CLASSES
from engine.data.images.readers.pixels import ArrayPixels, listed, visible
from engine.data.spellings import one_spelling

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


class NpzArrays(ImageReader):
    """One folder, one file per split. Further arrays with one text or whole number per image are
    group columns."""

    name = "npz files (a folder with *train*.npz and *test*.npz: images, labels, class_names)"
    general = True

    def recognises(self, source: str, path: Path) -> bool:
        return "train" in _files(path)

    def look(self, source: str, path: Path) -> ImageInfo:
        files = _files(path)
        if "test" not in files:
            raise RequestError(
                Fault(
                    f"npz files in {path}", "There is no *test*.npz.", "Put one beside *train*.npz."
                )
            )
        parts = {split: _Part(file) for split, file in files.items()}
        classes, n = parts["train"].classes, sum(len(part.labels) for part in parts.values())
        columns = tuple(
            name
            for name in parts["train"].columns
            if all(name in part.columns for part in parts.values())
        )
        size = parts["train"].size
        sizes = tuple(sorted({size, 32, 64, 128}))
        name = "CIFAR-10" if classes == CLASSES else (path if path.is_dir() else path.parent).name
        return ImageInfo(
            name,
            "arrays",
            ("label",),
            (*columns, CLASS),
            "label",
            (CLASS,),
            sizes,
            n,
            size,
            classes,
            note=" ".join(note for part in parts.values() for note in part.notes),
        )

    def read(self, source: str, path: Path, wanted: Wanted) -> Listing:
        tables, images, classes, notes = [], [], tuple[str, ...](), tuple[str, ...]()
        for split, file in _files(path).items():
            part = _Part(file)
            classes, notes = classes or part.classes, (*notes, *part.notes)
            if part.classes != classes:
                raise RequestError(
                    Fault(file.name, "Its class_names differ from those of *train*.npz.", FIX)
                )
            images.append(part.images)
            cells = {
                "image_id": [f"{split}/{place:06d}" for place in range(len(part.labels))],
                "split": split,
                "target": [classes[label] for label in part.labels],
            }
            own = {name: part.columns[name].astype(str) for name in wanted.columns if name != CLASS}
            tables.append(pd.DataFrame(cells | own))
        if len({image.shape[1:] for image in images}) > 1:
            raise RequestError(Fault(f"npz files in {path}", "Their images differ in size.", FIX))
        name = "CIFAR-10" if classes == CLASSES else (path if path.is_dir() else path.parent).name
        table = pd.concat(tables, ignore_index=True)
        for column in wanted.columns:
            if column != CLASS:
                table[column], more = one_spelling(table[column], column)
                notes = (*notes, *more)
        return Listing(name, table, ArrayPixels(np.concatenate(images)), classes, notes)


class _Part:
    """One npz file, opened without pickles: its short arrays at once, its images when asked. Raises
    RequestError."""

    def __init__(self, file: Path) -> None:
        self.file = file
        arrays = self._arrays(but="images")
        for name in ("labels", "class_names"):
            if name not in arrays:
                found = ", ".join(sorted(arrays)) or "nothing"
                raise RequestError(
                    Fault(
                        file.name, f"There is no array {name}; found besides images: {found}.", FIX
                    )
                )
        self.labels, names = arrays["labels"], arrays["class_names"]
        plain = (
            name.decode("utf-8", "replace") if isinstance(name, bytes) else name
            for name in names.ravel()
        )
        self.classes = tuple(map(str, plain))
        if len(set(self.classes)) < len(self.classes):
            raise RequestError(Fault(file.name, "class_names holds one name twice.", FIX))
        good = self.labels.ndim == 1 and self.labels.dtype.kind in "iu" and len(self.labels)
        if not good or self.labels.min() < 0 or self.labels.max() >= len(self.classes):
            raise RequestError(
                Fault(file.name, f"labels must be whole numbers below {len(self.classes)}.", FIX)
            )
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
            version = np.lib.format.read_magic(member)
            reader = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, _, dtype = reader(member)
        self._fits(shape, dtype)
        return int(min(shape[1:3]))

    @property
    def images(self) -> np.ndarray:
        """The images, [n, height, width, 3] uint8. Raises RequestError."""
        images = self._arrays(only="images")["images"]
        self._fits(images.shape, images.dtype)
        return images

    def _fits(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        if (
            len(shape) != 4
            or shape[3] != 3
            or not min(shape)
            or dtype != np.uint8
            or shape[0] != len(self.labels)
        ):
            what = (
                f"images are {dtype} {list(shape)}, not uint8 [{len(self.labels)}, height,"
                " width, 3]."
            )
            how = "" if dtype == np.uint8 else TO_EIGHT_BITS.get(dtype.kind, "")
            raise RequestError(Fault(self.file.name, what, f"{FIX}{how}"))

    def _arrays(self, only: str = "", but: str = "") -> dict[str, np.ndarray]:
        """Arrays of the file by name, in their own shapes; `only` one, or all `but` one. Raises
        RequestError."""
        try:
            with np.load(self.file, allow_pickle=False) as opened:
                if sum(item.file_size for item in opened.zip.infolist()) > MAX_BYTES:
                    raise RequestError(
                        Fault(
                            self.file.name, "It unpacks to more than 8 GB.", "Split or shrink it."
                        )
                    )
                if "images" not in opened.files:
                    what = (
                        f"There is no array images; found: {', '.join(opened.files) or 'nothing'}."
                    )
                    raise RequestError(Fault(self.file.name, what, FIX))
                return {
                    name: opened[name]
                    for name in opened.files
                    if (not only or name == only) and name != but
                }
        except (
            ValueError,
            EOFError,
            KeyError,
            AttributeError,
            zipfile.BadZipFile,
            MemoryError,
        ) as error:
            what = (
                f"It cannot be read as plain arrays ({str(error)[:120] or type(error).__name__})."
            )
            raise RequestError(Fault(self.file.name, what, FIX)) from error


def _files(path: Path) -> dict[str, Path]:
    """File per split, for a folder or for one of its npz files."""
    folder = (
        path if path.is_dir() else path.parent if path.suffix == ".npz" and path.is_file() else None
    )
    names = visible(folder, "*.npz") if folder else []
    found = {
        split: [file for file in names if mark in file.stem.lower()]
        for split, mark in MARKS.items()
    }
    return {split: files[0] for split, files in found.items() if files}
