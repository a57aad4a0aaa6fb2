"""Image folders: train/<class>/* and test/<class>/*, perhaps val/<class>/*, as torchvision's
ImageFolder has them."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd

from engine.core.errors import refusal
from engine.data.images.arrays import CLASSES
from engine.data.images.load import CLASS, PHOTO_SIZES, ImageInfo, ImageReader, Listing, Wanted
from engine.data.images.pixels import SUFFIXES, FilePixels, is_picture, listed, visible
from engine.data.sources import WORDS
from engine.data.tables import one_spelling

LEFT_BEHIND = ("thumbs.db", "desktop.ini", "__MACOSX")


class ClassFolders(ImageReader):
    """The folder's name is the class, of all pictures in and below it. Hidden files are ignored,
    and those with other endings, or outside the classes, counted."""

    name = "an image folder (train/<class>/ and test/<class>/ with images)"
    general = True

    def recognises(self, source: str, path: Path) -> bool:
        return path.is_dir() and bool({"train", "test"} & set(_splits(path)) and _classes(path))

    def look(self, source: str, path: Path) -> ImageInfo:
        name, table, classes, notes = _listed(path)
        sizes, size = (32, *PHOTO_SIZES[1:]), 32 if classes == CLASSES else 64
        axes, n, said = (CLASS,), len(table), " ".join(notes)
        return ImageInfo(
            name, "image files", ("label",), axes, "label", axes, sizes, n, size, classes, note=said
        )

    def read(self, source: str, path: Path, wanted: Wanted) -> Listing:
        name, table, classes, notes = _listed(path)
        pixels = FilePixels.below(path, list(table["image_id"]))
        return Listing(name, table, pixels, classes, notes)


def _listed(path: Path) -> tuple[str, pd.DataFrame, tuple[str, ...], tuple[str, ...]]:
    """Name; columns split, target, image_id of every image; the classes, sorted, or as CIFAR-10 has
    them; notes on folders that are one class and on files that are not read."""
    files, others = _files(path)
    table = pd.DataFrame(files, columns=["split", "target", "image_id"])
    empty = set(_classes(path)) - set(table["target"])
    table["target"], notes = one_spelling(table["target"], "class folders", missing=())
    found = empty | set(table["target"])
    name, classes = (
        ("CIFAR-10", CLASSES) if found == set(CLASSES) else (path.name, tuple(sorted(found)))
    )
    return name, table, classes, (*notes, *_said(others), *_outside(path))


def _splits(path: Path) -> dict[str, str]:
    """Folder of each split."""
    return {WORDS[name.lower()]: name for name in sorted(_folders(path)) if name.lower() in WORDS}


def _classes(path: Path) -> set[str]:
    """Names of the class folders of all splits."""
    return {name for folder in _splits(path).values() for name in _folders(path / folder)}


def _folders(path: Path) -> list[str]:
    with os.scandir(path) as entries:
        return [entry.name for entry in entries if entry.is_dir() and entry.name[0] != "."]


def _files(path: Path) -> tuple[list[tuple[str, str, str]], list[str]]:
    """(split, class, path below the folder) of every image, and names of other files. RequestError
    without training or test images."""
    found, others = [], []
    for split, folder in _splits(path).items():
        for name in _folders(path / folder):
            for place, folders, files in os.walk(path / folder / name):
                folders[:] = [one for one in folders if not one.startswith(".")]
                inside = Path(place).relative_to(path).as_posix()
                found += [(split, name, f"{inside}/{file}") for file in files if is_picture(file)]
                others += [file for file in files if not is_picture(file)]
    absent = [split for split in ("train", "test") if split not in {row[0] for row in found}]
    if absent:
        what = f"No images in {' and '.join(f'{split}/<class>/' for split in absent)}."
        fix = f"Endings read: {', '.join(SUFFIXES)}."
        raise refusal(f"image folder {path}", what, fix)
    return sorted(found), others


def _outside(path: Path) -> tuple[str, ...]:
    """Notes on folders beside the splits, and on pictures in a split but in no class."""
    splits = _splits(path).values()
    beside = [
        name for name in sorted(_folders(path)) if name not in splits and name not in LEFT_BEHIND
    ]
    stray = [
        f"{split}/{file.name}"
        for split in splits
        for file in visible(path / split, "*")
        if is_picture(file.name) and file.is_file()
    ]
    notes = []
    if beside:
        what = "Folders that are not read, for they name no split, or one twice:"
        notes.append(f"{what} {listed(beside)}.")
    if stray:
        what = "Pictures that lie in no class folder and were left out:"
        notes.append(f"{what} {len(stray)} ({listed(stray)}).")
    return tuple(notes)


def _said(others: list[str]) -> tuple[str, ...]:
    """A note on files that may be pictures all the same; none on those that systems leave
    behind."""
    left = [name for name in others if name[0] != "." and name.lower() not in LEFT_BEHIND]
    if not left:
        return ()
    kinds = sorted({Path(name).suffix.lower() or "no ending" for name in left})
    what = f"{len(left)} files do not end as pictures that are read here and were left out:"
    return (f"{what} {listed(kinds)}.",)
