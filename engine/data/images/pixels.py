"""Pixels by row, from files or from arrays; once decoded they stay in memory where all fit.

A file's range is kept or it is refused, and what else becomes of it is told.
"""

from __future__ import annotations

import hashlib
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Protocol, Self

import numpy as np
from PIL import Image, ImageFile, UnidentifiedImageError

from engine.core.errors import refusal, refused_by_system, said_by

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
"""The only formats that are opened: some others of Pillow's start programs."""
MODES = ("1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
"""Pillow's modes of 8 bits and fewer, which it turns into RGB without changing the range."""
SIXTEEN = ("I;16", "I;16B", "I;16L", "I;16N")
_ORIENTATION, _BITS, _PHOTOMETRIC, _SAMPLES = 274, 258, 262, 339  # tags of EXIF and TIFF
_NEARLY, _DARK, _LIGHT = 0.95, 5, 250  # share of an image's numbers; at most; at least

SAID = {
    "deep": "More than 8 bits per colour were brought to 8",
    "narrow": "Less than a sixteenth of the 16 bits is used, so that the picture is nearly black,",
    "clear": "Transparency was dropped",
    "frames": "Only the first of several frames is read",
    "turned": "A turn that the file asks for (EXIF) is not obeyed",
    "black": "Nearly every pixel is black",
    "white": "Nearly every pixel is white",
}
"""What is told of a picture, by name, as the beginning of a sentence."""
DEEP, NARROW, CLEAR, FRAMES, TURNED, BLACK, WHITE = SAID
ONLY_IF_MOST = (BLACK, WHITE)


class Preparation(Protocol):
    """How a model wants its pictures, where that is not the middle square, bilinear.

    `said`: all of it as a text. Called with an RGB picture it answers [side, side, 3] uint8.
    """

    @property
    def said(self) -> str: ...

    def __call__(self, image: Image.Image) -> np.ndarray: ...


class Damaged(Exception):
    """An image file that cannot be decoded, or whose range is not known."""


def decoded(
    content: bytes, size: int, prepare: Preparation | None = None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """An image file as [size, size, 3] uint8, RGB, and what must be told of it (names in SAID).
    Raises Damaged.

    Without `prepare` it is the middle square, bilinear, and JPEGs are decoded at a fraction of
    their size where that still has twice the pixels wanted. EXIF turns are ignored, as torchvision
    and transformers do.
    """
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            if image.width * image.height > (Image.MAX_IMAGE_PIXELS or 2**28):
                raise Damaged(f"{image.width} x {image.height} pixels are too many")
            told = _told_before(image)
            if prepare is None:
                image.draft("RGB", (2 * size, 2 * size))
            plain, more = _in_eight_bits(image)
            pixels = prepared(plain, size, prepare)
            return pixels, (*told, *more, *extremes(pixels))
    except Damaged:
        raise
    except UnidentifiedImageError as error:
        raise Damaged(f"it is no whole file of {', '.join(FORMATS)}") from error
    # Pillow raises a dozen kinds for broken files: OSError, SyntaxError, ValueError, …
    except Exception as error:
        raise Damaged(said_by(error)[:120]) from error


def prepared(image: Image.Image, size: int, prepare: Preparation | None) -> np.ndarray:
    """An RGB picture as [size, size, 3] uint8. Raises Damaged where `prepare` makes something else
    of it."""
    found = fitted(image, size) if prepare is None else prepare(image)
    if found.shape != (size, size, 3):
        raise Damaged(
            f"the model's processor makes {list(found.shape)} of it, not {size} x {size} pixels"
        )
    return found


def fitted(image: Image.Image, size: int) -> np.ndarray:
    """The middle square of an RGB image at the wanted size, [size, size, 3] uint8."""
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    if image.size != (side, side):
        image = image.crop((left, top, left + side, top + side))
    if side != size:
        image = image.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(image, dtype=np.uint8)


def extremes(pixels: np.ndarray) -> tuple[str, ...]:
    """Whether an image [height, width, 3] uint8 is nearly all black or white, as one whose range
    was lost is."""
    if (pixels <= _DARK).mean() > _NEARLY:
        return (BLACK,)
    return (WHITE,) if (pixels >= _LIGHT).mean() > _NEARLY else ()


def notes_on(told: Iterable[str], total: int) -> list[str]:
    """Sentences with counts, in the order of SAID. told: names in SAID, one per picture that it is
    true of."""
    counts = {name: 0 for name in SAID}
    for name in told:
        counts[name] += 1
    return [
        f"{SAID[name]} in {n} of {total}"
        f" images{'; was another range meant?' if name in ONLY_IF_MOST else '.'}"
        for name, n in counts.items()
        if n > (total / 2 if name in ONLY_IF_MOST else 0)
    ]


def _told_before(image: Image.Image) -> list[str]:
    """What is told of a file before its pixels are read."""
    told = [FRAMES] if getattr(image, "is_animated", False) else []
    turn = image.getexif().get(_ORIENTATION, 1)
    if image.format != "TIFF" and turn not in (0, 1):  # Pillow turns TIFFs itself
        told.append(TURNED)
    return told


def _in_eight_bits(image: ImageFile.ImageFile) -> tuple[Image.Image, list[str]]:
    """The picture as RGB, and what is told of that. Raises Damaged where its range is not known."""
    if image.mode in SIXTEEN or (image.mode == "I" and image.format == "PPM"):
        return _from_sixteen(image)
    if image.mode not in MODES or _tag(image, _SAMPLES, 1) != 1:
        kind = {"I": "32-bit or signed", "F": "floating-point"}.get(
            image.mode, f"signed or {image.mode}"
        )
        raise Damaged(
            f"its {kind} numbers have no known range: save it with 8 or 16 bits per colour"
        )
    told = [DEEP] if image.tile and ";16" in str(image.tile[0].args) else []
    plain = image.convert("LA") if image.mode == "La" else image
    if plain.has_transparency_data and np.asarray(plain.convert("RGBA"))[..., 3].min() < 255:
        told.append(CLEAR)
    return plain.convert("RGB"), told


def _from_sixteen(image: Image.Image) -> tuple[Image.Image, list[str]]:
    """A grey picture of 9 to 16 bits: its largest number becomes 255."""
    most = 2 ** _tag(image, _BITS, 16) - 1
    numbers = np.asarray(image)
    told = [DEEP, *([NARROW] if numbers.max() < (most + 1) / 16 else [])]
    eight = np.rint(np.arange(most + 1) * (255 / most)).astype(np.uint8)
    # White is zero, which Pillow does not turn round at this depth.
    if _tag(image, _PHOTOMETRIC, 1) == 0:
        eight = eight[::-1]
    return Image.fromarray(eight[numbers]).convert("RGB"), told


def _tag(image: Image.Image, number: int, usual: int) -> int:
    """A TIFF's tag, the first of several; `usual` where it has none or is no TIFF."""
    found = getattr(image, "tag_v2", {}).get(number, usual)
    return int(found[0] if isinstance(found, tuple) else found)


CHECK_BELOW = 20_000
"""Sets of fewer files than this are decoded and hashed whole when they are loaded."""
KEEP_BYTES = 1_500_000_000
"""Sets that take less than this as uint8 stay in memory once decoded."""
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
THREADS = min(8, os.cpu_count() or 1)


@dataclass(frozen=True)
class Check:
    """What a first look at images found. `identities`: one text per image that stands for its
    content; equal ones mean equal pictures where they are `hashed`. `damaged`: why images cannot be
    read, by place. `notes`: sentences on the images that were decoded.
    """

    identities: list[str]
    hashed: bool
    damaged: Mapping[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Pixels(ABC):
    """Images by position. `prepare`: how each becomes what the model sees, None for the middle
    square."""

    prepare: Preparation | None = None

    @abstractmethod
    def take(self, rows: np.ndarray, size: int) -> np.ndarray:
        """The images `rows` [k] int, [k, size, size, 3] uint8.

        Safe to call from several threads. Raises RequestError for a damaged file.
        """

    @abstractmethod
    def check(self, rows: np.ndarray, size: int, keep: Callable[[int, np.ndarray], None]) -> Check:
        """Identities of the images `rows` [k] int, and which places in `rows` cannot be read.

        keep: called with the place and the pixels [size, size, 3] of each image that was decoded.
        """

    def prepared_by(self, prepare: Preparation | None) -> Self:
        """The same images, prepared so; those that are drawn at the size wanted need no
        preparing."""
        return (
            replace(self, prepare=prepare) if isinstance(self, ArrayPixels | FilePixels) else self
        )

    def missing(self) -> np.ndarray:
        """Positions of images that are not there, ascending, [n] int64."""
        return np.empty(0, dtype=np.int64)

    def name_of(self, row: int) -> str:
        return str(row)


@dataclass(frozen=True, eq=False)
class ArrayPixels(Pixels):
    """Images in memory, [n, height, width, 3] uint8."""

    images: np.ndarray
    prepare: Preparation | None = None

    def take(self, rows: np.ndarray, size: int) -> np.ndarray:
        """The images `rows` [k] int, [k, size, size, 3] uint8."""
        if self.prepare is None and self.images.shape[1:3] == (size, size):
            return self.images[rows]
        try:
            parts = [
                prepared(Image.fromarray(self.images[row]), size, self.prepare) for row in rows
            ]
        except (
            Damaged,
            ValueError,
        ) as error:  # all have one shape: what the processor cannot do, it can do to none
            raise refusal(
                "images", f"The model's processor cannot read them ({error}).", "Use others."
            ) from error
        return np.stack(parts) if parts else np.empty((0, size, size, 3), np.uint8)

    def check(self, rows: np.ndarray, size: int, keep: Callable[[int, np.ndarray], None]) -> Check:
        """Identities of the images `rows` [k] int: hashes of their pixels. None is damaged."""
        found = [
            hashlib.sha256(np.ascontiguousarray(self.images[row]).data).hexdigest() for row in rows
        ]
        notes = notes_on((name for row in rows for name in extremes(self.images[row])), len(rows))
        return Check(found, True, notes=tuple(notes))


@dataclass(frozen=True, eq=False)
class FilePixels(Pixels):
    """Image files below `root`. `sizes`: bytes of each, [n] int64, -1 where there is no such
    file."""

    root: Path
    names: tuple[str, ...]
    sizes: np.ndarray
    prepare: Preparation | None = None

    @classmethod
    def below(cls, root: Path, names: Sequence[str], confined: bool = False) -> FilePixels:
        """Files under `root`; confined: links that lead out of it count as missing.

        Raises RequestError for a name that is absolute or climbs out with "..". Looks into each
        folder once, never at single files.
        """
        cleaned = [name.replace("\\", "/") for name in names]
        if bad := [name for name in cleaned if not _stays_inside(name)]:
            what = f"{len(bad)} image paths are absolute or climb out with '..': {listed(bad)}."
            raise refusal(f"images in {root}", what, "Name images relative to that folder.")
        tidy = [PurePosixPath(name) for name in cleaned]
        there = {
            folder: _sizes_in(root, folder, confined) for folder in {name.parent for name in tidy}
        }
        sizes = np.array([there[name.parent].get(name.name, -1) for name in tidy], dtype=np.int64)
        return cls(root, tuple(str(name) for name in tidy), sizes)

    def missing(self) -> np.ndarray:
        """Positions of files that are absent or empty, ascending, [n] int64."""
        return np.flatnonzero(self.sizes <= 0)

    def name_of(self, row: int) -> str:
        return self.names[row]

    def take(self, rows: np.ndarray, size: int) -> np.ndarray:
        """The files `rows` [k] int, decoded in threads, [k, size, size, 3] uint8."""
        out = np.empty((len(rows), size, size, 3), dtype=np.uint8)

        def one(place: int) -> None:
            name = self.names[rows[place]]
            try:
                out[place] = decoded((self.root / name).read_bytes(), size, self.prepare)[0]
            except (Damaged, OSError) as error:
                what = f"It cannot be decoded ({refused_by_system(error)})."
                fix = "Replace it, or delete it: missing images are left out."
                raise refusal(f"image {name}", what, fix) from error

        in_threads(one, range(len(rows)))
        return out

    def check(self, rows: np.ndarray, size: int, keep: Callable[[int, np.ndarray], None]) -> Check:
        """Identities of `rows` [k] int: hashes of the files' bytes, each decoded too, where there
        are few. From CHECK_BELOW images on they are names and sizes."""
        if len(rows) >= CHECK_BELOW:
            names = [f"{self.names[row]}:{self.sizes[row]}" for row in rows]
            return Check(names, False)

        def examined(place: int) -> tuple[str, tuple[str, ...], str]:
            """What stands for the content of one file, what is told of it, why it is damaged."""
            try:
                content = (self.root / self.names[rows[place]]).read_bytes()
                pixels, told = decoded(content, size, self.prepare)
            except (Damaged, OSError) as error:
                return "", (), refused_by_system(error)
            keep(place, pixels)
            return hashlib.sha256(content).hexdigest(), told, ""

        identities, told, reasons = zip(*in_threads(examined, range(len(rows))), strict=True)
        bad = {place: why for place, why in enumerate(reasons) if why}
        notes = notes_on((name for names in told for name in names), len(rows) - len(bad))
        return Check(list(identities), True, bad, tuple(notes))


@dataclass(eq=False)
class Shelf:
    """Some images of a source at one size; those already decoded are kept where all of them fit
    into memory.

    rows: their positions in the source, [n] int.
    """

    pixels: Pixels
    rows: np.ndarray
    size: int
    _kept: np.ndarray | None = field(init=False, default=None)
    _have: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self._have = np.zeros(len(self.rows), dtype=bool)
        if len(self.rows) * self.size**2 * 3 <= KEEP_BYTES:
            self._kept = np.empty((len(self.rows), self.size, self.size, 3), dtype=np.uint8)

    def check(self) -> Check:
        return self.pixels.check(self.rows, self.size, self._keep)

    def read(self, places: np.ndarray) -> np.ndarray:
        """The images at `places` [k] int, [k, size, size, 3] uint8, a copy.

        Threads that meet may both decode an image; they write the same.
        """
        places = np.asarray(places, dtype=np.int64)
        if self._kept is None:
            return self.pixels.take(self.rows[places], self.size)
        absent = np.unique(places[~self._have[places]])
        if len(absent):
            self._kept[absent] = self.pixels.take(self.rows[absent], self.size)
            self._have[absent] = True
        return self._kept[places]

    def _keep(self, place: int, image: np.ndarray) -> None:
        """Keep an image [size, size, 3] uint8 that was decoded."""
        if self._kept is not None:
            self._kept[place] = image
            self._have[place] = True


def in_threads(work: Callable[[int], Any], places: Iterable[int]) -> list[Any]:
    """`work` for each place, in order of the places; decoding leaves Python's lock, so threads
    help."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, places))


def listed(names: Sequence[str]) -> str:
    """The first three names."""
    few = ", ".join(str(name)[:200] for name in names[:3])
    return f"{few}, …" if len(names) > 3 else few


def is_picture(name: str) -> bool:
    """Whether a file's name is a picture's. Names that begin with a dot are hidden files, such as
    macOS's copies."""
    return name.lower().endswith(SUFFIXES) and not name.startswith(".")


def visible(folder: Path, pattern: str) -> list[Path]:
    """Its files of that pattern, sorted, without hidden ones."""
    return sorted(path for path in folder.glob(pattern) if not path.name.startswith("."))


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not (
        path.is_absolute() or ".." in path.parts or "\0" in name or ":" in path.parts[0]
    )


def _sizes_in(root: Path, folder: PurePosixPath, confined: bool) -> dict[str, int]:
    """Bytes of each file of one folder; {} where there is no such folder. Links that lead out of a
    confined root count as missing."""
    top, place = os.path.realpath(root), root / folder

    def stays(path: Path) -> bool:
        return not confined or Path(os.path.realpath(path)).is_relative_to(top)

    if not place.is_dir() or not stays(place):
        return {}
    with os.scandir(place) as entries:
        return {
            entry.name: entry.stat().st_size
            for entry in entries
            if entry.is_file() and (not entry.is_symlink() or stays(Path(entry.path)))
        }
