"""The plain words in which an audit of an image classifier is told."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from engine.report.classifier_telling import CHANCE, better, groups, harm, more, worse
from engine.report.contract import Telling
from engine.store.runs import Run
from engine.tracks.image_classifiers.unit_words import units_of

DRAWN = {"male": "ways of drawing invented faces", "skin": "skin tones of invented faces"}
INVENTED = {"avatars": DRAWN, "avatars-gap": DRAWN}
"""Axes of the faces that the project draws itself."""


def does(run: Run, variant: Mapping[str, Any]) -> str:
    return (
        f"Cutting {variant['n_cut']:.0f} of {int(run.meta['model']['n_filters'])} {units_of(run)}"
    )


TELLING = Telling(does, partial(groups, invented=INVENTED), harm, worse, better, CHANCE, more=more)
