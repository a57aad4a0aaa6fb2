"""Changes of sets, learnt from measured ones: exact where units only add up, honest where they do
not."""

import numpy as np

from engine.core.types import rng
from engine.stats.reliability import ENOUGH, MOST, ends, learnt


def world(sets, noise=0.0, pairs=0.0, seed=0):
    """Sets of 2 to 8 of 10 units and their change: what each adds, what two of them add together,
    and noise."""
    draw = rng("measured sets", seed)
    member = np.zeros((sets, 10))
    for row in member:
        row[draw.choice(10, draw.integers(2, 9), replace=False)] = 1
    singles = np.linspace(-1, 1, 10)
    change = (
        member @ singles + pairs * member[:, 0] * member[:, 1] + noise * draw.standard_normal(sets)
    )
    return member, change[:, None]


def test_units_that_add_up_are_found_and_the_empty_set_changes_nothing():
    model = learnt(*world(200))
    value, low, high = model.guess(np.eye(10))
    np.testing.assert_allclose(value[:, 0], np.linspace(-1, 1, 10), atol=0.05)
    assert (low <= value).all() and (value <= high).all()
    assert [part.tolist() for part in model.guess(np.zeros((1, 10)))] == [[[0.0]]] * 3
    assert (model.sets, model.most) == (200, 8)


def test_what_two_units_do_together_is_found_too():
    model = learnt(*world(400, pairs=1.0))
    both = np.zeros((1, 10))
    both[0, :2] = 1
    alone = sum(model.guess(np.eye(10)[[unit]])[0].item() for unit in (0, 1))
    assert 0.6 < model.guess(both)[0].item() - alone < 1.2


def test_intervals_hold_sets_that_were_not_learnt_from():
    held = []
    for seed in range(5):
        member, change = world(400, noise=0.3, pairs=1.0, seed=seed)
        _, low, high = learnt(member[:200], change[:200]).guess(member[200:])
        held.append(((low <= change[200:]) & (change[200:] <= high)).mean())
    assert 0.92 < np.mean(held) < 0.985


def test_residuals_are_those_of_leaving_out_each_set():
    member, change = world(60, noise=0.2)
    model = learnt(member, change)
    for place in (0, 17):
        others = np.delete(np.arange(60), place)
        values, vectors = np.linalg.eigh(_kernel(member[others], member[others]))
        weights = vectors @ ((vectors.T @ change[others, 0]) / (values + model.shrinkage[0]))
        again = change[place, 0] - _kernel(member[[place]], member[others]) @ weights
        np.testing.assert_allclose(model.residuals[0, place], again, atol=1e-8)


def _kernel(one, other):
    shared = one @ other.T
    return shared + 0.05 * shared * (shared - 1)


def test_too_few_sets_teach_nothing_and_many_are_thinned():
    assert learnt(*world(ENOUGH - 1)) is None
    assert learnt(*world(MOST + 300)).sets == MOST


def test_ends_by_ranks_hold_zero():
    low, high = ends(np.arange(1.0, 41.0))
    assert (low, high) == (0.0, 40.0)
    low, high = ends(np.arange(-500.0, 500.0))
    assert low == -476.0 or low == -475.0
    assert 474.0 <= high <= 475.0


def test_sets_like_one_are_left_out_with_it_for_its_interval():
    """Near copies of a set tell of it, other sets do not."""
    member, change = world(60, noise=0.05)
    copies = np.repeat(np.eye(10)[[0]] + np.eye(10)[[9]], 12, axis=0)
    both, changes = np.vstack([member, copies]), np.vstack([change, np.full((12, 1), 3.0)])
    alone, together = learnt(both, changes), learnt(both, changes, alike=0.5)
    assert together.high[0] > 1.3 * alone.high[0]
    assert (alone.weights == together.weights).all()
