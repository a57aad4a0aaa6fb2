"""The classes that a change of the images is about, and their mean AUC (Meyer and Wong 2023, Fig.
7)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from engine.classifiers.groups import Arm
from engine.classifiers.images.request import CLASS_AXIS
from engine.data.images.changes.artefact import Artefact
from engine.data.images.changes.base import CAT_AND_DOG, named_classes
from engine.data.images.changes.underrepresent import Underrepresent
from engine.data.images.load import ImageSet
from engine.stats.multi_reader import Trials, difference, level
from engine.tracks.image_classifiers.request import ImageRequest

ABOUT = {Underrepresent.name: ("classes", CAT_AND_DOG), Artefact.name: ("cls", CAT_AND_DOG[1:])}
"""By change: the setting that names classes, and the places of those it means where none is named.
"""


def affected_classes(request: ImageRequest, images: ImageSet) -> tuple[str, ...]:
    """Classes that the changes of a request are about, each once."""
    found: list[str] = []
    for change in request.changes:
        if change["name"] in ABOUT:
            setting, places = ABOUT[change["name"]]
            found += named_classes(change["name"], images, change.get(setting, ""), places)
    return tuple(dict.fromkeys(found))


def affected_table(classes: tuple[str, ...], arms: Mapping[str, Arm]) -> pd.DataFrame:
    """Mean of the affected classes' AUC, each against the rest: a row per variant, with the change
    against the dense.

    arms: by the id of the variant, "dense" among them. Empty where classes are no axis of the
    audit.
    """
    dense, rows = _mean(arms["dense"], classes), []
    for name, arm in arms.items():
        mine = _mean(arm, classes)
        if mine is None or dense is None:
            continue
        shown = level(mine)
        row = {
            "variant": name,
            "classes": ", ".join(classes),
            "value": shown.value[0],
            "low": shown.low[0],
            "high": shown.high[0],
            "n_trials": len(mine.numbers),
        }
        change = difference(mine, dense) if name != "dense" else None
        ends = (
            [np.nan] * 4
            if change is None
            else [change.value[0], change.low[0], change.high[0], change.p[0]]
        )
        rows.append(
            {**row, **dict(zip(("delta", "delta_low", "delta_high", "delta_p"), ends, strict=True))}
        )
    return pd.DataFrame(rows)


def _mean(arm: Arm, classes: tuple[str, ...]) -> Trials | None:
    """The mean AUC of the classes as one cell; None where they were not measured."""
    cells = arm.measure.cells
    mine = (cells["axis"] == CLASS_AXIS) & (cells["metric"] == "auc") & cells["group"].isin(classes)
    places = cells.index[mine]
    if not len(places):
        return None
    trials = arm.trials
    return Trials(
        trials.numbers,
        trials.values[:, places].mean(axis=1, keepdims=True),
        trials.draws[..., places].mean(axis=-1, keepdims=True),
        np.ones(1, dtype=bool),
        trials.units[places].sum(keepdims=True),
    )
