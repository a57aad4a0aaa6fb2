"""How a model is fitted, and where an unfinished fit is kept. No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Protocol

from engine.core.errors import Fault, RequestError, unknown
from engine.core.types import Setting, Values

ASKED = ("epochs", "rate", "batch")
"""What forms ask; the command line takes all."""
SCHEDULES = ("constant", "cosine", "linear", "steps")
LATER = ("optimizer", "patience")
"""Fields that were not there from the start."""
OPTIMIZERS = ("adamw", "sgd")
"""sgd: plain, without momentum."""


@dataclass(frozen=True)
class Recipe:
    """How a model is fitted. Published retraining: AdamW with cosine annealing (Meyer and Wong
    2023, Table 4).

    rate is the learning rate of the last layer; all others use rate * body_share. Their weights
    stay as they are for the first frozen_epochs (batch norm's statistics move on). steps: epochs at
    which the rate falls to a tenth (schedule "steps"). patience: after so many epochs without a
    lower loss on validation images it stops, and the weights of the lowest come back; 0: off. As
    long as the epochs: it never stops, and only takes the best.
    """

    epochs: int = 5
    rate: float = 1e-3
    batch: int = 128
    schedule: str = "cosine"
    body_share: float = 1.0
    frozen_epochs: int = 0
    steps: tuple[int, ...] = ()
    weight_decay: float = 0.01
    mirror: bool = True
    optimizer: str = "adamw"
    patience: int = 0

    def to_dict(self) -> dict[str, Any]:
        """JSON-able. What came LATER is left out where it is not used, so that what was computed
        before is found."""
        plain = {**asdict(self), "steps": list(self.steps)}
        unused = {
            item.name
            for item in fields(self)
            if item.name in LATER and plain[item.name] == item.default
        }
        return {name: value for name, value in plain.items() if name not in unused}

    @classmethod
    def known(cls) -> list[str]:
        """Names of all fields of a recipe."""
        return [item.name for item in fields(cls)]

    def faults(self, where: str) -> list[Fault]:
        """Values that cannot be."""
        found = [
            Fault(
                f"{where} {one.name}",
                f"{value!r} is not allowed.",
                f"Give {one.allowed()}{WHY.get(one.name, '')}.",
            )
            for one in SETTINGS
            if not one.allows(value := getattr(self, one.name))
        ]
        epoch = Setting("steps", "integer", 0, "", 0)
        if not isinstance(self.steps, list | tuple) or not all(map(epoch.allows, self.steps)):
            what, fix = f"{self.steps!r} is not allowed.", "Give a list of epochs, as [100, 150]."
            found.append(Fault(f"{where} steps", what, fix))
        return found


def rate_left(schedule: str, done: float, of: float = 1.0) -> float:
    """Share of a learning rate that is left at `done` of `of`: a falling cosine, a line to zero, or
    all of it under any other schedule."""
    if schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * done / of))
    return 1 - done / of if schedule == "linear" else 1.0


STOPS = "Epochs without a lower validation loss until it stops (0: never)"
SETTINGS = (
    Setting("epochs", "integer", None, "", 0, label="Epochs"),
    Setting("rate", "number", None, "", above=0.0, label="Learning rate"),
    Setting("batch", "integer", None, "", 2, label="{} per batch"),
    Setting("schedule", "choice", None, "", choices=SCHEDULES),
    Setting("body_share", "number", None, "", 0.0, 1.0),
    Setting("optimizer", "choice", None, "", choices=OPTIMIZERS),
    Setting("frozen_epochs", "integer", None, "", 0),
    Setting("patience", "integer", None, "", 0, label=STOPS),
    Setting("weight_decay", "number", None, "", 0.0),
    Setting("mirror", "flag", None, ""),
)
"""What the fields of a recipe may be, but for `steps`."""
WHY = {
    "batch": ": batch norm cannot train on one alone",
    "epochs": ", 0 for none",
    "frozen_epochs": ", 0 for none",
    "patience": ", 0 for never",
}
"""What a fault says behind that."""


def recipe_settings(usual: Values, item: str, names: Sequence[str] = ASKED) -> tuple[Setting, ...]:
    """What a form asks of a recipe, with the values that are `usual` where nobody says; trained on
    `item`s."""
    every, known = {**asdict(Recipe()), **usual}, {one.name: one for one in SETTINGS}
    return tuple(
        replace(known[name], default=every[name], label=known[name].label.format(item))
        for name in names
    )


class Keep(Protocol):
    """Where the state of an unfinished fit is kept."""

    def load(self) -> dict[str, Any] | None: ...
    def save(self, state: Values) -> None: ...
    def clear(self) -> None: ...


class Nowhere:
    """A `Keep` that keeps nothing: an interrupted fit starts again from the first epoch."""

    def load(self) -> dict[str, Any] | None:
        return None

    def save(self, state: Values) -> None:
        return None

    def clear(self) -> None:
        return None


# Which parts of the performance-weighted loss act in pruning and which in retraining. No torch.


PARTS = ("pw", "weights", "labels")
PLACES = ("both", "prune", "retrain")
PLAIN = "plain"
THETA, GAMMA = 0.5, 1.0
"""Usual θ and γ of the weights."""
ADDED, MIXED = "added", "mixed"
WEIGHTINGS = (ADDED, MIXED)
"""added: θ + (1 − ŷ)^γ, as the paper prints it; mixed: θ + (1 − θ)(1 − ŷ)^γ, as the published code
computes it."""
IMAGE, VIEW = "image", "view"
CORRECTIONS = (IMAGE, VIEW)
"""What the original model is asked about for corrected labels: every image once, or as it is shown,
mirrored or not."""


@dataclass(frozen=True)
class LossPlan:
    """What of the PW loss is used where. Written "plain", "pw" (all of it, everywhere) or
    "weights@prune" and the like.

    theta in [0, 1] is the least weight, gamma >= 0 its shape (Meyer and Wong 2023, Eq. 1),
    weighting how they make a weight. The switches are the ablation of that paper's Fig. 8.
    """

    weights_in_pruning: bool = False
    labels_in_pruning: bool = False
    weights_in_retraining: bool = False
    labels_in_retraining: bool = False
    theta: float = THETA
    gamma: float = GAMMA
    weighting: str = ADDED

    @classmethod
    def parse(
        cls, text: str, theta: float = THETA, gamma: float = GAMMA, weighting: str = ADDED
    ) -> LossPlan:
        """From its written form; RequestError for one that is not known."""
        part, _, place = text.partition("@")
        place = place or "both"
        if text == PLAIN:
            return cls(theta=theta, gamma=gamma, weighting=weighting)
        if part not in PARTS or place not in PLACES or text.endswith("@"):
            raise RequestError(unknown("loss", text, known_losses()))
        weights, labels = part in ("pw", "weights"), part in ("pw", "labels")
        prune, retrain = place in ("both", "prune"), place in ("both", "retrain")
        switches = weights and prune, labels and prune, weights and retrain, labels and retrain
        return cls(*switches, theta, gamma, weighting)

    def faults(self) -> list[Fault]:
        """Numbers out of range."""
        found = []
        if not 0.0 <= self.theta <= 1.0:
            what = f"{self.theta} is outside [0, 1]."
            found.append(Fault("theta", what, "Give the least weight of an image."))
        if not 0.0 <= self.gamma < math.inf:
            what = f"{self.gamma} is negative or infinite."
            found.append(Fault("gamma of the PW loss", what, "Give 0 or more."))
        return found


def known_losses() -> list[str]:
    """Every written form; a part without a place acts in both."""
    return [PLAIN, *PARTS, *(f"{part}@{place}" for part in PARTS for place in PLACES[1:])]


def loss_while_pruning(loss: str, looks_at_images: bool) -> str:
    """The part of a loss that can matter to which filters are cut: two arms that share it share
    their masks."""
    part, _, place = loss.partition("@")
    if loss == PLAIN or place == "retrain" or not looks_at_images:
        return PLAIN
    return f"{part}@prune"
