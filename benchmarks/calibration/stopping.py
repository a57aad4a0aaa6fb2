"""Drawing until every interval is as narrow as asked: what it costs in coverage, in simulated
worlds.

A world of `language_models.py` with several variants. Every prompt is drawn up to MOST times;
descriptors and templates stay what they are, chance is new. The asked width is one that about half
of the worlds reach with two draws. The truth is the mean over worlds with as many draws.
"""

from __future__ import annotations

import numpy as np

from benchmarks.calibration.language_models import APART, CHANCE, TEMPLATE, WORD, Drawn, World
from benchmarks.report import Measure
from engine.tracks.language_models.bias_intervals import BiasErrors

MOST, VARIANTS = 4, 5


def measures(quick: bool) -> list[Measure]:
    worlds, layouts = (60, 1) if quick else (400, 3)
    found = [_covered(world, worlds, seed) for world in APART for seed in range(layouts)]
    fixed, stopped, draws, widest = np.mean(found, axis=0)
    name = f"{MOST} draws of every prompt at most, {VARIANTS} variants"
    return [
        Measure(f"{name}: coverage of 95 % intervals where all are drawn", fixed, "of intervals"),
        Measure(
            f"{name}: … where drawing stops by the widest",
            stopped,
            "of intervals",
            0.98,
            floor=0.92,
        ),
        Measure(
            f"{name}: … of the interval that was the widest", widest, "of intervals", 0.92, True
        ),
        Measure(f"{name}: draws when it stops", draws, "draws"),
    ]


def _covered(world: World, worlds: int, seed: int) -> tuple[float, float, float, float]:
    """Coverage with all draws, and with the rule; draws at the end; and coverage of the widest with
    the rule."""
    low, high, value = _intervals(world, worlds, seed)
    width = (high - low).max(axis=1)  # [draws, worlds]
    enough = width <= np.median(width[1])
    at = np.where(enough.any(axis=0), enough.argmax(axis=0), MOST - 1)
    covers = (low <= (truth := value.mean(axis=2, keepdims=True))) & (truth <= high)
    each = np.arange(worlds)
    widest = (high - low).argmax(axis=1)[at, each]
    return (
        float(covers[-1].mean()),
        float(covers[at, :, each].mean()),
        float(at.mean()) + 1.0,
        float(covers[at, widest, each].mean()),
    )


def _intervals(world: World, worlds: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ends and values of the changes of bias, each [draws, variants, worlds]."""
    one = Drawn(world, worlds, seed)
    errors, centre = BiasErrors(one.table), one.centre
    lasting = centre + one.noise(0.0, WORD, TEMPLATE)
    moved = [one.noise(0.0, 0.02, 0.02) - 0.1 * (at + 1) * (centre - 0.4) for at in range(VARIANTS)]
    dense, variants, found = np.zeros_like(one.dense), [np.zeros_like(one.dense)] * VARIANTS, []
    for draw in range(1, MOST + 1):
        chance = one.noise(CHANCE, 0.0, 0.0)
        dense = dense + lasting + chance
        variants = [
            so_far + lasting + move + 0.6 * chance + one.noise(0.2, 0.0, 0.0)
            for so_far, move in zip(variants, moved, strict=True)
        ]
        found.append([errors.changes(one_ / draw, dense=dense / draw) for one_ in variants])
    low, high, value = (
        np.array([[getattr(one_, end) for one_ in row] for row in found])
        for end in ("low", "high", "value")
    )
    return low, high, value
