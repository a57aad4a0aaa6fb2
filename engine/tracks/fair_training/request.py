"""What is asked of a fair training, and whether it can be asked: every fault at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.audit.request import Request, versions_of
from engine.audit.request_checks import is_number, no_axis_faults, whole_number_faults
from engine.audit.setting_faults import setting_faults
from engine.classifiers.images.context import TEST, TRAIN, VALIDATION
from engine.classifiers.images.request import (
    CLASS_AXIS,
    KEPT,
    ImagePlan,
    attempt,
    looked_up,
    mirrors,
    recipe_faults,
    recipe_of,
)
from engine.core.errors import Fault, RequestError, unknown
from engine.data.images.load import ImageSet
from engine.tracks.fair_training.context import (
    CORNERS,
    LOOKED_SHARE,
    TUNED_ON,
    FairSettings,
    group_names,
    looked_rows,
    tuned_rows,
)
from engine.tracks.fair_training.methods.base import FILTERS, NONE, NOTIONS, RECIPE, WEIGHTS, fair_methods
from engine.training.recipe import SCHEDULES, Recipe

CODE = 2
"""Version of the audit itself. Raise when a finished run would come out differently for the same request."""
USUAL_RECIPE = {"rate": 1e-3, "batch": 64}


@dataclass(frozen=True)
class FairRequest(Request):
    """A fair training as somebody asks for it. Paths stay as written.

    model, data, target, weights, size, max_images, changes, train, mirror, classes: as for ImageRequest. axes: group
    columns, all measured; the fairness term is about the first. sparsities: shares of filters, or of weights, to cut.
    strength: λ of methods that have any use for it; tolerance: τ, the gap that costs nothing; notion: which gap.
    iterations: weight updates of one training. check_every: of these between two looks at validation images.
    tradeoff_…: the sweep over λ, none where no strengths are named. surface: the loss between BiFP and its ablations.
    fair_gap: validation gap to be reached, of the notion's kind, None: half of the dense model's gap of accuracy.
    within: validation accuracy that may be lost for it. tune_on: the images that are cut and trained on.
    keep_methods: of which methods models are kept, () for all. restart: go on although data or weights changed.
    """

    model: str
    data: str
    axes: tuple[str, ...]
    target: str | None = None
    weights: str | None = None
    size: int | None = None
    max_images: int | None = None
    changes: tuple[dict[str, Any], ...] = ()
    methods: tuple[str, ...] = (
        "bifp-str", "bifp-uns", "snip", "fpgm", "lottery", "pf", "pf-random", "fp", "dense-tuned", "dense-fair",
    )  # fmt: skip
    method_settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    sparsities: tuple[float, ...] = (0.488, 0.672, 0.832)
    strength: float = 1.0
    tolerance: float = 0.0
    notion: str = "accuracy"
    iterations: int = 400
    recipe: dict[str, Any] = field(default_factory=dict)
    check_every: int = 40
    seeds: int = 3
    first_seed: int = 0
    tradeoff_sparsity: float = 0.7
    tradeoff_strengths: tuple[float, ...] = ()
    tradeoff_methods: tuple[str, ...] = ("bifp-str", "pf", "fp")
    surface: bool = False
    fair_gap: float | None = None
    within: float = 0.02
    train: dict[str, Any] | None = None
    mirror: bool | None = None
    classes: tuple[str, ...] = ()
    tune_on: str = TRAIN
    keep_weights: str = "first"
    keep_methods: tuple[str, ...] = ()
    device: str = "auto"
    experiment: str = ""
    title: str = ""
    restart: bool = False

    by_content = ("model", "weights", "data")
    track = "fair_training"

    def __post_init__(self) -> None:
        """Equal requests look equal."""
        for name in ("sparsities", "tradeoff_strengths"):
            values = getattr(self, name)
            if all(is_number(value) for value in values):
                object.__setattr__(self, name, tuple(sorted(set(map(float, values)))))
        for name in ("strength", "tolerance", "tradeoff_sparsity", "within", "fair_gap"):
            if is_number(value := getattr(self, name)):
                object.__setattr__(self, name, float(value))

    @property
    def mirrors(self) -> bool:
        """Whether training images are mirrored."""
        return mirrors(self)

    @property
    def named(self) -> tuple[str, ...]:
        """Every method that is trained, those of the trade-off included."""
        swept = self.tradeoff_methods if self.tradeoff_strengths else ()
        return tuple(dict.fromkeys((*self.methods, *swept)))

    @property
    def trials(self) -> int:
        """What other tracks call the number of seeds."""
        return self.seeds

    @property
    def full_recipe(self) -> Recipe:
        """The usual recipe, with what was asked instead."""
        return recipe_of({**USUAL_RECIPE, **self.recipe})

    def sparsities_of(self, method: str) -> tuple[float, ...]:
        """All that a method is trained for, the sweep's included; ascending."""
        if fair_methods()[method].units == NONE:
            return (0.0,)
        swept = bool(self.tradeoff_strengths) and method in self.tradeoff_methods
        own = self.sparsities if method in self.methods else ()
        return tuple(sorted({*own, *((self.tradeoff_sparsity,) if swept else ())}))

    @property
    def surface_sparsity(self) -> float:
        """Where the loss between models is looked at: the middle one of the sparsities."""
        return self.sparsities[len(self.sparsities) // 2]

    def settings(self) -> FairSettings:
        """What the context needs to know of it."""
        named = dict.fromkeys((*self.methods, *(self.tradeoff_methods if self.tradeoff_strengths else ())))
        return FairSettings(
            first_seed=self.first_seed, methods=self.method_settings,
            train=None if self.train is None else recipe_of(self.train), axis=self.axes[0],
            sparsities={name: self.sparsities_of(name) for name in named}, recipe=self.full_recipe,
            iterations=self.iterations, check_every=self.check_every, tolerance=self.tolerance, notion=self.notion,
            tune_on=self.tune_on,
        )  # fmt: skip


@dataclass(frozen=True)
class FairPlan(ImagePlan):
    """A request that holds up: its images listed, its model inspected but not loaded."""

    request: FairRequest

    @property
    def versions(self) -> dict[str, int]:
        from engine.tracks.fair_training.measurements import fair_measurements

        methods = {name: fair_methods()[name] for name in self.request.named}
        return versions_of(CODE, measurement=fair_measurements(), method=methods)

    def spelled_out(self) -> dict[str, Any]:
        """The request with everything said that it left to the usual way, JSON-able."""
        recipe = {name: value for name, value in self.request.full_recipe.to_dict().items() if name in RECIPE}
        return {**self.request.to_dict(), "recipe": recipe, "mirror": self.request.mirrors,
                "method_settings": {name: self._settings_of(name) for name in self.request.named}}  # fmt: skip

    def _settings_of(self, name: str) -> dict[str, Any]:
        """All settings of a method, declared defaults included."""
        given = self.request.method_settings.get(name, {})
        return {item.name: given.get(item.name, item.default) for item in fair_methods()[name].settings}


def validate_fair(request: FairRequest) -> FairPlan:
    """Check everything that can be checked without loading weights. RequestError carries all faults together."""
    faults: list[Fault] = _method_faults(request) + _number_faults(request) + _choice_faults(request)
    faults += _own_recipe_faults(request) + recipe_faults(request, "train")
    images, model = looked_up(request, faults)
    if images is not None:
        faults += _group_faults(request, images)
    if model is not None and not faults:
        attempt(lambda: _reachable(request, model), faults)
    if faults:
        raise RequestError(list(dict.fromkeys(faults)))
    return FairPlan(request, images, model)


def _method_faults(request: FairRequest) -> list[Fault]:
    """Methods and their settings."""
    known, faults = fair_methods(), []
    swept = request.tradeoff_methods if request.tradeoff_strengths else ()
    faults += [unknown("method", name, known) for name in request.methods if name not in known]
    faults += [unknown("trade-off method", name, known) for name in swept if name not in known]
    faults += [
        unknown("kept method", name, request.methods) for name in request.keep_methods if name not in request.methods
    ]
    if not request.methods:
        faults.append(Fault("method", "none is named.", f"Known: {', '.join(sorted(known))}."))
    for where, names in (("method", request.methods), ("trade-off method", request.tradeoff_methods)):
        if len(set(names)) < len(names):
            faults.append(Fault(where, "one is named twice.", "Name each once."))
    if request.tradeoff_strengths and not swept:
        faults.append(Fault("trade-off method", "none is named.", f"Known: {', '.join(sorted(known))}."))
    for name in swept:
        if name in known and known[name].units == NONE:
            what = f"{name} cuts nothing, so it has no place at a sparsity of {request.tradeoff_sparsity:g}."
            faults.append(Fault("trade-off method", what, "Leave it out."))
    for name, given in request.method_settings.items():
        if name not in known:
            faults.append(unknown("method settings", name, known))
        elif isinstance(given, Mapping):
            faults += setting_faults(known[name].settings, given, f"setting of {name}")
        else:
            faults.append(Fault("method settings", f"{given!r} of {name} are none.", "Give NAME=VALUE."))
    return faults


_LEAST = {"seeds": 1, "first_seed": 0, "iterations": 1, "check_every": 1, "max_images": 20, "size": 8}


def _number_faults(request: FairRequest) -> list[Fault]:
    faults = [
        Fault(where, f"{value!r} is not a share between 0 and 1.", "Give shares of filters or weights such as 0.488.")
        for where, values in (("sparsity", request.sparsities), ("trade-off sparsity", (request.tradeoff_sparsity,)))
        for value in values
        if not (is_number(value) and 0.0 < value < 1.0)
    ]  # fmt: skip
    faults += _alike_faults(request)
    if not request.sparsities:
        faults.append(Fault("sparsity", "none is named.", "Give shares of filters or weights such as 0.488,0.832."))
    for where, values in (("λ (strength)", (request.strength,)), ("λ of the trade-off", request.tradeoff_strengths)):
        for value in values:
            if not (is_number(value) and 0.0 <= value < math.inf):
                faults.append(Fault(where, f"{value!r} is not allowed.", "Give 0 or more."))
    shares = {"τ (tolerance)": request.tolerance, "within": request.within}
    shares |= {} if request.fair_gap is None else {"fair gap": request.fair_gap}
    for where, value in shares.items():
        if not (is_number(value) and 0.0 <= value <= 1.0):
            faults.append(Fault(where, f"{value!r} is not allowed.", "Give a share from 0 to 1."))
    return faults + no_axis_faults(request.axes) + whole_number_faults(request, _LEAST, ("max_images", "size"))


def _alike_faults(request: FairRequest) -> list[Fault]:
    """Numbers that could not be told apart in the name of a variant, those of the sweep beside the others."""
    swept = bool(request.tradeoff_strengths)
    named = {
        "sparsity": (100.0, (*request.sparsities, *((request.tradeoff_sparsity,) if swept else ()))),
        "λ of the trade-off": (1.0, (request.strength, *request.tradeoff_strengths)),
    }
    faults = []
    for where, (scale, values) in named.items():
        numbers = {value for value in values if is_number(value)}
        if len({f"{scale * value:g}" for value in numbers}) < len(numbers):
            faults.append(Fault(where, "two of them are one to six digits.", "Leave one out, or write them alike."))
    return faults


def _choice_faults(request: FairRequest) -> list[Fault]:
    choices = {"notion": NOTIONS, "tune_on": TUNED_ON, "keep_weights": KEPT}
    faults = [
        unknown(name, getattr(request, name), known)
        for name, known in choices.items() if getattr(request, name) not in known
    ]  # fmt: skip
    if not isinstance(request.surface, bool):
        faults.append(Fault("surface", f"{request.surface!r} is not allowed.", "Give true or false."))
    if request.axes and CLASS_AXIS in request.axes[0].split("+"):
        what = "the fairness term is about the first axis, which cannot be the class itself."
        faults.append(Fault("axis", what, "Name a group column first."))
    return faults


def _own_recipe_faults(request: FairRequest) -> list[Fault]:
    faults = recipe_faults(request, "recipe", RECIPE)
    if request.recipe.get("schedule") == "steps":
        known = [name for name in SCHEDULES if name != "steps"]
        faults.append(unknown("recipe schedule", "steps", known, "There are no epochs here."))
    return faults


def _group_faults(request: FairRequest, images: ImageSet) -> list[Fault]:
    """The groups of the fair axis must be two at least, and in every split that is used."""
    axis = request.axes[0] if request.axes else ""
    if not axis or CLASS_AXIS in axis.split("+") or any(part not in images.table for part in axis.split("+")):
        return []  # said elsewhere
    table, faults = images.table, []
    names = group_names(table, axis)
    known = sorted(set(names) - {""})
    if len(known) < 2:
        what = f"its images belong to {len(known)} group ({', '.join(known) or 'none'}): no gap between groups."
        return [Fault(f"axis {axis}", what, "Name another column, or give images of more groups.")]
    for split in (TRAIN, VALIDATION, TEST):
        here = set(names[(table["split"] == split).to_numpy()])
        for name in known:
            if name not in here:
                what = f"no {split} image belongs to {name}."
                faults.append(Fault(f"axis {axis}", what, "Every group needs images in every split."))
    if request.tune_on == VALIDATION and not faults:
        labels = table.loc[table["split"] == VALIDATION, "label"]
        if labels.nunique() < 2 or LOOKED_SHARE * len(labels) < 10:
            what = f"the validation split has {len(labels)} images of {labels.nunique()} classes."
            faults.append(Fault("tune_on", what, "Train on the training images."))
    if request.tune_on in TUNED_ON and not faults:
        faults += _used_faults(request, table, names, known)
    return faults


def _used_faults(request: FairRequest, table: Any, names: np.ndarray, known: Sequence[str]) -> list[Fault]:
    """Groups must be among the very images that are trained on and looked at, which are parts of the splits."""
    used = {
        "trained on": tuned_rows(table, request.tune_on),
        "looked at while models train": looked_rows(table, request.tune_on),
    }
    return [
        Fault(f"axis {request.axes[0]}", f"none of the {len(rows)} images {how} belongs to {name}.",
              "Give more images of it, or name another column.")
        for how, rows in used.items() for name in known if name not in set(names[rows])
    ]  # fmt: skip


def _reachable(request: FairRequest, model: Any) -> None:
    """RequestError for sparsities that no cut can reach: one filter per group, one weight per layer, stay."""
    from engine.models.load_image_classifier import fresh_classifier
    from engine.surgery.filters.graph import filter_graph
    from engine.tracks.fair_training.training.masked import kept_of, masked_filters_of, masked_weights_of

    classifier = fresh_classifier(model.arch, model.classes, model.size, seed=0, device="cpu")
    masked = {
        FILTERS: masked_filters_of(classifier.model, filter_graph(classifier)),
        WEIGHTS: masked_weights_of(classifier.model),
    }
    faults = []
    asked = {name: set(request.sparsities_of(name)) for name in request.settings().sparsities}
    for name in CORNERS if request.surface else ():
        asked.setdefault(name, set()).add(request.surface_sparsity)
    for name, sparsities in asked.items():
        units = fair_methods()[name].units
        for sparsity in sorted(sparsities) if units in masked else ():
            blocks, total = len(np.unique(masked[units].blocks)), masked[units].total
            if kept_of(total, sparsity) < blocks:
                most, part = 1.0 - blocks / total, "group of layers" if units == FILTERS else "layer"
                what = f"{sparsity:g} is out of reach for {units}: {blocks} of {total} must stay, one per {part}."
                faults.append(Fault("sparsity", what, f"Ask for {math.floor(1000 * most) / 1000:g} at most."))
    if faults:
        raise RequestError(list(dict.fromkeys(faults)))


def request_of_run(run: Any) -> FairRequest:
    """The request a finished run was made from."""
    return FairRequest.from_dict(run.meta["request"])


def group_shares(images: ImageSet, axis: str, rows: Sequence[int] | np.ndarray) -> dict[str, float]:
    """P(s): the share of each group among some images, by name."""
    names = group_names(images.table.iloc[np.asarray(rows)], axis)
    names = names[names != ""]
    return {str(name): float((names == name).mean()) for name in sorted(set(names))}
