"""How a picture becomes what a classifier sees, where transformers' own image processor says so: it
is run itself.

So every field that says how pictures are brought to size is obeyed, in every family. What it does
to numbers (rescale, normalise) is folded into one mean and one deviation per colour, and compared
with its own output.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from PIL import Image

from engine.core.errors import Fault
from engine.core.types import Values
from engine.models.file_fields import FIELDS, OBEYED, refusals
from engine.models.vision import hub_folders

FILE = "preprocessor_config.json"
Colour = tuple[float, float, float]
LARGEST_SIDE, MOST_UNEQUAL = 2048, 100
_FIX = (
    "Mend the field, or delete the file: then the middle square is taken and the usual mean is"
    " assumed."
)
_PROBES = ((61, 40), (40, 61), (300, 299))


@dataclass(frozen=True)
class OwnProcessor:
    """A processor by what it saves of itself, as JSON with sorted keys."""

    said: str

    def __call__(self, image: Image.Image) -> np.ndarray:
        """An RGB picture resized and cropped as the processor does, [height, width, 3] uint8."""
        if max(image.size) > MOST_UNEQUAL * min(image.size):
            raise ValueError(f"{image.width} x {image.height} pixels are too long and narrow")
        processor = _built(self.said)
        raw = {
            "do_rescale": False,
            "do_normalize": False,
            "include_top": False,
            "return_tensors": "np",
        }
        raw = {
            name: value
            for name, value in raw.items()
            if name in processor.valid_kwargs.__annotations__
        }
        found = processor(image, **raw)["pixel_values"][0]
        return np.ascontiguousarray(np.moveaxis(found, 0, -1))

    @property
    def colours(self) -> tuple[Colour, Colour]:
        """Mean and deviation of pixels in [0, 1] that do what it does to numbers: (v / 255 - mean)
        / deviation."""
        own = _built(self.said)
        said = {
            name: getattr(own, name) for name in own.valid_kwargs.__annotations__
        }  # what its class looks at
        mean, std = (_three(said[name]) for name in ("image_mean", "image_std"))
        # EfficientNets divide by it once more.
        again = std if said.get("include_top") else (1.0, 1.0, 1.0)
        if not said["do_normalize"]:
            mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
        offset = 1.0 if said["do_rescale"] and said.get("rescale_offset") else 0.0
        scale = 255 * said["rescale_factor"] if said["do_rescale"] else 255.0
        scale = 1.0 if abs(scale - 1) < 1e-9 else scale
        means = tuple((one + offset) / scale for one in mean)
        return means, tuple(one * more / scale for one, more in zip(std, again, strict=True))

    @property
    def side(self) -> int:
        """Pixels a side of what it makes. ValueError where that is no square, or not the same for
        every picture."""
        shapes = {self(picture).shape for picture in _pictures()}
        height, width, channels = next(iter(shapes))
        if len(shapes) > 1 or height != width or channels != 3:
            raise ValueError("it does not bring every picture to one square size")
        return height

    def check(self) -> None:
        """ValueError where mean and deviation on its pixels do not give what it gives itself."""
        mean, std = (np.array(three) for three in self.colours)
        for picture in _pictures():
            own = np.moveaxis(
                np.asarray(_built(self.said)(picture, return_tensors="np")["pixel_values"])[0],
                0,
                -1,
            )
            ours = (self(picture) / 255 - mean) / std
            if ours.shape != own.shape or not np.allclose(ours, own, rtol=1e-4, atol=1e-4):
                raise ValueError("it does more to numbers than to rescale and normalise them")


def processor_of(
    said: Values, family: str | None, where: str
) -> tuple[OwnProcessor | None, list[Fault]]:
    """The processor that a file's fields describe, those of its class where the file is silent; or
    all faults.

    family: the model's, which names the class where the file does not.
    """
    faults = [Fault(where, what, _FIX) for what in _wrong_values(said)]
    kind = _kind(said, family)
    if kind is None:
        what = (
            f"asks for {_asked(said) or 'an unnamed processor'}, not a processor of image"
            " classifiers known here."
        )
        return None, [*faults, Fault(where, what, _FIX)]
    faults += refusals(FILE, said, where)
    if faults:
        return None, faults
    try:
        found = _saved(kind, said)
        # What its class asks for where the file is silent.
        faults = refusals(FILE, json.loads(found.said), where)
        if not faults and found.side:
            found.check()
    except Exception as error:  # whatever transformers finds wrong in a processor
        first = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        return None, [Fault(where, f"cannot be obeyed: {first}.", _FIX)]
    return (None if faults else found), faults


def _saved(kind: str, said: Values) -> OwnProcessor:
    """Only fields that are obeyed reach the class."""
    known = {
        name
        for name, fate in FIELDS[FILE].items()
        if fate.kind == OBEYED and not name.endswith("_type")
    }
    obeyed = {name: value for name, value in said.items() if name in known}
    whole = json.loads(_class_of(kind)(**obeyed).to_json_string())
    return OwnProcessor(json.dumps({**whole, "image_processor_type": kind}, sort_keys=True))


@lru_cache(maxsize=32)
def _built(said: str) -> Any:
    whole = json.loads(said)
    return _class_of(whole.pop("image_processor_type"))(**whole)


@cache
def _pictures() -> tuple[Image.Image, ...]:
    """Pictures of several shapes, every number in them."""
    draw = np.random.default_rng(0)
    return tuple(
        Image.fromarray(draw.integers(0, 256, (high, wide, 3), dtype=np.uint8))
        for wide, high in _PROBES
    )


def _asked(said: Values) -> str:
    return str(said.get("image_processor_type") or said.get("feature_extractor_type") or "")[:60]


def _kind(said: Values, family: str | None) -> str | None:
    """transformers' name of the processor, None where it is none of an image classifier."""
    asked = _asked(said).replace("FeatureExtractor", "ImageProcessor")
    for ending in ("Fast", "Pil"):
        asked = asked.removesuffix(ending)
    asked = asked or next(
        (name for name, (_, families) in _kinds().items() if family in families), ""
    )
    return asked if asked in _kinds() else None


@cache
def _kinds() -> dict[str, tuple[str, list[str]]]:
    """Processors of image classifiers: name -> name of the class that runs on Pillow, and model
    families."""
    from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES

    found: dict[str, tuple[str, list[str]]] = {}
    for family in hub_folders.families():
        names = IMAGE_PROCESSOR_MAPPING_NAMES.get(family, {})
        if names.get("torchvision") and names.get("pil"):
            found.setdefault(names["torchvision"], (names["pil"], []))[1].append(family)
    return found


def _class_of(kind: str) -> Any:
    from transformers.models.auto.image_processing_auto import get_image_processor_class_from_name

    return get_image_processor_class_from_name(_kinds()[kind][0])


def _wrong_values(said: Values) -> list[str]:
    """What is wrong with numbers before transformers computes with them."""
    found = []
    for name in ("image_mean", "image_std"):
        above = 0.0 if name == "image_std" else -math.inf
        if said.get(name) is not None and not all(
            _is_number(one, above) for one in _three(said[name])
        ):
            found.append(
                f"has {name} {said[name]!r}, not three"
                f" numbers{' above zero' * (name == 'image_std')}."
            )
    for name, least, most in (("rescale_factor", 1e-6, 1e6), ("crop_pct", 0.1, 10.0)):
        if said.get(name) is not None and not (_is_number(said[name], least) and said[name] < most):
            found.append(f"has {name} {said[name]!r}, not a number from {least:g} to {most:g}.")
    for name in ("size", "crop_size"):
        sides = said.get(name)
        sides = (
            list(sides.values())
            if isinstance(sides, Mapping)
            else sides
            if isinstance(sides, list)
            else [sides]
        )
        if not all(one is None or (type(one) is int and 0 < one <= LARGEST_SIDE) for one in sides):
            found.append(f"has {name} {said[name]!r}, not pixels from 1 to {LARGEST_SIDE}.")
    return found


def _three(value: Any) -> tuple[Any, ...]:
    """One for each colour, of three or of one for all; nothing that is a number for anything
    else."""
    if isinstance(value, list | tuple):
        return tuple(value) if len(value) == 3 else (None,) * 3
    return (value,) * 3


def _is_number(value: Any, above: float) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value > above
