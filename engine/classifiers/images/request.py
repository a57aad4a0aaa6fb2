"""What every request about an image classifier asks of its model and its images, and what can be wrong with that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from engine.audit.request import Plan
from engine.audit.request_checks import (
    axis_faults,
    check_device,
)
from engine.classifiers.class_order import in_order_of
from engine.classifiers.images.context import TEST, TRAIN
from engine.core.errors import Fault, RequestError, unknown
from engine.data.images.changes.base import image_changes
from engine.data.images.load import ImageAsk, ImageSet, load_images, look
from engine.training.recipe import Recipe

KEPT = ("first", "all", "none")

CLASS_AXIS = "class"


class Asked(Protocol):
    """What every request about an image classifier says of its model and its images."""

    model: str
    data: str
    axes: tuple[str, ...]
    target: str | None
    weights: str | None
    size: int | None
    max_images: int | None
    changes: tuple[dict[str, Any], ...]
    first_seed: int
    train: dict[str, Any] | None
    mirror: bool | None
    classes: tuple[str, ...]
    device: str


@dataclass(frozen=True)
class ImagePlan(Plan):
    """A request whose images are listed and whose model is inspected but not loaded."""

    images: ImageSet
    model: Any  # engine.models.load_image_classifier.ClassifierInfo

    @property
    def is_fresh(self) -> bool:
        """Whether the model is new, and fitted before anything is cut."""
        return is_fresh(self.request)

    @property
    def content(self) -> list[Any]:
        """The model, and a digest of the images."""
        model = [self.model.arch, self.model.weight_hash, self.model.size, list(self.model.classes)]
        model += [list(self.model.mean), list(self.model.std), self.request.weights if self.is_fresh else None]
        return [model, self.images.digest]


def mirrors(request: Asked) -> bool:
    """Whether training images are mirrored: as asked, else unless they are digits."""
    return request.data.partition(":")[0] != "digits" if request.mirror is None else request.mirror


def recipe_of(given: Mapping[str, Any]) -> Recipe:
    """A recipe from a request's values; steps as a tuple."""
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return Recipe(**values)


def attempt(load: Callable[[], Any], faults: list[Fault]) -> Any:
    """What `load` gives; None where it raises RequestError, whose faults are added."""
    try:
        return load()
    except RequestError as error:
        faults.extend(error.faults)
        return None


def looked_up(request: Asked, faults: list[Fault]) -> tuple[ImageSet | None, Any]:
    """The images listed, the model inspected; None where that cannot be. What is wrong with them goes to `faults`."""
    attempt(lambda: check_device(request.device), faults)
    sound = all(type(value) in (int, type(None)) for value in (request.size, request.max_images))
    images = attempt(lambda: images_of(request), faults) if sound else None
    model = attempt(lambda: _model(request, images), faults) if sound else None
    if model is not None and images is not None:
        faults += _fit_faults(request, model, images)
    return images, model


def is_fresh(request: Asked) -> bool:
    """Whether the model is an architecture without trained weights of the task."""
    from engine.models.vision import architectures

    return request.model in architectures() and request.weights in (None, "imagenet")


def images_of(request: Asked) -> ImageSet:
    """The images with their changes. Group columns that the source lacks may come from a change, such as "artefact"."""
    faults = _change_faults(request)
    if faults:
        raise RequestError(faults)
    known = look(request.data).groups
    brought = bool(request.changes)
    parts = dict.fromkeys(part for axis in request.axes for part in axis.split("+") if part != CLASS_AXIS)
    groups = tuple(part for part in parts if not brought or part in known)
    ask = ImageAsk(request.target, groups, request.size or _model_size(request), request.max_images, seed=0)
    images = load_images(request.data, ask)
    for change in request.changes:
        settings = {name: value for name, value in change.items() if name != "name"}
        images = image_changes()[change["name"]].apply(images, seed=0, **settings)
    return in_order_of(images, _output_names(request))


def _output_names(request: Asked) -> tuple[str, ...]:
    """The model's classes in the order of its outputs, as far as it or the request names them."""
    if request.classes:
        return request.classes
    from engine.models.load_image_classifier import inspect_classifier

    try:
        return () if is_fresh(request) else inspect_classifier(request.model, request.weights).classes
    except RequestError:  # said elsewhere
        return ()


def _model_size(request: Asked) -> int | None:
    """The size the model asks for; None where the model is at fault, which is said elsewhere."""
    try:
        return _model(request, None).size
    except RequestError:
        return None


def _model(request: Asked, images: ImageSet | None) -> Any:
    """What is known of the model without loading it; of a new one, what it will be."""
    from engine.models.load_image_classifier import fresh_info, inspect_classifier

    classes = None if images is None else images.classes
    if request.weights == "imagenet":
        return inspect_classifier(request.model, "imagenet", classes=classes or 2, size=request.size)
    if is_fresh(request):
        return fresh_info(request.model, classes or 2, request.size, request.first_seed)
    return inspect_classifier(request.model, request.weights, classes=classes, size=request.size)


def _fit_faults(request: Asked, model: Any, images: ImageSet) -> list[Fault]:
    """Model and images together: classes, groups, splits, and whether an untrained model is trained."""
    faults = []
    if set(model.classes) == set(images.classes) and tuple(model.classes) != tuple(images.classes):
        what = f"{model.name} has its classes in another order than {images.name}."
        faults.append(Fault("data", what, f"The model's order: {', '.join(model.classes)}."))
    faults += axis_faults(request.axes, tuple(dict.fromkeys((*images.groups, CLASS_AXIS))))
    if request.classes and set(request.classes) != set(images.classes):
        what = f"{', '.join(request.classes)} are not the classes of {images.name}."
        faults.append(Fault("classes", what, f"They are: {', '.join(images.classes)}."))
    for split in (TRAIN, TEST):
        labels = images.table.loc[images.table["split"] == split, "label"]
        if labels.nunique() < 2:
            what = f"the {split} split has {len(labels)} images of {labels.nunique()} classes."
            faults.append(Fault("data", what, "Both splits need images of at least two classes."))
    if is_fresh(request) and request.train is None:
        what = f"{model.name} comes without trained weights, so there is nothing to prune."
        faults.append(Fault("model", what, "Give weights, or fit the model first (train)."))
    return faults


def recipe_faults(request: Any, where: str, known: Sequence[str] = ()) -> list[Fault]:
    """What is wrong with the recipe in the field `where`; `known`: the names allowed, all where none are given."""
    given, known = getattr(request, where) or {}, known or Recipe.known()
    return [unknown(where, name, known) for name in given if name not in known] or recipe_of(given).faults(where)


def _change_faults(request: Asked) -> list[Fault]:
    faults: list[Fault] = []
    for change in request.changes:
        name = change.get("name")
        if name not in image_changes():
            faults.append(unknown("change of the images", name, image_changes()))
    return faults


def group_columns(request: Asked) -> Sequence[str]:
    """The axes that are columns of the images."""
    return [axis for axis in request.axes if axis != CLASS_AXIS]
