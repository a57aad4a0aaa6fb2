"""Command-line options that say which images are read and which weights the model has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.audit.reading import pairs_of
from engine.core.errors import Fault


def images_options(add: Callable[..., Any], usual_data: str) -> None:
    """Which images, and which weights and outputs the model has: what every track of image classifiers asks."""
    add("--data", metavar="NAME_OR_PATH", help=f"avatars, digits, or a folder or CSV of images{usual_data}")
    add("--target", metavar="COLUMN", help="what is predicted (default: the data's usual one)")
    add("--weights", metavar="FILE", help="state dict for an architecture, or imagenet")
    add("--classes", metavar="LIST", help="names of the model's outputs in order, where its weights do not say")
    add("--size", type=int, metavar="PIXELS", help="side of the images (default: the model's)")
    add("--max-images", type=int, metavar="N", help="at most so many images per split")
    add(
        "--change",
        action="append",
        metavar="NAME[:KEY=VALUE,…]",
        help="a change of the images, such as underrepresent:classes=cat/dog,removed=0.8",
    )
    add("--train", action="append", metavar="NAME=VALUE", help="fit the dense model first; epochs, rate, batch, …")


def change_of(text: str, faults: list[Fault]) -> dict[str, Any]:
    """ "underrepresent:classes=cat/dog,removed=0.8" -> {"name": …, "classes": ["cat", "dog"], "removed": 0.8}."""
    name, _, rest = text.partition(":")
    values = pairs_of("--change", [part for part in rest.split(",") if part], faults)
    return {"name": name, **{key: value.split("/") if _is_list(key, value) else value for key, value in values.items()}}


def _is_list(key: str, value: Any) -> bool:
    return isinstance(value, str) and key == "classes"
