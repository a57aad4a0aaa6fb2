"""Heads around a place in an order: measured until it is settled, by hints that may be off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.tracks.language_models.scores.auto_ppl import Hints, first_near, next_near, placed

HEADS, LAYERS = 12, 12


def world(seed: int, off: float = 0.06) -> tuple[Hints, np.ndarray]:
    """Effects of 144 heads, and hints that miss them more in lower layers."""
    draw = np.random.default_rng(seed)
    effects = draw.normal(size=HEADS * LAYERS)
    scale = off * np.repeat(2.0 ** -np.arange(LAYERS), HEADS)
    first = effects + scale * draw.normal(size=effects.size)
    part = draw.normal(size=effects.size)
    return (
        Hints(first, part, part + 4 * scale * draw.normal(size=effects.size), HEADS, 1 / 16),
        effects,
    )


def settled(hints: Hints, effects: np.ndarray, places: list[int]) -> tuple[list[int], np.ndarray]:
    units, new = [], first_near(hints, places)
    while new:
        assert not set(new) & set(units), "no head is measured twice"
        units += new
        found = placed(hints, units, effects[units])
        new = next_near(found, places)
    return units, found.value


def test_orders_are_right_around_their_places_and_few_heads_are_measured():
    wrong, measured = 0, []
    for seed in range(40):
        hints, effects = world(seed)
        units, value = settled(hints, effects, [43])
        wrong += set(np.argsort(-value)[:43]) != set(np.argsort(-effects)[:43])
        measured.append(len(units))
    assert wrong == 0 and np.mean(measured) < 25, (wrong, np.mean(measured))


def test_hints_that_are_far_off_have_nearly_all_heads_measured_and_say_so():
    close, _ = world(0)
    noise = np.random.default_rng(1).normal(size=(2, HEADS * LAYERS))
    wild = replace(close, first=noise[0], beginning=noise[1])
    assert close.explained > 0.9 > wild.explained
    units, value = settled(wild, world(0)[1], [43])
    assert len(units) > 100


def test_several_places_are_settled_together():
    hints, effects = world(3)
    _, value = settled(hints, effects, [14, 130])
    for place in (14, 130):
        assert set(np.argsort(-value)[:place]) == set(np.argsort(-effects)[:place])


@pytest.mark.parametrize("place", [1, 143])
def test_a_place_at_an_end_is_settled(place):
    hints, effects = world(4)
    _, value = settled(hints, effects, [place])
    assert set(np.argsort(-value)[:place]) == set(np.argsort(-effects)[:place])
