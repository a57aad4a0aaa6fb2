"""What is asked of an audit of an image classifier, and whether it can be asked: every fault at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.audit.request import Request, versions_of
from engine.audit.request_checks import (
    is_number,
    no_axis_faults,
    whole_number_faults,
)
from engine.audit.setting_faults import setting_faults
from engine.classifiers.images.context import ImageSettings
from engine.classifiers.images.request import (
    KEPT,
    ImagePlan,
    attempt,
    looked_up,
    mirrors,
    recipe_faults,
    recipe_of,
)
from engine.core.errors import Fault, RequestError, unknown
from engine.tracks.image_classifiers.methods.base import filter_methods
from engine.training.loss_plan import known_losses

CODE = 1
"""Version of the audit itself. Raise when a finished run would come out differently for the same request."""


@dataclass(frozen=True)
class ImageRequest(Request):
    """An audit of an image classifier as somebody asks for it. Paths stay as written.

    model: an embedded name, a folder, or an architecture; weights: a file for an architecture, or "imagenet".
    axes: group columns; "class" gives one-vs-rest numbers per class. methods: arms such as "autobot" or "taylor+pw".
    speedups: target ratios of FLOPs, dense over cut. train: fit the dense model first, {} for the usual way.
    classes: names of the model's outputs in their order, where its weights do not say; () as the images have them.
    mirror: flip training images left to right at random; None: unless they are digits.
    pw: theta and gamma per method. keep_weights: of which trials the cut model is kept: first, all or none.
    restart: go on although data or weights changed since the last try.
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
    restart: bool = False

    by_content = ("model", "weights", "data")
    track = "image_classifiers"

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
        """What the context needs to know of it."""
        return ImageSettings(
            speedups=self.speedups,
            first_seed=self.first_seed,
            methods=self.method_settings,
            pw={name: (one.get("theta", 0.5), one.get("gamma", 1.0)) for name, one in self.pw.items()},
            retrain=recipe_of(self.retrain),
            train=None if self.train is None else recipe_of(self.train),
        )


@dataclass(frozen=True)
class FilterPlan(ImagePlan):
    """A request that holds up: its images listed, its model inspected but not loaded."""

    request: ImageRequest

    @property
    def versions(self) -> dict[str, int]:
        from engine.tracks.image_classifiers.measurements import image_measurements

        methods = {name: filter_methods()[name] for name, _ in self.request.arms}
        return versions_of(CODE, measurement=image_measurements(), method=methods)

    def spelled_out(self) -> dict[str, Any]:
        return {**self.request.to_dict(), "mirror": self.request.mirrors}


def arm_of(name: str) -> tuple[str, str]:
    """The method and the loss of an arm's name."""
    method, plus, loss = name.partition("+")
    return method, loss if plus else "plain"


def validate_images(request: ImageRequest) -> FilterPlan:
    """Check everything that can be checked without loading weights. RequestError carries all faults together."""
    faults: list[Fault] = _arm_faults(request) + _number_faults(request)
    faults += recipe_faults(request, "retrain") + recipe_faults(request, "train")
    images, model = looked_up(request, faults)
    if model is not None and not faults:
        attempt(lambda: _reachable(request, model), faults)
    if faults:
        raise RequestError(list(dict.fromkeys(faults)))
    return FilterPlan(request, images, model)


def _reachable(request: ImageRequest, model: Any) -> None:
    """RequestError for speedups that no cut can reach: one filter per layer stays."""
    from engine.models.load_image_classifier import fresh_classifier
    from engine.surgery.filters.graph import filter_graph

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


def request_of_run(run: Any) -> ImageRequest:
    """The request a finished run was made from."""
    return ImageRequest.from_dict(run.meta["request"])
