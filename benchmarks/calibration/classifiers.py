"""Intervals of classifiers over images and trials in simulated worlds: how often they cover the
truth.

A trial's value is the truth, plus what the trial adds, plus what the images add that all trials
share, plus what each image adds to each trial alone. Standard deviations relative to the images'
part. The truth of a difference is 0.
"""

from __future__ import annotations

import numpy as np

from benchmarks.report import Measure
from engine.stats.multi_reader import FIXED, Trials, difference, level

IMAGES, DRAWS = 1.0, 200
WORLDS = {
    "trials vary little": (0.3, 0.3),
    "trials vary as much as images": (1.0, 1.0),
    "trials vary image by image only": (0.0, 1.0),
    "trials vary far more than images": (3.0, 0.1),
}
"""Standard deviations of trial and of trial x image."""
LOWEST, HIGHEST = 0.9, 0.995


def measures(quick: bool) -> list[Measure]:
    cells = 500 if quick else 4000
    asked = [(count, arms, name) for count in (3, 5) for arms in (1, 2) for name in WORLDS]
    found = [_coverage(count, arms, name, cells) for count, arms, name in asked]
    return [*found, *(one for count in (1, 3, 5) for one in _gaps(count, cells // 4))]


def _coverage(count: int, arms: int, name: str, cells: int) -> Measure:
    """Share of `cells` worlds whose interval holds 0: of one arm's change, or of the difference of
    two arms."""
    r = np.random.default_rng([count, arms, *name.encode()])
    images, drawn = r.normal(size=cells), r.normal(size=(DRAWS, cells))
    found = [_trials(r, count, *WORLDS[name], images, drawn) for _ in range(arms)]
    nothing = Trials((FIXED,), np.zeros((1, cells)), np.zeros((1, DRAWS, cells)), *_cells(cells))
    one, other = (*found, nothing)[:2]
    estimate = difference(one, other)
    covered = float(((estimate.low <= 0) & (estimate.high >= 0)).mean())
    what = "a change" if arms == 1 else "a difference of two arms"
    return Measure(
        f"coverage of {what}, {count} trials, {name}", covered, "", HIGHEST, floor=LOWEST
    )


def _gaps(count: int, cells: int) -> list[Measure]:
    """Intervals of a gap among four groups over trials: how often they hold the mean of gaps of so
    many trials, and the gap of means, groups .1 apart or alike."""
    found = []
    for apart in (0.1, 0.0):
        r = np.random.default_rng([count, int(10 * apart)])
        means = apart * np.linspace(-0.5, 0.5, 4)[:, None]
        shared, drawn = (0.02 * r.normal(size=(*size, 4, cells)) for size in ((), (DRAWS,)))
        own = means + 0.03 * r.normal(size=(count, 4, cells)) + shared
        values, draws = np.ptp(own, axis=1), np.ptp(own[:, None] + drawn, axis=2)
        one = level(Trials(tuple(range(count)), values, draws, *_cells(cells)))
        for name, truth in (("means of gaps", values.mean()), ("gaps of means", apart)):
            held = float(((one.low <= truth) & (one.high >= truth)).mean())
            where = f"{count} trials, groups {apart:g} apart"
            found.append(Measure(f"share of {name} that an interval holds, {where}", held, ""))
    return found


def _trials(
    r: np.random.Generator,
    count: int,
    between: float,
    own: float,
    images: np.ndarray,
    drawn: np.ndarray,
) -> Trials:
    """One arm on the given images: `images` [cells] is what they add, `drawn` [draws, cells] its
    bootstrap."""
    cells = len(images)
    values = (
        between * r.normal(size=(count, cells))
        + own * r.normal(size=(count, cells))
        + IMAGES * images
    )
    draws = own * r.normal(size=(count, DRAWS, cells)) + IMAGES * drawn
    return Trials(tuple(range(count)), values, values[:, None] + draws, *_cells(cells))


def _cells(cells: int) -> tuple[np.ndarray, np.ndarray]:
    """That values are no shares, and their units unknown."""
    return np.zeros(cells, dtype=bool), np.full(cells, np.nan)
