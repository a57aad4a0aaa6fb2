"""The fair training that the project ships; computing it again takes two hours on two cores."""

from __future__ import annotations

from engine.tracks.fair_training.presets import sparsity_at
from engine.tracks.fair_training.request import FairRequest

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
