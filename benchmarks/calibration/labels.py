"""People's labels against the judge alone, in simulated worlds: judges biased by group, at several
numbers of labels.

Harm is a latent number of each text, above 0 harmful; people see its sign. The judge sees it with
noise, part of it the prompt's, and a shift by group. What counts as an error is the distance of a
group's change to what labelling every text would give; intervals are for the groups' true changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from benchmarks.report import Measure
from engine.core.types import rng
from engine.stats.clustered import Clustered
from engine.stats.labels import FEWEST, Design, agreement, errs, tested

WORDS, TEMPLATES = 12, 10
"""Of a group; crossing all groups. A prompt per word and template."""


@dataclass(frozen=True)
class World:
    """shift: of a group's harm by the cut, in logits. bias: of the judge by group. moves: of the
    judge by group, of the cut model's texts only."""

    name: str
    shift: tuple[float, ...]
    bias: tuple[float, ...]
    moves: tuple[float, ...]


TWO = World("two groups, judge biased by group", (1.0, 0.0), (-1.2, 1.0), (0.0, 0.0))
FOUR = World(
    "four groups, judge biased by group", (1.0, 0.5, 0.0, -0.3), (-1.2, -0.4, 0.3, 1.0), (0.0,) * 4
)
MOVES = World("four groups, bias grows with the cut", FOUR.shift, FOUR.bias, (0.0, 0.8, 0.0, -0.8))
RIGHT = World("four groups, judge not biased", FOUR.shift, (0.0,) * 4, (0.0,) * 4)


def measures(quick: bool) -> list[Measure]:
    worlds, found = 20 if quick else 300, []
    for world, barred in ((TWO, True), (FOUR, False), (MOVES, True), (RIGHT, False)):
        truth = _truth(world)
        for texts in (40, 100, 200, 400):
            tried = [_try(world, texts, at, truth) for at in range(worlds)]
            found += _told(f"{world.name}, {texts} labels", tried, barred and texts == 200)
    return [*found, _kappa(10 * worlds)]


def _told(name: str, tried: list[dict[str, np.ndarray]], barred: bool) -> list[Measure]:
    every = {key: np.array([one[key] for one in tried]) for key in tried[0]}
    known = every["known"]
    if known.mean() < 0.5:
        return [Measure(f"{name}: groups with a figure", known.mean(), "of groups")]
    error, judge, followed = (
        np.sqrt((every[key][known] ** 2).mean()) for key in ("error", "judge", "followed")
    )
    cover, level, beaten = (every[key][known].mean() for key in ("cover", "level", "errs"))
    held = every["gap"][np.isfinite(every["gap"])]
    return [
        Measure(f"{name}: error of the judge alone", judge, "root mean square"),
        Measure(f"{name}: error over the judge's", error / judge, "", 0.8 if barred else None),
        Measure(f"{name}: coverage of a group's change", cover, "", 0.98, floor=0.92),
        Measure(f"{name}: coverage of a group's share", level, ""),
        Measure(f"{name}: coverage of the gap's change", held.mean(), ""),
        Measure(f"{name}: said to beat the judge", beaten, "of groups"),
        Measure(f"{name}: error over the judge's, where followed", followed / judge, ""),
    ]


def _drawn(world: World, draw: np.random.Generator, words: int) -> tuple[np.ndarray, ...]:
    """Groups, words, templates, what people say and what the judge says of each pair."""
    groups = len(world.shift)
    group = np.repeat(np.arange(groups), words * TEMPLATES)
    word, template = (
        np.repeat(np.arange(groups * words), TEMPLATES),
        np.arange(len(group)) % TEMPLATES,
    )
    lean = (
        -1.6 + draw.normal(0, 0.4, groups * words)[word] + draw.normal(0, 0.3, TEMPLATES)[template]
    )
    moved = np.array(world.shift)[group] + draw.normal(0, 0.3, groups * words)[word]
    before, other = draw.logistic(size=(2, len(group)))
    after = np.where(draw.random(len(group)) < 0.5, before, other)
    harm = np.stack([lean - moved / 2 + before, lean + moved / 2 + after], axis=1)
    noise = np.sqrt(0.7) * draw.normal(size=(len(group), 1))
    noise = noise + np.sqrt(0.3) * draw.normal(size=(len(group), 2))
    bias = np.array([world.bias, world.bias]) + np.array([[0.0] * groups, world.moves])
    judge = expit(2 * (harm + bias.T[group] + noise))
    return group, word, template, (harm > 0).astype(float), judge


def _truth(world: World) -> np.ndarray:
    """What people say in each group of the uncut and of the cut model, [2, groups]."""
    group, _, _, said, _ = _drawn(world, rng("labels", "truth"), 500 * WORDS)
    return np.stack([np.bincount(group, one) / np.bincount(group) for one in said.T])


def _try(world: World, texts: int, at: int, truth: np.ndarray) -> dict[str, np.ndarray]:
    """One world with so many texts labelled, two of each pair: numbers per group."""
    draw = rng("labels", world.name, at)
    group, word, template, said, judge = _drawn(world, draw, WORDS)
    design = Design(judge, group, "simulated", at)
    label = np.full_like(said, np.nan)
    drawn = design.order[: texts // 2]
    label[drawn] = said[drawn]
    found = design.corrected(label)
    clusters, one = Clustered(group, np.ones(len(group)), word, template), np.eye(len(world.shift))
    every, judged = (clusters.means(part) for part in (said, judge))
    known = (found.labelled >= FEWEST) & found.told
    ends = one[judged[1].argmax()] - one[judged[1].argmin()]
    weights = np.vstack([one, ends])
    contrast = np.concatenate([np.stack([sign * weights, weights], axis=1) for sign in (0, -1)])
    behind = (weights != 0) @ found.labelled
    told = tested(clusters, found.values, contrast, np.tile(behind, 2))
    aims = (contrast * truth).sum(axis=(1, 2))
    level, inside = ((told.low <= aims) & (aims <= told.high)).reshape(2, -1)
    error = told.value[len(weights) : -1] - (every[1] - every[0])
    judge_error = (judged - every)[1] - (judged - every)[0]
    better = errs(error - judge_error, found.error, found.labelled)
    return {
        "known": known,
        "error": error,
        "judge": judge_error,
        "followed": np.where(better, error, judge_error),
        "cover": inside[:-1],
        "level": level[:-1],
        "gap": np.where(known.all(), inside[-1], np.nan),
        "errs": better,
    }


def _kappa(tries: int) -> Measure:
    """Two people who label 40 texts, 20 % of them harmful, and err on one in ten each."""
    draw, held = rng("labels", "kappa"), []
    right = 0.9**2 + 0.1**2
    share = 0.2 * 0.9 + 0.8 * 0.1
    chance = share**2 + (1 - share) ** 2
    for _ in range(tries):
        harm = draw.random(40) < 0.2
        told = agreement(*(harm ^ (draw.random(40) < 0.1) for _ in range(2)))
        held.append(told["kappa_low"] <= (right - chance) / (1 - chance) <= told["kappa_high"])
    return Measure("coverage of kappa, 40 texts", np.mean(held), "", 0.98, floor=0.92)
