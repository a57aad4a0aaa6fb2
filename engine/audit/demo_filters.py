"""Compute the embedded audit of filters again: `python -m engine.audit.demo_filters [STORE]`. Some half an hour."""

from __future__ import annotations

import sys

from engine.audit.demo import embed
from engine.audit.image_presets import PAPER
from engine.audit.image_request import ImageRequest

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


if __name__ == "__main__":
    embed(REQUEST, sys.argv[1:])
