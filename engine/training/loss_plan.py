"""Which parts of the performance-weighted loss act in pruning and which in retraining. No torch."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.errors import Fault, RequestError, unknown

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
            found.append(
                Fault(
                    "theta",
                    f"{self.theta} is outside [0, 1].",
                    "Give the least weight of an image.",
                )
            )
        if not 0.0 <= self.gamma < float("inf"):
            found.append(
                Fault(
                    "gamma of the PW loss",
                    f"{self.gamma} is negative or infinite.",
                    "Give 0 or more.",
                )
            )
        return found


def known_losses() -> list[str]:
    """Every written form; a part without a place acts in both."""
    return [
        PLAIN,
        *PARTS,
        *(f"{part}@{place}" for part in PARTS for place in PLACES if place != "both"),
    ]


def loss_while_pruning(loss: str, looks_at_images: bool) -> str:
    """The part of a loss that can matter to which filters are cut: two arms that share it share
    their masks."""
    part, _, place = loss.partition("@")
    if loss == PLAIN or place == "retrain" or not looks_at_images:
        return PLAIN
    return f"{part}@prune"
