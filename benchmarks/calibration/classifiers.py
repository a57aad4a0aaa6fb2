"""Intervals of classifiers over images and trials in simulated worlds: how often they cover the
truth.

A trial's value is the truth, plus what the trial adds, plus what the images add that all trials
share, plus what each image adds to each trial alone. Standard deviations relative to the images'
part. The truth of a difference is 0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, ndtr

from benchmarks.report import Measure
from engine.classifiers.groups import GroupMeasure
from engine.report.phrasing import direction
from engine.report.tracks import Measure as Metric
from engine.report.verdict import loss_of
from engine.stats.gap_of_means import FIXED, Trials, at_ends, difference, gaps_of_means
from engine.store.runs import where

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
    worlds = 20 if quick else 200
    gaps = [one for count in (1, 3, 5, 10) for one in _gaps(count, worlds)]
    small = [_small(*each, worlds) for each in SMALL]
    small += [one for each in RANKS for one in _ranks(*each, worlds)]
    small += [_tied(size, worlds) for size in (20, 60)]
    small += [one for sizes, rare, least in UNEQUAL for one in _unequal(sizes, rare, least, worlds)]
    small += [one for few in FEW for one in _few(*few, worlds)]
    small += [_among(*each, 5 * worlds) for each in AMONG] + [_hard(*each, worlds) for each in HARD]
    small += [_slips(trials, worlds) for trials in (3, 10)]
    return [*found, *gaps, *small, *_masks(worlds)]


AMONG = ((2, 6), (3, 6), (3, 12), (5, 12), (10, 12))
"""Trials, and groups of one axis."""


def _among(count: int, groups: int, worlds: int) -> Measure:
    """How often any of so many groups is named that a cut leaves as it was on average, where trials
    vary four times as much as images."""
    r, cells = np.random.default_rng([count, groups]), groups * worlds
    images, drawn = r.normal(size=cells), r.normal(size=(DRAWS, cells))
    one = _trials(r, count, 4.0, 0.0, images, drawn)
    one = replace(one, units=np.ones(cells), alike=np.repeat(np.arange(worlds), groups), room=1.0)
    nothing = Trials((FIXED,), np.zeros((1, cells)), np.zeros((1, DRAWS, cells)), *_cells(cells))
    rows = pd.DataFrame(difference(one, nothing).columns("delta")).to_dict("records")
    ways = np.reshape([direction(row, groups) != "unclear" for row in rows], (worlds, groups))
    name = f"one of {groups} groups is named that a cut does not change, {count} trials"
    return Measure(name, ways.any(axis=1).mean(), "", 0.08)


HARD = ((30, 170, 0.05, 3.0), (100, 100, 0.02, 3.5), (60, 140, 0.03, 3.0))
"""Positives and negatives, the share of positives that score as low as the lowest negatives, and by
how many standard deviations the others lie higher."""


def _hard(positives: int, negatives: int, share: float, apart: float, worlds: int) -> Measure:
    """Coverage of an AUC near 1 of which a few hard positives decide."""
    label, held = (np.arange(positives + negatives) < positives).astype(int), []
    truth = (1 - share) * ndtr(apart / np.sqrt(2)) + share * ndtr(-1 / np.sqrt(2))
    for draw in map(np.random.default_rng, range(2 * worlds)):
        middle = label * np.where(draw.random(len(label)) < share, -1.0, apart)
        answers = _likely(middle + draw.normal(size=len(label)) - 1)
        row = where(measured(label, "all", answers).dense().groups, metric="auc").iloc[0]
        held.append(row["low"] <= truth <= row["high"])
    name = f"coverage of an AUC of {truth:.3f}, {positives} of {len(label)} items positive"
    return Measure(f"{name}, {share:.0%} of them hard", np.mean(held), "", 1.0, floor=0.92)


def _slips(trials: int, worlds: int) -> Measure:
    """Coverage of an accuracy near 1: 4 % of 60 items are always wrong, others in 1 %."""
    label, held = np.arange(360) % 2, []
    group = np.repeat(["large", "small"], [300, 60])
    for draw in map(np.random.default_rng, range(2 * worlds)):
        always, slips = draw.random(360) < 0.04, draw.random((trials, 360)) < 0.01
        answers = [answers_of(np.where(always | one, 1 - label, label)) for one in slips]
        groups = measured(label, group, answers).dense().groups
        row = where(groups, metric="accuracy", group="small").iloc[0]
        held.append(row["low"] <= 0.96 * 0.99 <= row["high"])
    name = f"coverage of an accuracy of .95, 60 items, the same are wrong in {trials} trials"
    return Measure(name, np.mean(held), "", 1.0, floor=0.92)


def measured(label: np.ndarray, group: object, dense: Any, **more: Any) -> GroupMeasure:
    """Of two classes; label [items] int, group: one name for all, or one each."""
    names = [f"{at:04d}" for at in range(len(label))]
    table = pd.DataFrame({"image_id": names, "text_id": names, "label": label, "group": group})
    return GroupMeasure(table, ["a", "b"], ["group"], dense, n_permutations=2, **more)


def _masks(worlds: int) -> list[Measure]:
    """Coverage of accuracy and of its change over five random masks of each of three seeds, where
    seeds vary by .02 and masks by .005."""
    label, held = np.arange(2000) % 2, []
    for draw in map(np.random.default_rng, range(worlds)):
        right, seeds = draw.random(2000) < 0.9, 0.02 * draw.normal(size=3)
        losses = 0.1 + (seeds + 0.005 * draw.normal(size=(5, 3))).ravel()
        sure = [right & (draw.random(2000) >= loss / 0.9) for loss in losses]
        one, *trials = (answers_of(np.where(part, label, 1 - label)) for part in (right, *sure))
        arm = replace(measured(label, "all", one).variant(trials), seeds=3)
        row = where(arm.pooled("cut").results, metric="accuracy", axis="").iloc[0]
        held.append(
            (row["low"] <= 0.8 <= row["high"], row["delta_low"] <= -0.1 <= row["delta_high"])
        )
    name = "five random masks of each of three seeds"
    return [
        Measure(f"coverage of {what}, {name}", share, "", 1.0, floor=0.88)
        for what, share in zip(("accuracy", "its change"), np.mean(held, axis=0), strict=True)
    ]


SMALL = ((20, 0.05), (20, 0.2), (60, 0.02), (60, 0.1))
"""Items of a group, and the share of its right answers that a cut makes wrong."""


def _small(size: int, changed: float, worlds: int) -> Measure:
    """Coverage of the change of accuracy of a small group, .7 before."""
    held = []
    for draw in map(np.random.default_rng, range(worlds)):
        label = np.arange(300 + size) % 2
        right, turned = draw.random(len(label)) < 0.7, draw.random(len(label))
        table = pd.DataFrame({"label": label, "group": np.repeat(["large", "small"], [300, size])})
        after = right & (turned >= changed)
        one, other = (answers_of(np.where(part, label, 1 - label)) for part in (right, after))
        names = [f"{at:04d}" for at in range(len(table))]
        measure = GroupMeasure(table.assign(image_id=names), ["a", "b"], ["group"], one)
        groups = measure.variant([other]).pooled("cut").groups
        row = where(groups, metric="accuracy", group="small").iloc[0]
        held.append(row["delta_low"] <= -0.7 * changed <= row["delta_high"])
    name = f"coverage of a change of accuracy, {size} items, {changed:.0%} of right ones turn wrong"
    return Measure(name, np.mean(held), "", 1.0, floor=0.92)


RANKS = ((200, 100, 0.02), (300, 60, 0.02), (300, 30, 0.05))
"""Items of a group, those of its positive class, and the share of items that a cut scores anew."""


def _ranks(size: int, positives: int, share: float, worlds: int) -> list[Measure]:
    """A few items are scored anew, as noise: coverage of the change of AUC. And how often a cut is
    said to stay below the tolerance whose lowest positives fall, so that AUC loses just that."""
    held, passed = [], []
    for draw in map(np.random.default_rng, range(worlds)):
        label = np.arange(size) < positives
        score = 1.6 * label - 0.8 + draw.normal(size=size)
        own, anew = ndtr(1.6 / np.sqrt(2)), draw.random(size) < share
        fallen = np.where(label & (draw.random(size) < 0.05 / own), -9.0, score)
        changes = np.where(anew, draw.normal(size=size) / 2, score), fallen
        table = pd.DataFrame({"image_id": [f"{at:04d}" for at in range(size)], "group": "all"})
        one, *others = (_likely(part) for part in (score, *changes))
        labelled = table.assign(label=label.astype(int))
        measure = GroupMeasure(labelled, ["a", "b"], ["group"], one, n_permutations=2)
        rows = [
            where(measure.variant([part]).pooled("cut").groups, metric="auc").iloc[0].to_dict()
            for part in others
        ]
        one_of = 2 * share * (1 - share) * ndtr(0.8 / np.sqrt(1.25))  # of a pair is scored anew
        truth = (1 - share) ** 2 * own + one_of + share**2 / 2
        held.append(rows[0]["delta_low"] <= truth - own <= rows[0]["delta_high"])
        passed.append(loss_of(Metric("auc"), rows[1], "all", 0.05, False).is_below)
    name = f"{size} items, {positives} positive"
    moved = f"coverage of a change of AUC, {name}, {share:.0%} scored anew"
    return [
        Measure(moved, np.mean(held), "", 1.0, floor=0.92),
        Measure(f"a loss of AUC of .05 is ruled out, {name}", np.mean(passed), "", 0.06),
    ]


def _tied(size: int, worlds: int) -> Measure:
    """Coverage of the gap of accuracies of two groups of so many items, .15 apart."""
    held = []
    for draw in map(np.random.default_rng, range(2 * worlds)):
        group = np.repeat(["a", "b"], size)
        right = draw.random(2 * size) < np.where(group == "a", 0.8, 0.65)
        label = np.arange(2 * size) % 2
        names = [f"{at:04d}" for at in range(2 * size)]
        table = pd.DataFrame({"image_id": names, "label": label, "group": group})
        answers = answers_of(np.where(right, label, 1 - label))
        found = GroupMeasure(table, ["a", "b"], ["group"], answers, n_permutations=2).dense()
        row = where(found.results, metric="accuracy_gap").iloc[0]
        held.append(row["low"] <= 0.15 <= row["high"])
    name = f"coverage of a gap between two groups of {size} items"
    return Measure(name, np.mean(held), "", 1.0, floor=0.92)


def _likely(scores: np.ndarray) -> np.ndarray:
    """Answers [items, 2] of scores [items]."""
    return np.stack([1 - expit(scores), expit(scores)], axis=1)


UNEQUAL = (
    ((40, 100, 200, 400), (12, 30, 100, 200), 0.9),
    ((40, 150, 300), (7, 60, 150), 0.8),
)
"""Items of groups, those of the rarer class, and the least coverage of gaps between them."""


def _unequal(
    sizes: tuple[int, ...], rare: tuple[int, ...], least: float, worlds: int
) -> list[Measure]:
    """Groups whose classes are the farther apart, 1 to 2.5 standard deviations, the larger they
    are: coverage of gaps of AUC and of accuracy."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    label = np.concatenate([np.arange(size) < part for size, part in zip(sizes, rare, strict=True)])
    apart = np.linspace(1, 2.5, len(sizes))
    truth = {"auc": np.ptp(ndtr(apart / np.sqrt(2))), "accuracy": np.ptp(ndtr(apart / 2))}
    held: dict[str, list[bool]] = {metric: [] for metric in truth}
    for draw in map(np.random.default_rng, range(worlds)):
        score = expit(2 * ((label - 0.5) * apart[group] + draw.normal(size=len(label))))
        names = [f"{at:04d}" for at in range(len(label))]
        table = pd.DataFrame(
            {"image_id": names, "label": label.astype(int), "group": group.astype(str)}
        )
        answers = np.stack([1 - score, score], axis=1)
        found = GroupMeasure(table, ["a", "b"], ["group"], answers).dense().results
        for metric, true in truth.items():
            row = where(found, metric=f"{metric}_gap").iloc[0]
            held[metric].append(row["low"] <= true <= row["high"])
    what = f"coverage of the gap of {{}} between groups of {min(sizes)} to {max(sizes)} items"
    what += f", {min(rare)} to {max(rare)} of one class"
    return [
        Measure(what.format(metric), np.mean(part), "", 1.0, floor=least)
        for metric, part in held.items()
    ]


def answers_of(guesses: np.ndarray) -> np.ndarray:
    """Sure answers [items, 2] of guessed classes [items]."""
    return np.eye(2)[guesses]


FEW = ((300, 5, 100), (300, 6, 12), (300, 10, 200), (300, 20, 200))
"""Items of a large group; of a small one those of the rarer class, and all."""


def _few(large: int, rare: int, small: int, worlds: int) -> list[Measure]:
    """A model that treats two groups alike: coverage of the small one's AUC, .871, and how often a
    gap between them is shown."""
    held, shown = [], []
    for draw in map(np.random.default_rng, range(worlds)):
        label = np.r_[np.arange(large) % 2, np.arange(small) < rare].astype(int)
        score = expit(1.6 * label - 0.8 + draw.normal(size=len(label)))
        table = pd.DataFrame(
            {"label": label, "group": np.repeat(["large", "small"], [large, small])}
        )
        answers = np.stack([1 - score, score], axis=1)
        names = [f"{at:04d}" for at in range(len(table))]
        measure = GroupMeasure(table.assign(image_id=names), ["a", "b"], ["group"], answers)
        found = measure.dense()
        row = where(found.groups, metric="auc", group="small").iloc[0]
        held.append(row["low"] <= ndtr(1.6 / np.sqrt(2)) <= row["high"])
        gaps = found.results.query("metric in ('auc_gap', 'accuracy_gap')")
        shown.append((gaps["low"] > 0).to_numpy())
    name = f"a group of {small} items, {rare} of one class"
    auc, accuracy = np.mean(shown, axis=0)
    return [
        Measure(f"coverage of the AUC of {name}", np.mean(held), "", 1.0, floor=0.92),
        Measure(f"a gap of AUC is shown where none is, 300 and {name}", auc, "", 0.08),
        Measure(f"… of accuracy, 300 and {name}", accuracy, "", 0.08),
    ]


def _coverage(count: int, arms: int, name: str, cells: int) -> Measure:
    """Share of `cells` worlds whose interval holds 0: of one arm's change, or of the difference of
    two arms."""
    r = np.random.default_rng([count, arms, *name.encode()])
    images, drawn = r.normal(size=cells), r.normal(size=(DRAWS, cells))
    found = [_trials(r, count, *WORLDS[name], images, drawn) for _ in range(arms)]
    nothing = Trials((FIXED,), np.zeros((1, cells)), np.zeros((1, DRAWS, cells)), *_cells(cells))
    one, other = (*found, nothing)[:2]
    estimate = difference(one, other)
    covered = ((estimate.low <= 0) & (estimate.high >= 0)).mean()
    what = "a change" if arms == 1 else "a difference of two arms"
    return Measure(
        f"coverage of {what}, {count} trials, {name}", covered, "", HIGHEST, floor=LOWEST
    )


GROUPS, APART = (2, 4, 6), (0.0, 0.02, 0.1)
OF_GROUPS = {
    "trials vary little": np.full(6, 0.006),
    "trials vary as images do": np.full(6, 0.02),
    "trials vary twice as much as images": np.full(6, 0.04),
    "one group varies three times as much": np.array([0.06] + [0.02] * 5),
}
"""Standard deviations of each group's accuracy over trials."""
OF_IMAGES, OWN, SHARED = 0.02, 0.01, 0.02
"""Of what images do to a group, and to single trials of it, and of what a trial does to all
groups."""


def _gaps(count: int, worlds: int) -> list[Measure]:
    """How often the interval of the gap of mean accuracies over so many trials holds the true
    gap."""
    found = {
        (groups, apart, name, is_even): held(count, groups, apart, name, is_even, worlds)
        for groups in GROUPS
        for apart in APART
        for name in OF_GROUPS
        for is_even in ((True, False) if apart and groups > 2 else (True,))
    }
    rows = []
    for apart in APART:
        where = f"{count} trial{'s' * (count > 1)}, groups {apart:g} apart"
        highest = 1.0 if not apart else 0.98
        for groups in GROUPS:
            mine = [one for key, one in found.items() if key[:2] == (groups, apart)]
            name = f"coverage of the gap of mean accuracies, {groups} groups, {where}"
            rows.append(Measure(name, np.mean(mine), "", highest, floor=0.92))
        if count > 1 and apart != 0.02:
            kinds = [
                changed(count, size, apart, kind, worlds) for size in GROUPS for kind in OF_GROUPS
            ]
            name = f"coverage of a change of the gap, {count} trials, grown by {apart:g}"
            rows.append(Measure(name, np.mean(kinds), "", HIGHEST, floor=LOWEST))
        worst = min(one for key, one in found.items() if key[1] == apart)
        rows.append(Measure(f"… the worst of these kinds of worlds, {where}", worst, ""))
    return rows


def held(count: int, groups: int, apart: float, name: str, is_even: bool, worlds: int) -> float:
    """In one kind of world: groups evenly spread, or one of them apart from all others."""
    r = np.random.default_rng([count, groups, int(100 * apart), is_even, *name.encode()])
    truth = apart * (np.linspace(0, 1, groups) if is_even else np.arange(groups) == 0)
    # Of one model, what its seed did to it belongs to it.
    over_trials, shared = OF_GROUPS[name][:groups] * (count > 1), SHARED * (count > 1)
    size = (count, groups, worlds)
    values = 0.8 + truth[:, None] + shared * r.normal(size=(count, 1, worlds))
    values = values + over_trials[:, None] * r.normal(size=size) + OWN * r.normal(size=size)
    values += OF_IMAGES * r.normal(size=(groups, worlds))
    drawn = OF_IMAGES * r.normal(size=(DRAWS, groups, worlds))
    draws = drawn + OWN * r.normal(size=(count, DRAWS, groups, worlds))
    _, low, high = gaps_of_means(values, draws, 1.0)
    return float(((low <= apart) & (apart <= high)).mean())


def changed(count: int, groups: int, apart: float, name: str, worlds: int) -> float:
    """How often the interval of a gap's change against one fixed model, on the same images, holds
    the true change: the gap grows from .05 by so much."""
    r = np.random.default_rng([count, groups, int(100 * apart), *name.encode()])
    images = OF_IMAGES * r.normal(size=(groups, worlds))
    drawn = OF_IMAGES * r.normal(size=(DRAWS, groups, worlds))
    arms = []
    for numbers, gap in ((tuple(range(count)), 0.05 + apart), ((FIXED,), 0.05)):
        size = (len(numbers), groups, worlds)
        own = OF_GROUPS[name][:groups, None] * (len(numbers) > 1)
        values = 0.8 + gap * np.linspace(0, 1, groups)[:, None] + images + own * r.normal(size=size)
        draws = drawn + OWN * r.normal(size=(len(numbers), DRAWS, groups, worlds))
        values = values + OWN * r.normal(size=size)
        arms.append(Trials(numbers, *at_ends(values, draws)[:2], *_cells(worlds)))
    found = difference(*arms)
    return float(((found.low <= apart) & (apart <= found.high)).mean())


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
