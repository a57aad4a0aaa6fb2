"""What is asked of an audit of an image classifier, and whether it can be asked: every fault at
once."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.audit.command_line import pairs_of
from engine.audit.fields import HOW, Offer, Values, asked, is_number
from engine.audit.request import MORE, spelled, versions_of
from engine.classifiers.groups import MULTI_CLASS, OVO, OVR
from engine.classifiers.images.context import ImageSettings, ImageShard
from engine.classifiers.images.request import (
    IMAGE_RECIPE,
    TRAINING,
    ImagePlan,
    ImagesRequest,
    recipe_faults,
    recipe_of,
    validated,
)
from engine.classifiers.tables import Repeats
from engine.core.errors import Fault, unknown
from engine.core.types import Setting
from engine.core.words import method_definition, method_name
from engine.tracks.image_classifiers.methods import filter_method, filter_methods
from engine.tracks.image_classifiers.words import arm_of
from engine.training.recipe import (
    ADDED,
    CORRECTIONS,
    GAMMA,
    IMAGE,
    MIXED,
    THETA,
    VIEW,
    WEIGHTINGS,
    known_losses,
    recipe_settings,
)

if TYPE_CHECKING:
    from engine.models.load_image_classifier import Classifier
    from engine.surgery.filters.graph import FilterGraph

CODE = 5
"""Version of the audit itself. Raise when a finished run would come out differently for the same
request."""
PW = (
    Setting("theta", "number", THETA, "", 0.0, 1.0, label="θ, least weight"),
    Setting("gamma", "number", GAMMA, "", 0.0, 1000.0, label="γ, shape of weights"),
)
WEIGHTING_NAMES = {
    ADDED: "θ + (1 − ŷ)^γ, as in the paper",
    MIXED: "θ + (1 − θ)(1 − ŷ)^γ, as in its published code",
}
CORRECTION_NAMES = {
    IMAGE: "Each image, once, as in the paper",
    VIEW: "Each view, mirrored or not, as in its code",
}
MULTI_CLASS_NAMES = {
    OVO: "Each pair of classes (one-vs-one), as in the paper",
    OVR: "Each class against the rest (one-vs-rest), as in its published code",
}
CHOOSING = "How filters are chosen, and the PW loss"


def _offered_arms(_: Values) -> Offer:
    arms = [arm for name in sorted(filter_methods()) for arm in (name, f"{name}+pw")]
    return Offer(arms, ImageRequest.methods)


def _arm_faults(methods: Sequence[str], _: Values) -> list[Fault]:
    arms = [arm_of(name) for name in methods]
    faults = [
        unknown("method", method, filter_methods())
        for method, _ in arms
        if method not in filter_methods()
    ]
    faults += [
        unknown("loss", loss, known_losses()) for _, loss in arms if loss not in known_losses()
    ]
    if len(set(arms)) < len(set(methods)):  # "random" is "random+plain"
        faults.append(Fault("method", "one is named twice.", "Name each once."))
    return faults


def _alike_faults(speedups: Sequence[float], _: Values) -> list[Fault]:
    """Speedups that could not be told apart in the name of a variant."""
    numbers = [value for value in speedups if is_number(value)]
    alike = len({f"{value:g}" for value in numbers}) < len(numbers)
    return (
        [Fault("speedup", "two of them are one to six digits.", "Leave one out.")] if alike else []
    )


def _pw_of(where: str, words: Sequence[str], faults: list[Fault]) -> dict[str, Values]:
    """["autobot:theta=0.3,gamma=2"] -> {"autobot": {"theta": 0.3, "gamma": 2}}."""
    parts = [text.partition(":") for text in words]
    return {method: pairs_of(where, rest.split(","), faults) for method, _, rest in parts}


@dataclass(frozen=True)
class ImageRequest(ImagesRequest):
    """An audit of an image classifier as it is asked for.

    methods: arms such as "autobot" or "taylor+pw". speedups: target ratios of FLOPs, dense over
    cut. pw: theta and gamma per method. weighting, corrected, multi_class: where paper and
    published code differ. keep_weights: of which trials the cut model is kept: first, all or none.
    """

    methods: tuple[str, ...] = asked(
        ("autobot", "autobot+pw", "taylor", "taylor+pw", "random"),
        option="--method",
        metavar="METHOD",
        help="may be given several times; +pw adds the PW loss",
        where="method",
        check=_arm_faults,
        section=HOW,
        label="Methods",
        offered=_offered_arms,
        named=method_name,
        counted=("method", "methods"),
    )
    method_settings: dict[str, dict[str, Any]] = asked(
        {},
        option="--set",
        metavar="METHOD.NAME=VALUE",
        where="setting",
        section=CHOOSING,
        help="a setting of a method, such as autobot.iterations=100",
        named=method_name,
        about=method_definition,
        of=lambda values: {name: method.settings for name, method in filter_methods().items()},
        chosen=lambda values: dict.fromkeys(arm_of(arm)[0] for arm in values["methods"]),
    )
    pw: dict[str, dict[str, float]] = asked(
        {},
        kind="settings per method",
        metavar="METHOD:theta=T,gamma=G",
        where="PW loss",
        read=_pw_of,
        help="the PW loss of one method",
        section=CHOOSING,
        named=lambda name: f"{method_name(name)}: PW loss",
        of=lambda values: dict.fromkeys(filter_methods(), PW),
        chosen=lambda values: [
            arm_of(arm)[0] for arm in values["methods"] if arm_of(arm)[1] == "pw"
        ],
    )
    weighting: str = asked(
        ADDED,
        choices=WEIGHTINGS,
        section=CHOOSING,
        label="Weight of the PW loss",
        help="added: θ + (1 − ŷ)^γ, the paper; mixed: θ + (1 − θ)(1 − ŷ)^γ, its code",
        named=WEIGHTING_NAMES.get,
    )
    corrected: str = asked(
        IMAGE,
        choices=CORRECTIONS,
        section=CHOOSING,
        label="Corrected labels are of",
        help="image: each image once, the paper; view: as it is shown, mirrored or not, its code",
        named=CORRECTION_NAMES.get,
    )
    speedups: tuple[float, ...] = asked(
        (2.0, 4.0),
        option="--speedup",
        metavar="LIST",
        above=1.0,
        where="speedup",
        example="2,4,16",
        help="target speedups (FLOPs dense over cut)",
        check=_alike_faults,
        section=HOW,
        label="Target speedups",
        unit="FLOPs before over after",
        quick=(4.0,),
        counted=("speedup", "speedups"),
    )
    trials: int = asked(
        3,
        minimum=1,
        help="prunings and retrainings of each variant",
        section=HOW,
        quick=1,
        counted=("trial", "trials"),
        label="Trials",
        hint="Prunings and retrainings of each variant, with other seeds.",
    )
    retrain: dict[str, Any] = asked(
        {},
        kind="pairs",
        metavar="NAME=VALUE",
        help="epochs, rate, batch, patience, … of retraining",
        section=TRAINING,
        check=recipe_faults("retrain"),
        label="Retraining after the cut",
        of=lambda values: recipe_settings({}, "Images", IMAGE_RECIPE),
    )
    multi_class: str = asked(
        OVO,
        choices=tuple(MULTI_CLASS),
        section=MORE,
        later=True,
        named=MULTI_CLASS_NAMES.get,
        label="AUC of more than two classes",
        help="ovo: each pair of classes, the paper; ovr: each class against the rest, its code",
    )
    loss_share: int = asked(
        0, minimum=0, metavar="BATCHES", help="record shares of the pruning loss"
    )

    track = "image_classifiers"

    @property
    def arms(self) -> list[tuple[str, str]]:
        """(method, loss) of each arm: "autobot" is ("autobot", "plain"), "autobot+pw" ("autobot",
        "pw")."""
        return [arm_of(name) for name in self.methods]

    @property
    def recipes(self) -> dict[str, Any]:
        return {**super().recipes, "retrain": self.retrain}

    def settings(self) -> ImageSettings:
        """What the context needs to know of it."""
        return ImageSettings(
            speedups=self.speedups,
            first_seed=self.first_seed,
            methods=self.method_settings,
            pw={
                name: (one.get("theta", THETA), one.get("gamma", GAMMA))
                for name, one in self.pw.items()
            },
            retrain=recipe_of(self.retrain),
            train=None if self.train is None else recipe_of(self.train),
            weighting=self.weighting,
            corrected=self.corrected,
        )


@dataclass(frozen=True)
class FilterPlan(ImagePlan):
    """A request that holds up: its images listed, its model inspected but not loaded."""

    request: ImageRequest

    @property
    def versions(self) -> dict[str, int]:
        from engine.tracks.image_classifiers.measurements import image_measurements

        methods = {name: filter_methods()[name] for name, _ in self.request.arms}
        own = {name: one for name, one in image_measurements().items() if not one.later}
        return versions_of(CODE, measurement=own, method=methods)

    def spelled_out(self) -> Values:
        """The request with every default it relies on written out, JSON-able."""
        request = self.request
        names = dict.fromkeys(name for name, _ in request.arms)
        weighted = dict.fromkeys(name for name, loss in request.arms if loss != "plain")
        return {
            **super().spelled_out(),
            "method_settings": {
                name: spelled(
                    filter_methods()[name].settings, request.method_settings.get(name, {})
                )
                for name in names
            },
            "pw": {name: spelled(PW, request.pw.get(name, {})) for name in weighted},
            "retrain": recipe_of(request.retrain).to_dict(),
        }


def validate_images(request: ImageRequest) -> FilterPlan:
    """As of `validated`."""
    return FilterPlan(*validated(request, _unreachable))


def _unreachable(request: ImageRequest, model: Classifier, graph: FilterGraph) -> list[Fault]:
    """Speedups that no cut can reach: one filter per layer stays."""
    most = graph.flops() / graph.least_flops
    return [
        Fault(
            "speedup",
            f"{speedup:g}× is out of reach: with one filter per layer {model.name} is {most:.4g}×"
            " faster.",
            f"Ask for less than {most:.4g}.",
        )
        for speedup in request.speedups
        if speedup > most
    ]


def claims(args: argparse.Namespace) -> bool:
    """Whether the words ask for an audit of an image classifier: they name images, or an image
    model."""
    if any(getattr(args, name, None) is not None for name in ("data", "speedup", "weights")):
        return True
    from engine.models.load_image_classifier import is_classifier_name

    return args.model is not None and is_classifier_name(args.model)


# The arms of an image audit: a method with a loss, at every target speedup, in several trials.


@dataclass(frozen=True)
class Arm(Repeats):
    """One method with one loss at one speedup. `name` is how the request writes the first two, e.g.
    "autobot+pw"."""

    name: str
    method: str
    loss: str
    speedup: float
    n_trials: int

    @property
    def pooled(self) -> str:
        return f"{self.name}-{self.speedup:g}x"

    def shards(self, kind: str = "trial") -> list[ImageShard]:
        """One per trial."""
        return [
            ImageShard(kind, self.method, self.loss, self.speedup, trial)
            for trial in range(self.n_trials)
        ]

    @property
    def cost(self) -> ImageShard:
        """The cost is measured on the first trial."""
        return self.shards("cost")[0]


def arms_of(request: ImageRequest) -> list[Arm]:
    """The arms in the order they were asked for."""
    return [
        Arm(name, *arm_of(name), speedup, request.trials)
        for name in request.methods
        for speedup in request.speedups
    ]


def loss_shares(request: ImageRequest) -> dict[Arm, list[ImageShard]]:
    """Where the shares of the loss are measured: aimed at the first speedup, for methods that read
    images to choose filters."""
    if not request.loss_share:
        return {}
    return {
        arm: arm.shards("loss_share")
        for arm in arms_of(request)
        if arm.speedup == request.speedups[0] and filter_method(arm.method).looks_at_images
    }
