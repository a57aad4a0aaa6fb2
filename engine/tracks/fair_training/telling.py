"""The plain words in which an audit of fair training is told."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from engine.core import words
from engine.report import phrasing
from engine.report.charts.panel import Choice
from engine.report.classifier_telling import CHANCE, better, groups, harm, worse
from engine.report.classifier_telling import more as of_any
from engine.report.contract import Telling
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.panels.lookup import WEIGHTS, fair_axis

DRAWN = {"male": "ways of drawing invented faces", "skin": "skin tones of invented faces"}
INVENTED = {"avatars": DRAWN, "avatars-gap": DRAWN}
"""Axes of the faces that the project draws itself."""


def does(run: Run, variant: Mapping[str, Any]) -> str:
    if not variant["n_cut"]:
        return f"Training on without a cut ({words.method_name(variant['method'])})"
    return f"Training while cutting {track_of(run).cut_of(run, variant)}"


def more(run: Run, choice: Choice, variant: Mapping[str, Any]) -> str:
    """That zeros save nothing, and that another axis was trained for."""
    found = [own.NOT_FASTER] if variant.get("units") == WEIGHTS and variant["n_cut"] else []
    if choice.measured != fair_axis(run) and variant["variant"] != "dense":
        found.append(f"Training was asked to be fair by {words.axis_name(fair_axis(run))} only.")
    return " ".join(filter(None, (of_any(run, choice, variant), *map(phrasing.sentence, found))))


TELLING = Telling(does, partial(groups, invented=INVENTED), harm, worse, better, CHANCE, more=more)
