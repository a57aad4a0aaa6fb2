"""Flips: the test of their direction and the churn, by hand and against slow obvious versions."""

from itertools import product

import numpy as np
import pytest

from engine.stats.resampling import EXCHANGES, churn, direction


def slowly(moved, unit, word):
    """Every exchange of both models within units, one after the other."""
    units = sorted(set(unit))

    def found(signs):
        sums = [
            sum(m * signs[u] for m, u, w in zip(moved, unit, word, strict=True) if w == one)
            for one in sorted(set(word))
        ]
        return sum(sums) ** 2 / max(sum(one**2 for one in sums), 1)

    each = [
        found(dict(zip(units, signs, strict=True))) for signs in product((-1, 1), repeat=len(units))
    ]
    was = found(dict.fromkeys(units, 1))
    return np.mean([(one > was + 1e-9) + (abs(one - was) <= 1e-9) / 2 for one in each])


@pytest.mark.parametrize("seed", range(4))
def test_the_direction_is_that_of_all_exchanges(seed):
    draw = np.random.default_rng(seed)
    unit = np.repeat(np.arange(10), 2)
    word, moved = unit % 3, draw.choice([-1, 0, 1, 1], 20)
    assert direction(moved, unit, word) == pytest.approx(slowly(moved, unit, word), abs=0.06)
    mixed = draw.permutation(20)
    assert direction(-moved[mixed], unit[mixed], word[mixed]) == direction(moved, unit, word)
    assert direction(moved, unit, word) >= 0.5 / (EXCHANGES + 1)


def test_churn_is_how_often_two_draws_differ():
    bad = np.array([1, 0, 0, 1, 1, 1, 0], dtype=bool)
    unit = np.array([0, 0, 0, 1, 1, 1, 2])
    pairs = [bad[a] != bad[b] for a in range(6) for b in range(6) if a != b and unit[a] == unit[b]]
    assert churn(bad, unit) == pytest.approx(np.mean(pairs))
    assert np.isnan(churn(bad[:1], unit[:1]))
