"""What is asked of a fair training, and whether it can be asked: every fault at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.audit.command_line import numbers_of
from engine.audit.fields import HOW, WHAT, Offer, Values, asked, is_number, part
from engine.audit.request import spelled, versions_of
from engine.classifiers.images.context import TEST, TRAIN, VALIDATION
from engine.classifiers.images.request import (
    CLASS_AXIS,
    TOO_FEW,
    ImagePlan,
    ImagesRequest,
    offered_axes,
    recipe_faults,
    recipe_of,
    usual_axes,
    validated,
)
from engine.classifiers.tables import Repeats
from engine.core.errors import Fault, unknown
from engine.core.words import axis_name, method_definition, method_name
from engine.data.images.load import ImageSet
from engine.tracks.fair_training import words
from engine.tracks.fair_training.context import (
    CORNERS,
    LOOKED_SHARE,
    TUNED_ON,
    FairSettings,
    FairShard,
    group_names,
    looked_rows,
    tuned_rows,
)
from engine.tracks.fair_training.methods import (
    EQUAL,
    FILTERS,
    FLOPS,
    NONE,
    NOTIONS,
    RECIPE,
    WEIGHTS,
    fair_methods,
)
from engine.training.recipe import SCHEDULES, Recipe, recipe_settings

if TYPE_CHECKING:
    from engine.models.load_image_classifier import Classifier
    from engine.surgery.filters.graph import FilterGraph


CODE = 6
"""Version of the audit itself. Raise when a finished run would come out differently for the same
request."""
USUAL_RECIPE = {"rate": 1e-3, "batch": 64}
LEFT = 0.8
"""Share of the weights that each step of the Lottery Ticket's schedule leaves."""
MOST_STEPS = 34
"""More steps of the lottery ticket's schedule cut all but less than half a thousandth, which is 1
to three digits."""
NOTION_NAMES = {
    "accuracy": "Accuracy: right equally often about every subgroup",
    "degradation": "Degradation: no subgroup loses more than another",
}
EQUAL_NAMES = {FLOPS: "The same FLOPs", "filters": "The same number of filters"}
TUNED_ON_NAMES = {TRAIN: "Training images", VALIDATION: "Validation images, as in the paper"}
CUTS = {FILTERS: "Cut filters", WEIGHTS: "Cut weights (nothing gets faster)", NONE: "Cut nothing"}
SAME_UPDATES = (
    "The same for every method, also for two stages together. The work differs. BiFP reads a "
    "second batch for every update of its mask, by default 1.75 times the images in all. SNIP "
    "reads some batches before it cuts. The Lottery Ticket trains once per round, and once more "
    "at the end."
)
SETTINGS, SWEEP = "Settings of the methods", "Trade-off over λ, and loss surface"
JUDGING = "Training, and when it counts as fair"


def _group_and_axes(parts: Sequence[Any]) -> tuple[str, ...]:
    """The group that training is fair about goes first."""
    group, more = parts
    return tuple(dict.fromkeys([*([group] if group else []), *(more or ())]))


def _usual_fair_axes(values: Values) -> tuple[str, ...]:
    """The data's usual axes, where the request names none."""
    return tuple(axis for axis in usual_axes(values) if axis != CLASS_AXIS) or (CLASS_AXIS,)


def _first_axis_faults(axes: Sequence[str], _: Values) -> list[Fault]:
    if not axes or CLASS_AXIS not in axes[0].split("+"):
        return []
    what = "the fairness term is about the first axis, which cannot be the class itself."
    return [Fault("axis", what, "Name a group column first.")]


def sparsity_at(step: int) -> float:
    """Share cut after so many steps of the Lottery Ticket's schedule: 1 - 0.8^step, to three
    digits."""
    return round(1.0 - LEFT**step, 3)


def shares_of(where: str, text: str, faults: list[Fault]) -> tuple[float, ...]:
    """ "0.5,k3" -> (0.5, 0.488): kN means 1 - 0.8^N to three digits, the schedule of the lottery
    ticket."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    steps = [part for part in parts if part[0] in "kK" and part[1:].isdecimal()]
    plain = numbers_of(where, ",".join(part for part in parts if part not in steps), faults)
    known = {step: int(step[1:]) for step in steps if len(step) < 4}
    for step in steps:
        if not 1 <= known.get(step, 0) <= MOST_STEPS:
            what = f"{step!r} cuts nothing or everything, to three digits."
            faults.append(Fault(where, what, f"Give k1 to k{MOST_STEPS}, or shares such as 0.488."))
    return (*plain, *(sparsity_at(k) for k in known.values() if 1 <= k <= MOST_STEPS))


def _ordered() -> list[str]:
    """Methods as words know them, then others."""
    return sorted(fair_methods(), key=[*words.METHODS, *fair_methods()].index)


def _offered_methods(_: Values) -> Offer:
    by_units = {
        label: [name for name in _ordered() if fair_methods()[name].units == units]
        for units, label in CUTS.items()
    }
    return Offer(_ordered(), FairRequest.methods, groups=by_units)


def _offered_sweep(_: Values) -> Offer:
    names = [
        name
        for name in _ordered()
        if fair_methods()[name].fair and fair_methods()[name].units != NONE
    ]
    return Offer(names, FairRequest.tradeoff_methods)


def _swept_faults(methods: Sequence[str], values: Values) -> list[Fault]:
    """Faults of the methods of the trade-off, which matter only where it is made."""
    if not values["tradeoff_strengths"]:
        return []
    known = fair_methods()
    faults = [unknown("trade-off method", name, known) for name in methods if name not in known]
    if not methods:
        faults.append(
            Fault("trade-off method", "none is named.", f"Known: {', '.join(sorted(known))}.")
        )
    for name in methods:
        if name in known and known[name].units == NONE:
            what = (
                f"{name} cuts nothing, so it has no place at a sparsity of"
                f" {values['tradeoff_sparsity']:g}."
            )
            faults.append(Fault("trade-off method", what, "Leave it out."))
    return faults


def _kept_faults(methods: Sequence[str], values: Values) -> list[Fault]:
    return [
        unknown("kept method", name, values["methods"])
        for name in methods
        if name not in values["methods"]
    ]


def _own_recipe_faults(given: Values, values: Values) -> list[Fault]:
    faults = recipe_faults("recipe", RECIPE)(given, values)
    if given.get("schedule") == "steps":
        known = [name for name in SCHEDULES if name != "steps"]
        faults.append(unknown("recipe schedule", "steps", known, "There are no epochs here."))
    return faults


def _looked_words(tuned: str) -> str:
    """How many images are left to look at, in words."""
    if tuned != VALIDATION:
        return ""
    return (
        f"Only {100 * LOOKED_SHARE:g} % of the validation images are left to look at while models"
        f" train. {TOO_FEW}"
    )


@dataclass(frozen=True)
class FairRequest(ImagesRequest):
    """A fair training as it is asked for.

    axes: group columns, all measured; the fairness term is about the first. notion: the gap that is
    trained against. strength: λ, the weight of the fairness term, for methods that have one.
    tolerance: τ, the gap that costs nothing.

    sparsities: shares to cut: of weights, or, where filters are cut, of what `equal` names (FLOPs,
    or the number of filters). tune_on: the split of the images that are cut and trained on.

    iterations: weight updates of one training; check_every: of these between two looks at
    validation images. A training counts as fair once its gap is at most fair_gap and it loses at
    most `within` of accuracy, both on validation images. fair_gap None: half of the dense model's
    excess over its null band.

    tradeoff_…: the sweep over λ; none where no strengths are named. surface: whether the loss
    between BiFP and its ablations is measured. keep_methods: whose models are kept; () for all.
    """

    axes: tuple[str, ...] = asked(
        where="axis",
        usual=_usual_fair_axes,
        check=_first_axis_faults,
        section=WHAT,
        last=True,
        label="Groups",
        offered=offered_axes,
        named=axis_name,
        lead="Fair to",
        join=_group_and_axes,
        hint=(
            "Training aims at fairness between groups of the first column; the others are only"
            " measured."
        ),
        parts=(
            part(
                "group",
                "text",
                metavar="AXIS",
                help="group column that training is to be fair about, or two joined with +",
            ),
            part(
                "axis",
                "names",
                metavar="AXIS",
                help="further group columns to measure; may be given several times",
            ),
        ),
    )
    notion: str = asked(
        "accuracy",
        choices=NOTIONS,
        help="accuracy, or degradation: which gap is trained against",
        section=WHAT,
        last=True,
        label="What should be equal between groups",
        named=NOTION_NAMES.get,
        hint=words.SURROGATE,
    )
    methods: tuple[str, ...] = asked(
        (
            "bifp-str",
            "bifp-widths-random",
            "bifp-widths-fpgm",
            "bifp-uns",
            "snip",
            "fpgm",
            "lottery",
            "pf",
            "pf-random",
            "fp",
            "dense-tuned",
            "dense-fair",
        ),
        option="--method",
        metavar="NAME[,NAME]",
        commas=True,
        where="method",
        section=HOW,
        known=fair_methods,
        help="methods to train; may be given several times",
        label="Methods",
        offered=_offered_methods,
        named=method_name,
        counted=("method", "methods"),
    )
    method_settings: dict[str, dict[str, Any]] = asked(
        {},
        option="--set",
        metavar="METHOD.NAME=VALUE",
        where="setting",
        section=SETTINGS,
        help="a setting, such as bifp-str.mask_rate=0.05",
        named=method_name,
        about=method_definition,
        of=lambda values: {name: method.settings for name, method in fair_methods().items()},
        chosen=lambda values: values["methods"],
    )
    sparsities: tuple[float, ...] = asked(
        (0.488, 0.672, 0.832),
        option="--sparsity",
        metavar="LIST",
        above=0.0,
        below=1.0,
        help="shares of FLOPs, filters or weights to cut, or k3,k5,k8: 1 - 0.8^k",
        where="sparsity",
        example="0.488",
        read=shares_of,
        percent=True,
        section=HOW,
        label="Sparsities",
        unit="percent of FLOPs, filters or weights cut",
        quick=(0.672,),
        counted=("sparsity", "sparsities"),
        hint="The usual ones are 1 − 0.8³, 1 − 0.8⁵ and 1 − 0.8⁸, as in the Lottery Ticket paper.",
    )
    equal: str = asked(
        FLOPS,
        choices=EQUAL,
        help="FLOPs, or filters: what is equal among methods that cut filters",
        section=HOW,
        label="Equal at one sparsity, where filters are cut",
        named=EQUAL_NAMES.get,
        hint=words.EQUAL,
    )
    strength: float = asked(
        1.0,
        option="--lambda",
        metavar="L",
        minimum=0.0,
        help="weight of the fairness term",
        where="λ (strength)",
        section=HOW,
        label="λ, weight of fairness",
        step=0.5,
        hint="0 asks for no fairness. Methods that ignore groups have none.",
    )
    tolerance: float = asked(
        0.0,
        option="--tau",
        metavar="T",
        minimum=0.0,
        maximum=1.0,
        help="gap that costs nothing",
        where="τ (tolerance)",
        section=HOW,
        label="τ, gap that costs nothing",
        hint="A surrogate gap up to this costs nothing.",
    )
    seeds: int = asked(
        3,
        minimum=1,
        help="how many seeds",
        section=HOW,
        label="Seeds",
        quick=1,
        counted=("seed", "seeds"),
        hint="Trainings of each variant. Three at least tell more.",
    )
    iterations: int = asked(
        400,
        minimum=1,
        metavar="N",
        help="weight updates of one training",
        section=HOW,
        label="Weight updates of one training",
        hint=SAME_UPDATES,
        quick=100,
    )
    tradeoff_strengths: tuple[float, ...] = asked(
        (),
        option="--tradeoff",
        metavar="LIST",
        minimum=0.0,
        where="λ of the trade-off",
        some=False,
        help="values of λ for the trade-off of accuracy and gap",
        section=SWEEP,
        label="λ of the trade-off",
        unit="empty: none",
        placeholder="0.1, 0.5, 1, 5",
        example="0.1,1,5",
        hint="Every λ trains every method of the trade-off again, with all seeds.",
    )
    tradeoff_sparsity: float = asked(
        0.7,
        metavar="S",
        above=0.0,
        below=1.0,
        help="at which the trade-off is made",
        where="trade-off sparsity",
        percent=True,
        section=SWEEP,
        label="At a sparsity of",
        unit="percent",
    )
    tradeoff_methods: tuple[str, ...] = asked(
        ("bifp-str", "pf", "fp"),
        option="--tradeoff-method",
        metavar="NAME[,NAME]",
        commas=True,
        some=False,
        help="methods of the trade-off",
        where="trade-off method",
        check=_swept_faults,
        section=SWEEP,
        label="Methods of the trade-off",
        offered=_offered_sweep,
        named=method_name,
    )
    surface: bool = asked(
        False,
        help="the loss between BiFP and its ablations",
        section=SWEEP,
        label="Measure the loss between BiFP and its ablations",
        hint=(
            "On a plane and along straight lines, at the middle sparsity, for one seed. Trains the"
            " ablations."
        ),
    )
    recipe: dict[str, Any] = asked(
        {},
        kind="pairs",
        metavar="NAME=VALUE",
        help=", ".join(RECIPE),
        check=_own_recipe_faults,
        section=JUDGING,
        label="Training of the weights",
        of=lambda values: recipe_settings(USUAL_RECIPE, "Images", ("rate", "batch")),
    )
    tune_on: str = asked(
        TRAIN,
        choices=TUNED_ON,
        metavar="SPLIT",
        section=JUDGING,
        named=TUNED_ON_NAMES.get,
        help="train, or validation as in the paper: images to cut and train on",
        label="Cut and train on",
        hint="Results always come from test images.",
        about=_looked_words,
    )
    fair_gap: float | None = asked(
        None,
        metavar="G",
        minimum=0.0,
        maximum=1.0,
        where="fair gap",
        section=JUDGING,
        help="validation gap to be reached (half of the dense model's excess)",
        label="Fair from a gap of",
        step=0.01,
        placeholder="half of the dense model's excess over its null band",
        hint="On validation images. The audit counts how much training it takes to get there.",
    )
    within: float = asked(
        0.02,
        metavar="A",
        minimum=0.0,
        maximum=1.0,
        section=JUDGING,
        step=0.01,
        help="validation accuracy that may be lost for it",
        label="Accuracy that may be lost for it",
        hint="Against the dense model, on validation images.",
    )
    check_every: int = asked(
        20,
        minimum=1,
        metavar="N",
        help="weight updates between two checks on validation images",
        section=JUDGING,
        label="Updates between two checks on validation images",
        hint="Also how finely the training until then is counted.",
    )
    keep_methods: tuple[str, ...] = asked(
        (),
        option="--keep-method",
        metavar="NAME[,NAME]",
        commas=True,
        some=False,
        help="of which methods models are kept (all)",
        where="kept method",
        check=_kept_faults,
    )

    track = "fair_training"

    @property
    def named(self) -> tuple[str, ...]:
        """Every method that is trained, those of the trade-off included."""
        swept = self.tradeoff_methods if self.tradeoff_strengths else ()
        return tuple(dict.fromkeys((*self.methods, *swept)))

    @property
    def trained(self) -> tuple[str, ...]:
        """Every method whose models the numbers rest on: those that are named, and those the loss
        lies between."""
        return tuple(dict.fromkeys((*self.named, *(CORNERS if self.surface else ()))))

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
        return FairSettings(
            first_seed=self.first_seed,
            methods=self.method_settings,
            train=None if self.train is None else recipe_of(self.train),
            axis=self.axes[0],
            sparsities={name: self.sparsities_of(name) for name in self.named},
            recipe=self.full_recipe,
            iterations=self.iterations,
            check_every=self.check_every,
            tolerance=self.tolerance,
            notion=self.notion,
            tune_on=self.tune_on,
            equal=self.equal,
        )


@dataclass(frozen=True)
class FairPlan(ImagePlan):
    """A request that holds up: its images listed, its model inspected but not loaded."""

    request: FairRequest

    @property
    def versions(self) -> dict[str, int]:
        from engine.tracks.fair_training.measurements import fair_measurements

        methods = {name: fair_methods()[name] for name in self.request.trained}
        return versions_of(CODE, measurement=fair_measurements(), method=methods)

    def spelled_out(self) -> Values:
        """The request with every default it relies on written out, JSON-able."""
        recipe = {
            name: value
            for name, value in self.request.full_recipe.to_dict().items()
            if name in RECIPE
        }
        given = self.request.method_settings
        settings = {
            name: spelled(fair_methods()[name].settings, given.get(name, {}))
            for name in self.request.trained
        }
        return {**super().spelled_out(), "recipe": recipe, "method_settings": settings}


def validate_fair(request: FairRequest) -> FairPlan:
    """As of `validated`."""
    return FairPlan(*validated(request, _unreachable, _named_faults, _group_faults))


def _named_faults(request: FairRequest) -> list[Fault]:
    return _alike_faults(request) + _widths_faults(request)


def _alike_faults(request: FairRequest) -> list[Fault]:
    """Numbers that could not be told apart in the name of a variant, those of the sweep beside the
    others."""
    swept = bool(request.tradeoff_strengths)
    named = {
        "sparsity": (
            100.0,
            (*request.sparsities, *((request.tradeoff_sparsity,) if swept else ())),
        ),
        "λ of the trade-off": (1.0, (request.strength, *request.tradeoff_strengths)),
    }
    faults = []
    for where, (scale, values) in named.items():
        numbers = {value for value in values if is_number(value)}
        if len({f"{scale * value:g}" for value in numbers}) < len(numbers):
            faults.append(
                Fault(
                    where,
                    "two of them are one to six digits.",
                    "Leave one out, or write them alike.",
                )
            )
    return faults


def _widths_faults(request: FairRequest) -> list[Fault]:
    """Controls in the widths of a method that is not trained wherever they are."""
    known, faults = fair_methods(), []
    for where, names in (
        ("method", request.methods),
        ("trade-off method", request.tradeoff_methods),
    ):
        asked_for = names if where == "method" or request.tradeoff_strengths else ()
        for name in (name for name in asked_for if name in known):
            other = known[name].widths_of
            if other and other not in names:
                what = (
                    f"{name} cuts as many filters of each layer as {other} kept, which is not"
                    " trained here."
                )
                faults.append(Fault(where, what, f"Name {other} too, or leave {name} out."))
    return faults


def _group_faults(request: FairRequest, images: ImageSet) -> list[Fault]:
    """The groups of the fair axis must be two at least, and in every split that is used."""
    axis = request.axes[0] if request.axes else ""
    if (
        not axis
        or CLASS_AXIS in axis.split("+")
        or any(part not in images.table for part in axis.split("+"))
    ):
        return []  # said elsewhere
    table, faults = images.table, []
    names = group_names(table, axis)
    known = sorted(set(names) - {""})
    if len(known) < 2:
        what = (
            f"its images belong to {len(known)} group ({', '.join(known) or 'none'}): no gap"
            " between groups."
        )
        return [Fault(f"axis {axis}", what, "Name another column, or give images of more groups.")]
    for split in (TRAIN, VALIDATION, TEST):
        here = set(names[(table["split"] == split).to_numpy()])
        for name in known:
            if name not in here:
                what = f"no {split} image belongs to {name}."
                faults.append(
                    Fault(f"axis {axis}", what, "Every group needs images in every split.")
                )
    if request.tune_on == VALIDATION and not faults:
        labels = table.loc[table["split"] == VALIDATION, "label"]
        if labels.nunique() < 2 or LOOKED_SHARE * len(labels) < 10:
            what = f"the validation split has {len(labels)} images of {labels.nunique()} classes."
            faults.append(Fault("tune_on", what, "Train on the training images."))
    if request.tune_on in TUNED_ON and not faults:
        faults += _used_faults(request, table, names, known)
    return faults


def _used_faults(
    request: FairRequest, table: Any, names: np.ndarray, known: Sequence[str]
) -> list[Fault]:
    """Groups must be among the very images that are trained on and looked at, which are parts of
    the splits.

    names: the group of every image in the table, [images] str objects.
    """
    used = {
        "trained on": tuned_rows(table, request.tune_on),
        "looked at while models train": looked_rows(table, request.tune_on),
    }
    return [
        Fault(
            f"axis {request.axes[0]}",
            f"none of the {len(rows)} images {how} belongs to {name}.",
            "Give more images of it, or name another column.",
        )
        for how, rows in used.items()
        for name in known
        if name not in set(names[rows])
    ]


def _unreachable(request: FairRequest, classifier: Classifier, graph: FilterGraph) -> list[Fault]:
    """Sparsities that no cut can reach: one filter per group, one weight per layer, stay."""
    from engine.tracks.fair_training.masked import (
        kept_of,
        masked_filters_of,
        masked_weights_of,
    )

    masked = {
        FILTERS: masked_filters_of(classifier.model, graph),
        WEIGHTS: masked_weights_of(classifier.model),
    }
    asked = {name: set(request.sparsities_of(name)) for name in request.named}
    for name in CORNERS if request.surface else ():
        asked.setdefault(name, set()).add(request.surface_sparsity)
    faults = _flop_faults(graph, asked) if request.equal == FLOPS else []
    for name, sparsities in asked.items():
        units = fair_methods()[name].units
        counted = units in masked and (units != FILTERS or request.equal != FLOPS)
        for sparsity in sorted(sparsities) if counted else ():
            blocks, total = len(np.unique(masked[units].blocks)), masked[units].total
            if kept_of(total, sparsity) < blocks:
                most, part = (
                    1.0 - blocks / total,
                    "group of layers" if units == FILTERS else "layer",
                )
                what = (
                    f"{sparsity:g} is out of reach for {units}: {blocks} of {total} must stay, one"
                    f" per {part}."
                )
                faults.append(
                    Fault("sparsity", what, f"Ask for {math.floor(1000 * most) / 1000:g} at most.")
                )
    return faults


def _flop_faults(graph: FilterGraph, asked: Mapping[str, Iterable[float]]) -> list[Fault]:
    """Shares of FLOPs that no cut of filters can reach. asked: sparsities by method."""
    most = 1.0 - graph.least_flops / graph.flops()
    cutting = [shares for name, shares in asked.items() if fair_methods()[name].units == FILTERS]
    return [
        Fault(
            "sparsity",
            f"{share:g} is out of reach for FLOPs: one filter per group of layers cuts {most:.4g}.",
            f"Ask for {math.floor(1000 * most) / 1000:g} at most.",
        )
        for share in sorted(set().union(*cutting))
        if share > most
    ]


def group_shares(images: ImageSet, axis: str, rows: Sequence[int] | np.ndarray) -> dict[str, float]:
    """P(s): the share of each group by name, among the images at rows [images] int of the table."""
    names = group_names(images.table.iloc[np.asarray(rows)], axis)
    names = names[names != ""]
    return {str(name): float((names == name).mean()) for name in sorted(set(names))}


# The arms of a fair training: a method at a sparsity with a λ, trained with several seeds.


SPARSITY, TRADEOFF = "sparsity", "tradeoff"
"""Why an arm was trained: to be reported along the sparsities, or as a point of the trade-off over
λ."""
STRUCTURED, UNSTRUCTURED = "bifp-str", "bifp-uns"


@dataclass(frozen=True)
class FairArm(Repeats):
    """strength: 0 for methods without a fairness term. is_usual: whether λ is the request's, or
    needs to be said.

    n_draws: trainings of each seed, one for every mask that is drawn at random.
    """

    method: str
    sparsity: float
    strength: float
    n_seeds: int
    role: str = SPARSITY
    is_usual: bool = True
    n_draws: int = 1

    @property
    def units(self) -> str:
        """What it cuts."""
        return fair_methods()[self.method].units

    @property
    def pooled(self) -> str:
        """Id of the variant that stands for all seeds."""
        return f"{self.method}-{100 * self.sparsity:g}%" + (
            "" if self.is_usual else f"-l{self.strength:g}"
        )

    def number(self, shard: FairShard) -> int:
        """Number of a training in the tables: the seed, and for further draws so many seeds
        more."""
        return shard.draw * self.n_seeds + shard.seed

    def shards(self) -> list[FairShard]:
        """One training per draw and seed, by their number; those of one descent are computed
        together."""
        return [
            FairShard("trained", self.method, self.sparsity, self.strength, seed, draw)
            for draw in range(self.n_draws)
            for seed in range(self.n_seeds)
        ]

    @property
    def cost(self) -> FairShard:
        """The cost is measured on the first seed."""
        return FairShard("fair_cost", self.method, self.sparsity, self.strength, 0)


def arms_of(request: FairRequest) -> list[FairArm]:
    """The arms in the order they were asked for, those of the trade-off that are not among them
    last."""
    found = []
    for name in request.methods:
        method, draws = fair_methods()[name], draws_of(request, name)
        for sparsity in (0.0,) if method.units == NONE else request.sparsities:
            strength = request.strength if method.fair else 0.0
            found.append(FairArm(name, sparsity, strength, request.seeds, n_draws=draws))
    there = {(arm.method, arm.sparsity, arm.strength) for arm in found}
    for name in request.tradeoff_methods if request.tradeoff_strengths else ():
        fair = fair_methods()[name].fair
        for strength in request.tradeoff_strengths if fair else (0.0,):
            if (name, request.tradeoff_sparsity, strength) not in there:
                usual = not fair or strength == request.strength
                place = name, request.tradeoff_sparsity, strength
                found.append(
                    FairArm(*place, request.seeds, TRADEOFF, usual, draws_of(request, name))
                )
    return found


def draws_of(request: FairRequest, name: str) -> int:
    """Trainings of each seed of a method."""
    return fair_methods()[name].draws(request.method_settings.get(name, {}))


def tradeoff_arms(request: FairRequest, arms: list[FairArm]) -> list[FairArm]:
    """The points of the trade-off: every λ at which its methods were trained at its sparsity; none
    without a sweep."""
    if not request.tradeoff_strengths:
        return []
    methods = request.tradeoff_methods
    return [
        arm for arm in arms if arm.method in methods and arm.sparsity == request.tradeoff_sparsity
    ]


def compared(arms: list[FairArm]) -> list[tuple[FairArm, FairArm]]:
    """(arm, base): every arm with BiFP-str at its sparsity, those of weights with BiFP-uns too."""
    bases = {(arm.method, arm.sparsity): arm for arm in arms if arm.role == SPARSITY}
    found = []
    for name in (STRUCTURED, UNSTRUCTURED):
        for arm in bases.values():
            base = bases.get((name, arm.sparsity))
            fits = name == STRUCTURED or arm.units == WEIGHTS
            if base is not None and fits and arm is not base:
                found.append((arm, base))
    return found


def surface_shards(request: FairRequest) -> list[FairShard]:
    """The surface, then the paths to every ablation; none where they were not asked for."""
    if not request.surface:
        return []
    others = [*CORNERS[1:], *(name for name in request.methods if name == f"{STRUCTURED}-no-both")]
    wanted = [("surface", CORNERS[0]), *(("path", name) for name in others)]
    return [
        FairShard(kind, name, request.surface_sparsity, request.strength) for kind, name in wanted
    ]
