"""How often single filters are said to move groups that they do not move."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.report import Measure
from engine.tracks.image_classifiers.effects import effects_table


def measures(quick: bool) -> list[Measure]:
    return [_filters(20 if quick else 200)]


def _filters(worlds: int) -> Measure:
    """How often any of 200 filters is said to move one of four groups, of 12 to 300 images, none of
    which does on average."""
    found = []
    for draw in map(np.random.default_rng, range(worlds)):
        parts: list[pd.DataFrame] = []
        for size in (12, 60, 300, 300):
            moved = draw.normal(size=(200, size))
            error = moved.std(axis=1, ddof=1) / np.sqrt(size)
            part = {
                "value": moved.mean(axis=1),
                "error": error,
                "n": size,
                "group": f"{len(parts)}",
            }
            parts.append(pd.DataFrame({**part, "cut": [f"[{at}]" for at in range(200)]}))
        alone = pd.concat(parts, ignore_index=True).assign(axis="group", metric="log_probability")
        found.append((effects_table(alone)["q"] <= 0.05).any())
    return Measure("some of 200 filters are clear that move no group", np.mean(found), "", 0.08)
