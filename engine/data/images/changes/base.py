"""What a change of images declares, and how it names classes and draws images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

import engine.data.images.changes
from engine.core.discover import members
from engine.core.errors import Fault, RequestError, unknown
from engine.core.seeds import key_of
from engine.core.types import Setting
from engine.data.images.load import ImageSet

CAT_AND_DOG = (3, 5)
"""Places of cat and dog among CIFAR-10's classes, which Meyer and Wong (2023, Secs. 4.5 and 4.6)
change."""


class ImageChange(ABC):
    """One manipulation. The new set has its own digest, and its notes say what was done."""

    name: ClassVar[str]
    settings: ClassVar[tuple[Setting, ...]]
    of_classes: ClassVar[tuple[str, ...]] = ()
    """Settings whose values are names of classes, several separated by commas."""
    of_groups: ClassVar[tuple[str, ...]] = ()
    """Settings whose value is a group column. Of both, `choices` is empty: they are the data's."""

    def apply(self, images: ImageSet, seed: int = 0, **settings: Any) -> ImageSet:
        """The changed set. Seeded, and independent of the order of the images. RequestError with
        every fault."""
        return self.change(images, seed, **self._checked(settings))

    @abstractmethod
    def change(self, images: ImageSet, seed: int, *args: Any, **settings: Any) -> ImageSet:
        """The change itself, with every setting given and in range."""

    def _checked(self, settings: dict[str, Any]) -> dict[str, Any]:
        """All settings, defaults filled in; where choices are the data's, the change checks them
        itself."""
        known = {setting.name: setting for setting in self.settings}
        where, faults = f"change {self.name}", []
        for name, value in settings.items():
            setting = known.get(name)
            if setting is None:
                faults.append(unknown(f"{where}, setting", name, known))
            elif (setting.kind != "choice" or setting.choices) and not setting.allows(value):
                faults.append(
                    Fault(
                        f"{where}, {name}",
                        f"{value!r} does not fit.",
                        f"It takes {setting.allowed()}.",
                    )
                )
        if faults:
            raise RequestError(faults)
        return {name: settings.get(name, setting.default) for name, setting in known.items()}


def image_changes() -> dict[str, ImageChange]:
    """One of each change, by name."""
    return {one.name: one for one in members(engine.data.images.changes, ImageChange)}


def named_classes(
    change: str, images: ImageSet, given: str | Sequence[str], places: Sequence[int] = CAT_AND_DOG
) -> tuple[str, ...]:
    """The classes meant, given as names or one text with commas; nothing given: those at the
    paper's places.

    Raises RequestError for classes the data does not have.
    """
    given = given if isinstance(given, str | list | tuple) else str(given)
    names = (
        (given if given in images.classes else given.split(","))
        if isinstance(given, str)
        else given
    )
    names = (
        (names,)
        if isinstance(names, str)
        else tuple(str(name).strip() for name in names if str(name).strip())
    )
    if not names:
        names = tuple(images.classes[min(place, len(images.classes) - 1)] for place in places)
    faults = [
        unknown(f"change {change}, class", name, images.classes)
        for name in names
        if name not in images.classes
    ]
    if faults:
        raise RequestError(faults)
    return tuple(dict.fromkeys(names))


def draws(images: ImageSet, *purpose: object) -> np.ndarray:
    """A number from 0 to 1 per image that depends on the purpose and the image's id only, [n]
    float64."""
    return (
        np.array([key_of(*purpose, name) for name in images.table["image_id"]], dtype=np.float64)
        / 2.0**63
    )
