"""The part of image classifiers in `evaluate`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from engine.audit.command_line import names_in
from engine.classifiers.audit import Evaluation

ITEMS = "images"


def options(add: Callable[..., Any]) -> None:
    add("--weights", metavar="FILE", help="state dict, where the model is an architecture")
    add("--size", type=int, metavar="PIXELS", help="side of the images (default: the model's)")


def claims(args: argparse.Namespace) -> bool:
    """Image classifiers take what can only be one, and what is no model of texts."""
    from engine.models.load_image_classifier import is_classifier_name
    from engine.models.load_text_classifier import is_text_model
    from engine.surgery.filters.replay import is_cut_folder

    is_image = (
        args.weights is not None or is_classifier_name(args.model) or is_cut_folder(args.model)
    )
    return is_image or not is_text_model(args.model)


def evaluated(args: argparse.Namespace) -> Evaluation:
    from engine.tracks.image_classifiers.summary import evaluate

    axes = tuple(args.axis or ())
    return evaluate(
        args.model,
        args.weights,
        args.data or "avatars",
        args.target,
        axes,
        args.split,
        args.most,
        args.device,
        names_in(args.classes),
        args.size,
    )
