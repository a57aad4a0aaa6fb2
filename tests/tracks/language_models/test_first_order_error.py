"""What first order misses is learned from heads that have both values, and held by the intervals of
the others."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from engine.tracks.language_models.effects import Effects
from engine.tracks.language_models.pilot import FirstOrderError, learned, with_error


def effects(value: np.ndarray, error: float) -> Effects:
    nan = np.full(len(value), np.nan)
    p = 2 * norm.sf(np.abs(value) / error)
    return Effects(
        value,
        value - 1.96 * error,
        value + 1.96 * error,
        p,
        np.full(len(value), error),
        nan,
        nan,
        nan,
    )


def test_slope_and_spread_come_back():
    draw = np.random.default_rng(0)
    first = draw.normal(0, 0.1, 4000)
    found = learned(first, 1.8 * first + draw.normal(0, 0.01, 4000))
    assert found.slope == pytest.approx(1.8, abs=0.02) and found.spread == pytest.approx(
        0.01, rel=0.1
    )
    assert np.isnan(learned(first[:3], first[:3]).slope), "three heads teach nothing"


def test_intervals_hold_the_true_effect_where_first_order_alone_does_not():
    draw, error = np.random.default_rng(1), FirstOrderError(1.6, 0.01, 0.2, 20)
    first = draw.normal(0, 0.05, 5000)
    true = draw.normal(error.slope * first, error.of(first))
    seen = effects(first + draw.normal(0, 0.005, 5000), 0.005)
    alone = np.mean((seen.low <= true) & (true <= seen.high))
    held = with_error(seen, error)
    assert alone < 0.6 and np.mean((held.low <= true) & (true <= held.high)) >= 0.95
    assert (held.value == seen.value).all() and (held.p >= seen.p).all()


def test_without_anything_learned_there_is_no_interval():
    held = with_error(effects(np.array([0.1, -0.2]), 0.05), learned(np.zeros(0), np.zeros(0)))
    assert (
        np.isnan(held.low).all() and np.isnan(held.p).all() and held.value.tolist() == [0.1, -0.2]
    )
