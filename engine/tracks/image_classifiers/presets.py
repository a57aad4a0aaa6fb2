"""The paper's hyper-parameters (Meyer and Wong 2023, appendix A and Tables 1-4), and sizes for two
CPU cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.classifiers.metrics import OVO, OVR
from engine.tracks.image_classifiers.request import ImageRequest
from engine.training.recipe import ADDED, IMAGE, MIXED, VIEW


@dataclass(frozen=True)
class Preset:
    """One model on one data set. autobot, taylor: settings (PW loss, Tables 1 and 2). pw: theta and
    gamma per method (Table 3). retrain (Table 4) and train: recipes, of CelebA with the parameters
    of the lowest validation loss of all epochs (a patience as long as the training). speedups: the
    targets of its figure."""

    autobot: dict[str, Any]
    taylor: dict[str, Any]
    pw: dict[str, dict[str, float]]
    retrain: dict[str, Any]
    train: dict[str, Any]
    speedups: tuple[float, ...]
    start: str | None = "imagenet"
    """Weights that training starts from (appendix A); None: from scratch."""
    published_size: int = 224
    """Side of the images in the published code, in pixels; the paper names none, and ours is the
    model's own. Of CelebA it reads all 218 x 178 pixels as they are, of which our square images
    hold the middle 178."""

    def request(self) -> dict[str, Any]:
        """The fields of an ImageRequest that it sets."""
        settings = {"autobot": self.autobot, "taylor": self.taylor}
        return {
            "method_settings": settings,
            "pw": self.pw,
            "retrain": self.retrain,
            "speedups": self.speedups,
        }


def _autobot(rate: float, batch: int, iterations: int, beta: float) -> dict[str, Any]:
    return {"rate": rate, "batch": batch, "iterations": iterations, "beta": beta}


def _taylor(rate: float, batch: int, every: int, count: int) -> dict[str, Any]:
    return {"rate": rate, "batch": batch, "every": every, "count": count}


def _pw(autobot: tuple[float, float], taylor: tuple[float, float]) -> dict[str, dict[str, float]]:
    named = {
        "autobot": autobot,
        "taylor": taylor,
        "random": autobot,
        "magnitude": autobot,
        "fpgm": autobot,
    }
    return {name: {"theta": theta, "gamma": gamma} for name, (theta, gamma) in named.items()}


PUBLISHED_SQUARES = {"pixels": 4, "tested": "all", "redrawn": True}
"""The artefact of the published code: 4 pixels, a new place each time, in the whole test set."""
PUBLISHED_TAYLOR = {"momentum": 0.0, "reading": "cut"}
"""Taylor as in the published code: plain SGD, importance of the last batch before a cut alone.
There that batch is read again after its update, in evaluation mode; here it is read while it
trains."""
PROTOCOLS: dict[str, dict[str, Any]] = {
    "paper": {"weighting": ADDED, "corrected": IMAGE, "multi_class": OVO},
    "published": {"weighting": MIXED, "corrected": VIEW, "multi_class": OVR, "mirror": False},
}
"""Fields of an ImageRequest where the paper and its published code differ; `published`: as the code
does it."""
MIRRORED = ("cifar10",)
"""Data sets whose images the published code mirrors; no others."""


def with_protocol(fields: dict[str, Any], protocol: str, dataset: str) -> dict[str, Any]:
    """The fields of a request under a protocol: its switches, and the squares of a change that
    draws some."""
    own = {
        name: value
        for name, value in PROTOCOLS[protocol].items()
        if name != "mirror" or dataset not in MIRRORED
    }
    squares = PUBLISHED_SQUARES if protocol == "published" else {}
    changes = [
        {**change, **(squares if change["name"] == "artefact" else {})}
        for change in fields.get("changes", ())
    ]
    return {**fields, **own, **({"changes": tuple(changes)} if changes else {})}


CELEBA = (16.0, 32.0, 64.0, 128.0, 256.0)
FITZPATRICK = (2.0, 4.0, 8.0, 16.0, 32.0)
CIFAR = (1.33, 2.0, 4.0, 8.0, 16.0)

PAPER: dict[tuple[str, str], Preset] = {
    ("celeba", "resnet18"): Preset(
        _autobot(0.85, 64, 200, 2.7),
        _taylor(0.01, 64, 5, 1),
        _pw((0.3, 1.0), (0.8, 0.5)),
        {"rate": 1e-4, "batch": 256, "epochs": 30},
        {
            "rate": 1e-4,
            "batch": 256,
            "epochs": 20,
            "body_share": 0.01,
            "frozen_epochs": 5,
            "patience": 20,
        },
        CELEBA,
        published_size=178,
    ),
    ("celeba", "vgg16"): Preset(
        _autobot(1.81, 64, 250, 3.07),
        _taylor(0.01, 64, 5, 1),
        _pw((0.75, 3.0), (0.9, 5.0)),
        {"rate": 5e-4, "batch": 64, "epochs": 10},
        {"rate": 5e-4, "batch": 64, "epochs": 10, "body_share": 0.01, "patience": 10},
        CELEBA,
        published_size=178,
    ),
    ("fitzpatrick17k", "resnet34"): Preset(
        _autobot(1.5, 32, 400, 0.5),
        _taylor(0.01, 32, 5, 1),
        _pw((0.8, 2.5), (0.95, 3.0)),
        {"rate": 1e-4, "batch": 64, "epochs": 30},
        {"rate": 1e-3, "batch": 64, "epochs": 30, "body_share": 0.001, "frozen_epochs": 5},
        FITZPATRICK,
    ),
    ("fitzpatrick17k", "efficientnet_v2_m"): Preset(
        _autobot(1.5, 16, 600, 6.76),
        _taylor(0.01, 16, 4, 8),
        _pw((0.8, 2.0), (0.95, 3.0)),
        {"rate": 1e-5, "batch": 32, "epochs": 50},
        {"rate": 1e-3, "batch": 32, "epochs": 30, "body_share": 0.01, "frozen_epochs": 5},
        FITZPATRICK,
    ),
    ("cifar10", "resnet56"): Preset(
        _autobot(0.7, 128, 200, 5.3),
        _taylor(0.01, 128, 5, 1),
        _pw((0.5, 1.0), (0.5, 1.0)),
        {"rate": 1e-3, "batch": 256, "epochs": 200},
        {
            "rate": 0.1,
            "batch": 256,
            "epochs": 200,
            "body_share": 0.1,
            "schedule": "steps",
            "steps": [100, 150, 175],
        },
        CIFAR,
        start=None,
        published_size=32,
    ),
    ("cifar10", "efficientnet_v2_s"): Preset(
        _autobot(1.88, 64, 200, 2.0),
        _taylor(0.01, 64, 5, 8),
        _pw((0.7, 0.5), (0.7, 0.5)),
        {"rate": 1e-5, "batch": 128, "epochs": 10},
        {"rate": 1e-3, "batch": 128, "epochs": 10, "body_share": 0.01, "frozen_epochs": 5},
        CIFAR,
    ),
}
"""The paper's presets by data set and model."""


# The audit of filters that the project ships; computing it again takes half an hour.


REQUEST = ImageRequest(
    model="demo-resnet",
    data="avatars",
    axes=("male", "skin"),
    target="blond",
    methods=("autobot", "autobot+pw", "taylor", "taylor+pw", "random", "random+pw"),
    speedups=(4.0, 16.0, 48.0),
    trials=3,
    pw=PAPER["celeba", "resnet18"].pw,
    method_settings={
        "autobot": {"rate": 0.85, "beta": 2.7, "iterations": 200, "batch": 64},
        "taylor": {"rate": 0.01, "every": 5, "count": 3, "batch": 64},
    },
    retrain={"rate": 2e-3, "batch": 128, "epochs": 6},
    title="Demo: who pays when filters are cut",
)

REQUESTS = (REQUEST,)
