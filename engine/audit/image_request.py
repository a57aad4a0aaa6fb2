"""What is asked of an audit of an image classifier, and whether it can be asked: every fault at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from engine.audit.class_order import in_order_of
from engine.audit.request_checks import (
    axis_faults,
    check_device,
    is_number,
    no_axis_faults,
    whole_number_faults,
)
from engine.audit.request_json import JsonRequest
from engine.data.image_changes.base import image_changes
from engine.data.images import ImageAsk, ImageSet, load_images, look
from engine.errors import Fault, RequestError, unknown
from engine.metrics.image_bench import TEST, TRAIN, ImageSettings
from engine.scores.filter_base import filter_methods
from engine.scores.setting_faults import setting_faults
from engine.training.loss_plan import known_losses
from engine.training.recipe import Recipe
from engine.types import digest_of

CODE = 1
"""Version of the audit itself. Raise when a finished run would come out differently for the same request."""
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
class ImageRequest(JsonRequest):
    """An audit of an image classifier as somebody asks for it. Paths stay as written.

    model: an embedded name, a folder, or an architecture; weights: a file for an architecture, or "imagenet".
    axes: group columns; "class" gives one-vs-rest numbers per class. methods: arms such as "autobot" or "taylor+pw".
    speedups: target ratios of FLOPs, dense over cut. train: fit the dense model first, {} for the usual way.
    classes: names of the model's outputs in their order, where its weights do not say; () as the images have them.
    mirror: flip training images left to right at random; None: unless they are digits.
    pw: theta and gamma per method. keep_weights: of which trials the cut model is kept: first, all or none.
    """

    model: str
    data: str
    axes: tuple[str, ...]
    target: str | None = None
    weights: str | None = None
    size: int | None = None
    max_images: int | None = None
    changes: tuple[dict[str, Any], ...] = ()
    methods: tuple[str, ...] = ("autobot", "autobot+pw", "taylor", "taylor+pw", "random")
    method_settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    pw: dict[str, dict[str, float]] = field(default_factory=dict)
    speedups: tuple[float, ...] = (2.0, 4.0)
    trials: int = 3
    first_seed: int = 0
    retrain: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] | None = None
    mirror: bool | None = None
    classes: tuple[str, ...] = ()
    keep_weights: str = "first"
    loss_share: int = 0
    device: str = "auto"
    experiment: str = ""
    title: str = ""

    track = "filters"

    def __post_init__(self) -> None:
        if all(isinstance(value, int | float) for value in self.speedups):  # equal requests look equal
            object.__setattr__(self, "speedups", tuple(sorted(set(map(float, self.speedups)))))

    @property
    def arms(self) -> list[tuple[str, str]]:
        """(method, loss) of each arm: "autobot" is ("autobot", "plain"), "autobot+pw" ("autobot", "pw")."""
        return [arm_of(name) for name in self.methods]

    @property
    def mirrors(self) -> bool:
        """Whether training images are mirrored."""
        return mirrors(self)

    def settings(self) -> ImageSettings:
        """What the bench needs to know of it."""
        return ImageSettings(
            speedups=self.speedups,
            first_seed=self.first_seed,
            methods=self.method_settings,
            pw={name: (one.get("theta", 0.5), one.get("gamma", 1.0)) for name, one in self.pw.items()},
            retrain=recipe_of(self.retrain),
            train=None if self.train is None else recipe_of(self.train),
        )


@dataclass(frozen=True)
class ImagePlan:
    """A request that holds up: its images listed, its model inspected but not loaded."""

    request: ImageRequest
    images: ImageSet
    model: Any  # engine.models.load_classifier.ClassifierInfo

    @property
    def is_fresh(self) -> bool:
        """Whether the model is new, and fitted before anything is cut."""
        return is_fresh(self.request)

    @property
    def run_id(self) -> str:
        """Digest of the request, the weights and the images: equal requests are one run."""
        request = {name: value for name, value in self.request.to_dict().items() if name not in _NOT_IN_KEY}
        request["mirror"] = self.request.mirrors
        request = {name: value for name, value in request.items() if name not in _LATER or _LATER[name] != value}
        return digest_of([CODE, request, *self.content])[:16]

    @property
    def content(self) -> list[Any]:
        """What the numbers rest on besides the request: the model, and a digest of the images."""
        model = [self.model.arch, self.model.weight_hash, self.model.size, list(self.model.classes)]
        model += [list(self.model.mean), list(self.model.std), self.request.weights if self.is_fresh else None]
        return [model, self.images.digest]


_LATER = {"classes": []}
"""Settings that came later: at these values they are not in the key, so that runs from before are found."""
_NOT_IN_KEY = ("model", "weights", "data", "title", "experiment")  # their contents are in the key instead


def mirrors(request: Asked) -> bool:
    """Whether training images are mirrored: as asked, else unless they are digits."""
    return request.data.partition(":")[0] != "digits" if request.mirror is None else request.mirror


def arm_of(name: str) -> tuple[str, str]:
    """The method and the loss of an arm's name."""
    method, plus, loss = name.partition("+")
    return method, loss if plus else "plain"


def recipe_of(given: Mapping[str, Any]) -> Recipe:
    """A recipe from a request's values; steps as a tuple."""
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return Recipe(**values)


def validate_images(request: ImageRequest) -> ImagePlan:
    """Check everything that can be checked without loading weights. RequestError carries all faults together."""
    faults: list[Fault] = _arm_faults(request) + _number_faults(request)
    faults += recipe_faults(request, "retrain") + recipe_faults(request, "train")
    images, model = looked_up(request, faults)
    if model is not None and not faults:
        attempt(lambda: _reachable(request, model), faults)
    if faults:
        raise RequestError(list(dict.fromkeys(faults)))
    return ImagePlan(request, images, model)


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
    from engine.models.load_classifier import inspect_classifier

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
    from engine.models.load_classifier import fresh_info, inspect_classifier

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


def _reachable(request: ImageRequest, model: Any) -> None:
    """RequestError for speedups that no cut can reach: one filter per layer stays."""
    from engine.models.load_classifier import fresh_classifier
    from engine.surgery.filter_graph import filter_graph

    graph = filter_graph(fresh_classifier(model.arch, model.classes, model.size, seed=0, device="cpu"))
    most = graph.flops() / graph.least_flops
    faults = [
        Fault("speedup", f"{speedup:g}× is out of reach: with one filter per layer {model.name} is {most:.4g}× faster.",
              f"Ask for less than {most:.4g}.")
        for speedup in request.speedups if speedup > most
    ]  # fmt: skip
    if faults:
        raise RequestError(faults)


def _arm_faults(request: ImageRequest) -> list[Fault]:
    """Methods, losses, and the settings of methods."""
    faults = []
    for method, loss in request.arms:
        if method not in filter_methods():
            faults.append(unknown("method", method, filter_methods()))
        if loss not in known_losses():
            faults.append(unknown("loss", loss, known_losses()))
    if not request.methods:
        faults.append(Fault("method", "none is named.", f"Known: {', '.join(sorted(filter_methods()))}."))
    if len(set(request.arms)) < len(request.arms):
        faults.append(Fault("method", "one is named twice.", "Name each once."))
    for name, given in request.method_settings.items():
        if name not in filter_methods():
            faults.append(unknown("method settings", name, filter_methods()))
        else:
            faults += setting_faults(filter_methods()[name].settings, given)
    return faults + _pw_faults(request.pw)


def _pw_faults(pw: Mapping[str, Mapping[str, float]]) -> list[Fault]:
    faults = []
    for name, values in pw.items():
        if name not in filter_methods():
            faults.append(unknown("PW loss", name, filter_methods()))
        faults += [unknown(f"PW loss of {name}", key, ("theta", "gamma")) for key in values if key not in _PW]
        for key, (least, most) in _PW.items():
            value = values.get(key, least)
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
                what = f"{value!r} is not allowed."
                faults.append(Fault(f"{key} of the PW loss of {name}", what, f"Give {least:g} to {most:g}."))
    return faults


_PW = {"theta": (0.0, 1.0), "gamma": (0.0, 1000.0)}


_LEAST = {"trials": 1, "first_seed": 0, "loss_share": 0, "max_images": 20, "size": 8}


def _number_faults(request: ImageRequest) -> list[Fault]:
    faults = []
    numbers = [value for value in request.speedups if is_number(value)]
    for value in request.speedups:
        if not (is_number(value) and 1.0 < value < math.inf):
            faults.append(Fault("speedup", f"{value!r} is not above 1.", "Give ratios of FLOPs such as 2,4,16."))
    if len({f"{value:g}" for value in numbers}) < len(numbers):
        faults.append(Fault("speedup", "two of them are one to six digits.", "Leave one out."))
    if not request.speedups:
        faults.append(Fault("speedup", "none is named.", "Give ratios of FLOPs such as 2,4,16."))
    faults += no_axis_faults(request.axes)
    faults += whole_number_faults(request, _LEAST, ("max_images", "size"))
    if request.keep_weights not in KEPT:
        faults.append(unknown("keep_weights", request.keep_weights, KEPT))
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


def request_of_run(run: Any) -> ImageRequest:
    """The request a finished run was made from."""
    return ImageRequest.from_dict(run.meta["request"])


def group_columns(request: Asked) -> Sequence[str]:
    """The axes that are columns of the images."""
    return [axis for axis in request.axes if axis != CLASS_AXIS]
