"""What every request about an image classifier asks of its model and its images, and what can be
wrong with that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from engine.audit.command_line import absolute, pairs_of
from engine.audit.fields import HOW, WHAT, Offer, Values, asked, attempt, axis_faults, checked
from engine.audit.request import MORE, Plan, Request
from engine.classifiers.images.context import TEST, TRAIN, VALIDATION
from engine.classifiers.layout import (
    IMAGES,
    MIN_IMAGES,
    MIN_PER_CLASS,
    Outputs,
    columns_of,
    in_order_of,
    split_faults,
)
from engine.core.errors import Fault, MaskError, RequestError, refusal, unknown
from engine.core.words import axis_name
from engine.data.images.changes import image_changes
from engine.data.images.load import ImageAsk, ImageInfo, ImageSet, load_images, look_images
from engine.data.tables import axes_of
from engine.models import catalog
from engine.training.recipe import ASKED, Recipe, recipe_settings

if TYPE_CHECKING:
    from engine.surgery.filters.graph import FilterGraph

KEPT = ("first", "all", "none")

CLASS_AXIS = "class"
TRAINING = "Training"
IMAGE_RECIPE = (*ASKED, "patience")
"""What forms ask of a recipe for images."""
TOO_FEW = (
    f"A subgroup gets no verdict and no gap with fewer than {MIN_IMAGES} images in a split, or "
    f"fewer than {MIN_PER_CLASS} of a class."
)


def changes_of(where: str, words: Sequence[str], faults: list[Fault]) -> tuple[dict[str, Any], ...]:
    """ "underrepresent:classes=cat/dog,removed=0.8" -> {"name": …, "classes": ["cat", "dog"],
    "removed": 0.8}."""
    found = []
    for text in words:
        name, _, rest = text.partition(":")
        values = pairs_of(where, [part for part in rest.split(",") if part], faults)
        if isinstance(values.get("classes"), str):
            values["classes"] = values["classes"].split("/")
        found.append({"name": name, **values})
    return tuple(found)


def look_at(data: str) -> ImageInfo | None:
    """What a source of images offers; None where nothing can read it, which the check will say."""
    return attempt(lambda: look_images(absolute(data)), [])


def usual_axes(values: Values) -> tuple[str, ...]:
    """The axes of the images where nobody names any; what is predicted is none."""
    info, target = look_at(values["data"]), str(values.get("target") or "").casefold()
    found = (axis for axis in (info.default_groups if info else ()) if axis.casefold() != target)
    return tuple(found) or (CLASS_AXIS,)


def own_axes(data: str, axes: Iterable[str]) -> tuple[str, ...]:
    """Axes by the names that the columns of the images have, however they are written."""
    info = look_at(data)
    return tuple(axes) if info is None else axes_of(axes, info.groups)


def _models(_: Values) -> Offer:
    names = [*(entry.name for entry in catalog.list_classifiers()), *catalog.ARCHITECTURES]
    return Offer(names, names[0])


def _is_architecture(values: Values) -> bool:
    return values.get("model") in catalog.ARCHITECTURES


def _comes_trained(values: Values) -> bool:
    """Whether the model brings weights of its own, and is none of those that are embedded."""
    embedded = values.get("model") in {entry.name for entry in catalog.list_classifiers()}
    return not embedded and (
        not _is_architecture(values) or values.get("weights") not in (None, "imagenet")
    )


def _targets(values: Values) -> Offer:
    info = look_at(values["data"])
    return Offer(info.targets, info.default_target) if info else Offer(())


def offered_axes(values: Values) -> Offer:
    """The group columns of the images, but for what is predicted, and the class itself."""
    info = look_at(values["data"])
    if info is None:
        return Offer((), note="Nothing could be read there yet.")
    known = dict.fromkeys([*info.default_groups, *info.groups, CLASS_AXIS])
    note = " ".join(filter(None, (info.stand_in, info.note)))
    return Offer([axis for axis in known if axis != values["target"]], info.default_groups, note)


def too_few_words(most: int | None) -> str:
    """Whom `most` images per split leave without a verdict."""
    if most is None or most <= MIN_PER_CLASS:
        return TOO_FEW
    share = (  # the draw keeps the shares of subgroups and classes
        f"{100 * MIN_PER_CLASS / most:.2g} %"
    )
    return (
        f"{TOO_FEW} With {most:,} images that holds for a subgroup and class with less than "
        f"{share} of them."
    )


def recipe_faults(where: str, known: Sequence[str] = ()) -> Callable[[Any, Values], list[Fault]]:
    """The check of a field that holds a recipe; `known`: the names allowed, all where none are
    given."""
    names = known or Recipe.known()

    def faults(given: Values | None, _: Values) -> list[Fault]:
        given = given or {}
        return [unknown(where, name, names) for name in given if name not in names] or recipe_of(
            given
        ).faults(where)

    return faults


@dataclass(frozen=True)
class ImagesRequest(Request):
    """What every request about an image classifier says of its model and its images. Paths stay as
    written.

    model: an embedded name, a folder, or an architecture; weights: a file for an architecture, or
    "imagenet".
    axes: group columns; "class" gives one-vs-rest numbers per class. classes: of the images, in the
    order of the model's outputs; () as its files name them. train: fit the dense model first, {}
    for the usual way. mirror: flip training images left to right at random; None: unless they are
    digits.
    """

    model: str = asked(
        kind="source",
        metavar="NAME_OR_FOLDER",
        help="demo-resnet, a folder, or an architecture",
        counts="content",
        section=WHAT,
        label="Model",
        offered=_models,
        hint=(
            "An embedded model, a model folder of your own, or an architecture with weights given"
            " below."
        ),
    )
    data: str = asked(
        kind="source",
        metavar="NAME_OR_PATH",
        help="avatars, avatars-gap, digits, or a folder or CSV of images (default: avatars)",
        counts="content",
        usual=lambda values: "avatars",
        section=WHAT,
        label="Images",
        reads=look_images,
        offered=lambda values: Offer(("avatars", "avatars-gap", "digits"), "avatars"),
        hint=(
            "Drawn avatars, the same with a planted gap, handwritten digits, or a path. A path "
            "leads to CelebA, LFW, Fitzpatrick17k, CIFAR-10, class folders, or a CSV with path, "
            "label and group columns."
        ),
    )
    axes: tuple[str, ...] = asked(
        option="--axis",
        metavar="AXIS",
        where="axis",
        usual=usual_axes,
        section=WHAT,
        last=True,
        label="Groups",
        help="group column, or class; may be given several times",
        offered=offered_axes,
        named=axis_name,
    )
    weights: str | None = asked(
        None,
        kind="source",
        metavar="FILE",
        help="state dict for an architecture, or imagenet",
        counts="content",
        section=WHAT,
        label="Weights",
        shown=_is_architecture,
        placeholder="path of a state dict (.safetensors, .pt, .th), or imagenet",
        hint="Tensors only: a file with code in it is refused. Empty: a new model, trained first.",
    )
    classes: tuple[str, ...] = asked(
        (),
        commas=True,
        some=False,
        metavar="LIST",
        section=WHAT,
        help=(
            "the images' classes in the order of the model's outputs, unless its files name them"
        ),
        label="Classes in the order of the model's outputs",
        placeholder="as the model's files name them",
        hint=(
            "Leave it empty: where names do not tell, the check shows what the model answers to"
            " three images."
        ),
        shown=_comes_trained,
    )
    target: str | None = asked(
        None,
        metavar="COLUMN",
        help="what is predicted (default: the data's usual one)",
        section=WHAT,
        label="Target",
        offered=_targets,
        named=axis_name,
    )
    max_images: int | None = asked(
        None,
        minimum=20,
        metavar="N",
        help="at most this many images per split",
        section=HOW,
        last=True,
        label="Images per split at most",
        placeholder="all of them",
        about=too_few_words,
    )
    train: dict[str, Any] | None = asked(
        None,
        kind="pairs",
        metavar="NAME=VALUE",
        check=recipe_faults("train"),
        section=TRAINING,
        help="fit the dense model first; epochs, patience, rate, …",
        last=True,
        label="Fit the dense model first",
        of=lambda values: recipe_settings({}, "Images", IMAGE_RECIPE),
        starts={"epochs": 12, "rate": 3e-3},
    )
    mirror: bool | None = asked(
        None,
        option="--no-mirror",
        help="never mirror training images",
        section=TRAINING,
        last=True,
        label="Never mirror training images",
        hint="Else they are flipped at random, but for digits.",
    )
    changes: tuple[dict[str, Any], ...] = asked(
        (),
        kind="changes",
        option="--change",
        metavar="NAME[:KEY=VALUE,…]",
        read=changes_of,
        section=MORE,
        last=True,
        help="a change of the images, such as underrepresent:classes=cat/dog,removed=0.8",
        label="Change the training images",
        of=lambda values: image_changes(),
        named=axis_name,
        hint="Manipulations of the paper: rare classes, an artefact, other balances.",
    )
    size: int | None = asked(
        None,
        minimum=8,
        metavar="PIXELS",
        section=MORE,
        last=True,
        help="side of the images (default: the model's)",
        label="Side of the images in pixels",
        placeholder="the model's",
    )
    keep_weights: str = asked(
        "first",
        choices=KEPT,
        section=MORE,
        last=True,
        label="Keep cut models of trials",
        help=f"of which trials cut models are kept: {', '.join(KEPT)}",
    )
    experiment: str = asked("", option="", counts="no")

    def keeps(self, repeat: int) -> bool:
        """Whether the models of the repeat of this number are kept."""
        return self.keep_weights == "all" or (self.keep_weights == "first" and repeat == 0)

    @property
    def recipes(self) -> dict[str, Values]:
        """How models are fitted, by the name of the field; {} where none is."""
        return {"train": self.train or {}}

    @property
    def mirrors(self) -> bool:
        """Whether training images are mirrored: as asked, else unless they are digits."""
        return self.data.partition(":")[0] != "digits" if self.mirror is None else self.mirror


RequestT = TypeVar("RequestT", bound=ImagesRequest)


@dataclass(frozen=True)
class ImagePlan(Plan):
    """A request whose images are listed and whose model is inspected but not loaded."""

    images: ImageSet
    model: Any  # engine.models.load_image_classifier.ClassifierInfo

    @property
    def is_fresh(self) -> bool:
        """Whether the model is new, and fitted before anything is cut."""
        return is_fresh(self.request)

    def spelled_out(self) -> Values:
        """The request with every default written out that audits of images share, JSON-able."""
        request = self.request
        train = None if request.train is None else recipe_of(request.train).to_dict()
        return {**request.to_dict(), "mirror": request.mirrors, "train": train}

    @property
    def content(self) -> list[Any]:
        """The model, and a digest of the images."""
        model = [self.model.arch, self.model.weight_hash, self.model.size, list(self.model.classes)]
        model += [
            list(self.model.mean),
            list(self.model.std),
            self.request.weights if self.is_fresh else None,
        ]
        return [model, self.images.digest]


def recipe_of(given: Values) -> Recipe:
    """A recipe from a request's values; steps as a tuple."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in given.items()
    }
    return Recipe(**values)


def looked_up(request: ImagesRequest, faults: list[Fault]) -> tuple[ImageSet | None, Any]:
    """The images listed, the model inspected; None where that cannot be. What is wrong with them
    goes to `faults`."""
    images = attempt(lambda: images_of(request), faults)
    model = attempt(lambda: _model(request, images), faults)
    if model is not None and images is not None:
        faults += _fit_faults(request, model, images)
    return images, model


def validated(
    request: RequestT,
    reach: Callable[[RequestT, Any, FilterGraph], list[Fault]],
    faults_of: Callable[[RequestT], list[Fault]] = lambda request: [],
    group_faults: Callable[[RequestT, ImageSet], list[Fault]] = lambda request, images: [],
) -> tuple[RequestT, ImageSet, Any]:
    """The request with all that can be checked without loading weights, its images and its model.
    RequestError carries all faults together.

    reach: of levels that no cut can reach, by a model of the same shape and its graph; faults_of:
    of the request alone; group_faults: of it with its images.
    """
    request, faults = checked(request)
    request = replace(request, axes=own_axes(request.data, request.axes))
    faults += faults_of(request)
    images, model = looked_up(request, faults)
    if images is not None:
        faults += group_faults(request, images)
    if model is not None and not faults:
        faults += attempt(lambda: _unreached(request, model, reach), faults) or []
    if faults or images is None:
        raise RequestError(list(dict.fromkeys(faults)))
    return request, images, model


def _unreached(request: RequestT, model: Any, reach: Callable[..., list[Fault]]) -> list[Fault]:
    from engine.models.load_image_classifier import fresh_classifier
    from engine.surgery.filters.graph import filter_graph

    blank = fresh_classifier(model.arch, model.classes, model.size, device="cpu")
    blank = replace(blank, name=model.name)
    return reach(request, blank, filter_graph(blank))


def is_fresh(request: ImagesRequest) -> bool:
    """Whether the model is an architecture without trained weights of the task."""
    from engine.models.vision import is_known

    return is_known(request.model) and request.weights in (None, "imagenet")


def images_of(request: ImagesRequest) -> ImageSet:
    """The images with their changes. Group columns that the source lacks may come from a change,
    such as "artefact"."""
    faults = _change_faults(request)
    if faults:
        raise RequestError(faults)
    known = look_images(request.data).groups
    brought = bool(request.changes)
    groups = tuple(part for part in columns_of(request.axes) if not brought or part in known)
    size, prepare = _model_pictures(request)
    ask = ImageAsk(request.target, groups, size, request.max_images, prepare=prepare)
    images = load_images(request.data, ask)
    for change in request.changes:
        settings = {name: value for name, value in change.items() if name != "name"}
        images = image_changes()[change["name"]].apply(images, **settings)
    return images if is_fresh(request) else told_apart(images, request)


def told_apart(images: ImageSet, request: ImagesRequest) -> ImageSet:
    """The images with labels in the order of a trained classifier's outputs. RequestError as of
    `in_order_of`."""
    from engine.models.load_image_classifier import inspect_classifier

    try:
        names = inspect_classifier(request.model, request.weights).classes
    except RequestError:  # said elsewhere
        return images
    return in_order_of(
        images,
        outputs_of(request.model, names),
        request.classes,
        partial(_answers, images, request),
    )


def outputs_of(model: str, names: Sequence[str]) -> Outputs:
    """What is known of outputs; names: as the loader gives them, numbers where the weights bring no
    names."""
    return Outputs(model, tuple(names), len(names))


def _answers(images: ImageSet, request: ImagesRequest, rows: np.ndarray) -> np.ndarray:
    """The probabilities that the classifier gives to images at positions `rows` [k] int, [k,
    outputs]."""
    from engine.models.load_image_classifier import load_classifier
    from engine.training.fit import probabilities

    classifier = load_classifier(
        request.model, request.weights, size=images.size, device=request.device
    )
    return probabilities(classifier.model, rows, images.read, classifier.prepared).numpy()


def _model_pictures(request: ImagesRequest) -> tuple[int | None, Any]:
    """The side of the model's pictures, and its own processor (None: the middle square). As asked,
    and None, where the model is at fault, which is said elsewhere."""
    try:
        model = _model(request, None)
    except RequestError:
        return request.size, None
    return model.size, model.processor


def _model(request: ImagesRequest, images: ImageSet | None) -> Any:
    """What is known of the model without loading it; of a new one, what it will be."""
    from engine.models.load_image_classifier import fresh_info, inspect_classifier

    classes = None if images is None else images.classes
    if request.weights == "imagenet":
        return inspect_classifier(
            request.model, "imagenet", classes=classes or 2, size=request.size
        )
    if is_fresh(request):
        return fresh_info(request.model, classes or 2, request.size, request.first_seed)
    return inspect_classifier(request.model, request.weights, classes=classes, size=request.size)


def _fit_faults(request: ImagesRequest, model: Any, images: ImageSet) -> list[Fault]:
    """Model and images together: groups, splits, and whether an untrained model is trained."""
    faults = axis_faults(request.axes, tuple(dict.fromkeys((*images.groups, CLASS_AXIS))))
    if request.classes and is_fresh(request):
        what = (
            "are given, but the model is trained here: its outputs are the images' classes anyway."
        )
        faults.append(Fault("classes", what, "Leave it out."))
    faults += split_faults(images.table, (TRAIN, TEST), IMAGES)
    for where, recipe in request.recipes.items():
        if recipe.get("patience") and not (images.table["split"] == VALIDATION).any():
            what = f"{images.name} has no validation images to stop by."
            faults.append(
                Fault(
                    f"{where} patience",
                    what,
                    "Give images with a validation split, or leave it out.",
                )
            )
    if is_fresh(request) and request.train is None:
        what = f"{model.name} comes without trained weights, so there is nothing to prune."
        faults.append(Fault("model", what, "Give weights, or fit the model first (train)."))
    return faults


def _change_faults(request: ImagesRequest) -> list[Fault]:
    faults = []
    for change in request.changes:
        name = change.get("name")
        if name not in image_changes():
            faults.append(unknown("change of the images", name, image_changes()))
    return faults


# What an image classifier is, before an audit of its filters, heads or weights is asked for.


def inspected(
    given: Values, check: Callable[[Any, Any], Any] = lambda model, graph: None
) -> list[str]:
    """Sentences; given: model, weights, size and device as a request has them. RequestError with
    every fault.

    The model is loaded and its units are read and proved as an audit does it before it computes.
    check: what a track asks besides, of the network and its graph of filters or heads.
    """
    name, weights, size = str(given.get("model") or ""), given.get("weights"), given.get("size")
    if not name:
        raise refusal(
            "model", "is missing.", "Give an architecture, a model folder or a weight file."
        )
    from engine.models.load_image_classifier import (
        fresh_classifier,
        is_architecture,
        load_classifier,
    )  # loads torch

    new, device = is_architecture(name) and weights is None, str(given.get("device") or "auto")
    model = (
        fresh_classifier(name, 2, size, device=device)
        if new
        else load_classifier(name, weights, size=size, device=device)
    )
    return [*_what(model, new), _units(model, new, check)]


def _what(model: Any, new: bool) -> list[str]:
    """What it is, whatever is asked of it."""
    from engine.models.checkpoint import size_said

    own = "a new " if new else "" if model.name == model.arch else f"{model.name}, "
    known = f" that tells {len(model.classes)} classes apart" if model.classes and not new else ""
    side = f"images of {model.size} × {model.size} pixels"
    what = f"This is {own}{model.arch}{known}: {size_said(model.n_parameters)}, {side}."
    if new:
        return [
            what,
            (
                "Its weights are random. The audit trains it on its training images before "
                "anything is cut."
            ),
        ]
    return [
        what,
        *model.notes,
        *([f"Classes: {', '.join(model.classes[:20])}."] if model.classes else []),
    ]


def _units(model: Any, new: bool, check: Callable[[Any, Any], Any]) -> str:
    """What of it can be cut, proved on the model unless its weights are new."""
    from engine.surgery.filters.graph import filter_graph, prove_filter_mask_works

    graph = filter_graph(model)
    check(model.model, graph)
    try:
        if not new:
            prove_filter_mask_works(model, graph)
    except MaskError as error:
        raise refusal("model", str(error), "Give another model.") from error
    proved = "" if new else ", proved on the model"
    if graph.groups[0].is_heads:
        return (
            f"What can be cut: {graph.total:,} attention heads in {len(graph.groups)}"
            f" layers{proved}."
        )
    whole = f"; {len(graph.whole)} convolutions stay whole" if graph.whole else ""
    return f"What can be cut: {graph.total:,} filters in {len(graph.groups)} groups{proved}{whole}."
