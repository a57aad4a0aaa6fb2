"""Images: embedded ones, files in every known layout, and what is done to them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from engine.data.images.load import ImageAsk, ImageSet, load_images
from tests.builders import refused


def load(source: object, **ask: Any) -> ImageSet:
    """Images of a source, of 16 pixels unless another size is asked for."""
    return load_images(str(source), ImageAsk(**{"size": 16} | ask))


def faults_of(source: object, **ask: Any) -> str:
    """What loading a source is refused with, a fault a line."""
    return "\n".join(refused(load, source, **ask))


def file_of(image: Image.Image, kind: str = "PNG", **more: Any) -> bytes:
    """A picture as a file of some kind."""
    memory = io.BytesIO()
    image.save(memory, kind, **more)
    return memory.getvalue()


def noise(number: int = 0, *shape: int) -> np.ndarray:
    """Numbers from 0 to 255 that differ from number to number, uint8."""
    return np.random.default_rng(number).integers(0, 256, shape, dtype=np.uint8)


def picture(path: Path, number: int = 0, size: tuple[int, int] = (24, 20), kind: str = "") -> Path:
    """A picture that differs from number to number, as its ending says or of another kind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = kind or {".jpg": "JPEG", ".png": "PNG"}[path.suffix]
    path.write_bytes(file_of(Image.fromarray(noise(number, size[1], size[0], 3)), kind))
    return path


def npz(
    folder: Path,
    split: str,
    images: np.ndarray,
    labels: Sequence[int],
    names: Sequence[Any] = ("cat", "dog"),
    **more: Any,
) -> None:
    """An npz file of one split."""
    folder.mkdir(exist_ok=True)
    own = {"labels": np.array(labels), "class_names": np.array(names)}
    np.savez(folder / f"pets_{split}.npz", images=images, **own, **more)
