"""A picture's file as pixels: its range is kept or it is refused, and what else becomes of it is
told."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image, ImageFile, UnidentifiedImageError

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
"""The only formats that are opened: some others of Pillow's start programs."""
MODES = ("1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
"""Pillow's modes of 8 bits and fewer, which it turns into RGB without changing the range."""
SIXTEEN = ("I;16", "I;16B", "I;16L", "I;16N")
_ORIENTATION, _BITS, _PHOTOMETRIC, _SAMPLES = 274, 258, 262, 339  # tags of EXIF and TIFF
_NEARLY, _DARK, _LIGHT = 0.95, 5, 250  # share of an image's numbers; at most; at least

DEEP, NARROW, CLEAR, FRAMES, TURNED, BLACK, WHITE = (
    "deep",
    "narrow",
    "clear",
    "frames",
    "turned",
    "black",
    "white",
)
SAID = {
    DEEP: "More than 8 bits per colour were brought to 8",
    NARROW: "Less than a sixteenth of the 16 bits is used, so that the picture is nearly black,",
    CLEAR: "Transparency was dropped",
    FRAMES: "Only the first of several frames is read",
    TURNED: "A turn that the file asks for (EXIF) is not obeyed",
    BLACK: "Nearly every pixel is black",
    WHITE: "Nearly every pixel is white",
}
"""What is told of a picture, by name, as the beginning of a sentence."""
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
    except (
        Exception
    ) as error:  # Pillow raises a dozen kinds for broken files: OSError, SyntaxError, ValueError, …
        raise Damaged(str(error)[:120] or type(error).__name__) from error


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


def is_deep(file: Path | io.BytesIO) -> bool:
    """Whether it holds a grey picture of more than 8 bits, which was clipped before ranges were
    looked at."""
    try:
        with Image.open(file, formats=FORMATS) as image:
            return image.mode in SIXTEEN or image.mode == "I"
    except Exception:  # damaged: said when it is read
        return False


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
    if image.format != "TIFF" and image.getexif().get(_ORIENTATION, 1) not in (
        0,
        1,
    ):  # Pillow turns TIFFs itself
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
    plain: Image.Image = image.convert("LA") if image.mode == "La" else image
    if plain.has_transparency_data and np.asarray(plain.convert("RGBA"))[..., 3].min() < 255:
        told.append(CLEAR)
    return plain.convert("RGB"), told


def _from_sixteen(image: Image.Image) -> tuple[Image.Image, list[str]]:
    """A grey picture of 9 to 16 bits: its largest number becomes 255."""
    most = 2 ** _tag(image, _BITS, 16) - 1
    numbers = np.asarray(image)
    told = [DEEP, *([NARROW] if numbers.max() < (most + 1) / 16 else [])]
    eight = np.rint(np.arange(most + 1) * (255 / most)).astype(np.uint8)
    if (
        _tag(image, _PHOTOMETRIC, 1) == 0
    ):  # white is zero, which Pillow does not turn round at this depth
        eight = eight[::-1]
    return Image.fromarray(eight[numbers]).convert("RGB"), told


def _tag(image: Image.Image, number: int, usual: int) -> int:
    """A TIFF's tag, the first of several; `usual` where it has none or is no TIFF."""
    found: Any = getattr(image, "tag_v2", {}).get(number, usual)
    return int(found[0] if isinstance(found, tuple) else found)
