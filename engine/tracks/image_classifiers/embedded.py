"""The audit of filters that the project ships; computing it again takes half an hour."""

from __future__ import annotations

from engine.tracks.image_classifiers.presets import PAPER
from engine.tracks.image_classifiers.request import ImageRequest

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
