"""The paper's settings as far as it states them (BiFP, Section 5), and sizes for two CPU cores.

Stated: the models, data, targets and the sensitive attribute, the Lottery Ticket's sparsities, a
trade-off at 70 %. Stated too: models are fitted on the training images, cut and tuned on the
validation images and tested on the test images. Not stated, so chosen here: image size, learning
rates, batches, how long, λ.
"""

from __future__ import annotations

from typing import Any

from engine.tracks.fair_training.request import FairRequest, sparsity_at

MODELS = ("resnet10", "mobilenet_v2")
TARGETS = {"celeba": ("Blond_Hair", "Bags_Under_Eyes"), "lfw": ("Wavy Hair", "Big Nose")}
"""The paper's targets by data set; the sensitive attribute is the column Male of both."""
STEPS = (1, 3, 5, 8, 10)


def _paper(model: str, target: str) -> dict[str, Any]:
    return {
        "model": model,
        "target": target,
        "axes": ("Male",),
        "sparsities": tuple(map(sparsity_at, STEPS)),
        "tune_on": "validation",
        "train": {"epochs": 20, "rate": 1e-3, "batch": 128},
        "iterations": 4000,
        "check_every": 40,
        "tradeoff_sparsity": 0.7,
        "tradeoff_strengths": (0.25, 0.5, 1.0, 2.0, 4.0),
    }


PAPER: dict[tuple[str, str, str], dict[str, Any]] = {
    (data, target, model): _paper(model, target)
    for data, targets in TARGETS.items()
    for target in targets
    for model in MODELS
}
"""Fields of a FairRequest by data set, target and model; its data is where they lie."""


def small_request(model: str, data: str, **more: Any) -> dict[str, Any]:
    """Fields of a FairRequest that two CPU cores finish in minutes."""
    return {
        "model": model,
        "data": data,
        "target": "blond",
        "axes": ("male",),
        "methods": ("bifp-str", "pf", "fpgm", "dense-tuned"),
        "sparsities": (sparsity_at(5),),
        "iterations": 200,
        "check_every": 20,
        "seeds": 3,
        **more,
    }


# The fair training that the project ships; computing it again takes two hours on two cores.


REQUEST = FairRequest(
    model="demo-resnet",
    data="avatars-gap",
    axes=("male", "skin"),
    target="blond",
    max_images=5000,
    methods=(
        "bifp-str",
        "bifp-widths-random",
        "bifp-widths-fpgm",
        "bifp-uns",
        "bifp-str-no-w",
        "bifp-str-no-m",
        "bifp-str-no-both",
        "fpgm",
        "snip",
        "lottery",
        "pf",
        "pf-late",
        "pf-snip",
        "pf-random",
        "fp",
        "dense-tuned",
        "dense-fair",
    ),
    method_settings={"lottery": {"round": 0.5}},
    sparsities=tuple(map(sparsity_at, (3, 5, 8))),
    iterations=240,
    check_every=12,
    seeds=3,
    tradeoff_strengths=(0.25, 1.0, 4.0),
    tradeoff_methods=("bifp-str", "pf"),
    surface=True,
    within=0.05,
    keep_methods=("bifp-str", "bifp-uns", "fpgm", "pf"),
    title="Demo: sparse and fair in one training, or one after the other",
)

REQUESTS = (REQUEST,)
