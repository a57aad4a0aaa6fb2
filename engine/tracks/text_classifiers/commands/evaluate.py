"""The part of text classifiers in `evaluate`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from engine.audit.command_line import absolute, names_in
from engine.classifiers.audit import Evaluation

ITEMS = "texts"


def options(add: Callable[..., Any]) -> None:
    add("--text", metavar="COLUMN", help="of a CSV of texts: the text")
    add("--text-b", metavar="COLUMN", help="of a CSV of texts: the second text of pairs")
    add(
        "--max-length",
        type=int,
        metavar="TOKENS",
        help="how much of a text is read (default: what the model says)",
    )


def claims(args: argparse.Namespace) -> bool:
    """Whether the model is one of texts."""
    from engine.models.load_text_classifier import is_text_model

    return is_text_model(args.model)


def evaluated(args: argparse.Namespace) -> Evaluation:
    from engine.data.texts.load import TextAsk
    from engine.tracks.text_classifiers.summary import evaluate_text

    ask = TextAsk(text=args.text, text_b=args.text_b, target=args.target, max_texts=args.most)
    axes, data = tuple(args.axis or ()), absolute(args.data or "remarks")
    return evaluate_text(
        args.model,
        data,
        ask,
        axes,
        args.split,
        args.max_length,
        args.device,
        names_in(args.classes),
    )
