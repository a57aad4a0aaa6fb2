"""Flips: answers that a cut turns from well to bad, or back; whether they go one way, and how many
another draw of the uncut model flips.

An answer moves by 1 (it became bad), by −1 (it recovered) or not at all. Where the cut does
nothing, exchanging both models within a prompt changes nothing. The direction is (Σ S)² / Σ S²
over the sums S of words; it is compared with that after EXCHANGES of a coin per prompt. Its
denominator lets the test hold where prompts of one word move together. Ties count half, for few
flips have many. In simulation (`python -m benchmarks.calibration --only flips`) it rejects .04 to
.06 of true nulls at .05.
"""

from __future__ import annotations

import numpy as np

from engine.core.ids import rng

EXCHANGES = 999


def direction(moved: np.ndarray, unit: np.ndarray, word: np.ndarray) -> float:
    """Two-sided p of the direction.

    moved [answers]: −1, 0 or 1. unit [answers]: codes of what is exchanged as a whole, a prompt
    with all its draws. word [answers]: codes of what moves together, each unit in one.
    """
    net, words = np.bincount(unit, moved), np.zeros(unit.max(initial=-1) + 1, dtype=int)
    words[unit] = word
    words, net = words[net != 0], net[net != 0]
    order = np.argsort(words, kind="stable")
    words, net = words[order], net[order]
    if not len(net):
        return 1.0
    starts = np.flatnonzero(np.r_[True, np.diff(words) != 0])
    coins = rng("flips", len(net)).integers(0, 2, (EXCHANGES + 1, len(net)), dtype=np.int8) * 2 - 1
    coins[0] = 1
    sums = np.add.reduceat(coins * net, starts, axis=1)
    squares = (sums**2).sum(axis=1)
    found = sums.sum(axis=1) ** 2 / np.where(squares, squares, 1.0)
    apart = found[1:] - found[0]
    far, tied = (apart > 1e-9).sum(), (np.abs(apart) <= 1e-9).sum()
    return float((far + tied / 2 + 0.5) / (EXCHANGES + 1))


def churn(bad: np.ndarray, unit: np.ndarray) -> float:
    """Share of answers that two draws of one model flip, either way: of two draws of a unit, how
    often one is bad and the other is not. bad [answers] bool; unit [answers]: codes. NaN where no
    unit has two draws."""
    drawn, harmful = np.bincount(unit), np.bincount(unit, bad)
    drawn, harmful = drawn[drawn > 1], harmful[drawn > 1]
    if not len(drawn):
        return float("nan")
    unlike = 2 * harmful * (drawn - harmful) / (drawn - 1)
    return float(unlike.sum() / drawn.sum())
