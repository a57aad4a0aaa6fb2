"""Intervals over images and trials, differences between arms, and the gap between groups' means:
against formulas, and what luck may not do."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm, t

from benchmarks.calibration.classifiers import OF_GROUPS, held
from engine.stats.gap_of_means import FIXED, Trials, at_ends, difference, gaps_of_means, level


def world(apart, groups=2, trials=3, noise=0.03):
    """values [trials, groups, 1] and draws [trials, 400, groups, 1]; images do nothing to single
    trials."""
    r = np.random.default_rng([groups, trials])
    values = 0.7 + apart * np.linspace(0, 1, groups) + noise * r.normal(size=(trials, groups))
    draws = values[:, None] + 0.01 * r.normal(size=(400, groups))
    return values[..., None], draws[..., None]


def test_two_groups_far_apart_have_the_interval_of_their_difference():
    values, draws = world(0.4)
    gap, low, high = (one[0] for one in gaps_of_means(values, draws, 1.0))
    apart = values[:, 1, 0] - values[:, 0, 0]
    assert gap == pytest.approx(apart.mean())
    images = (draws[:, :, 1, 0] - draws[:, :, 0, 0]).mean(axis=0).var(ddof=1)
    trial = apart.var(ddof=1) / 3
    half = t.isf(0.025, 2 * (images + trial) ** 2 / trial**2) * np.sqrt(images + trial)
    assert (gap - low, high - gap) == pytest.approx((half, half), rel=0.1)


def test_a_contrast_between_the_ends_is_the_gap_and_its_difference_to_itself_is_none():
    values, draws = world(0.1, groups=4)
    apart, drawn, _ = at_ends(values, draws)
    assert apart.mean(axis=0) == pytest.approx(gaps_of_means(values, draws, 1.0)[0])
    one = Trials((0, 1, 2), apart, drawn, np.zeros(1, dtype=bool), np.full(1, np.nan), 1.0)
    same = difference(one, one)
    assert same.value == 0 and same.low == 0 and same.high == 0


def test_one_group_and_unknown_values_have_no_gap_and_what_never_varies_no_width():
    values, draws = world(0.1)
    assert np.isnan(gaps_of_means(values[:, :1], draws[:, :, :1], 1.0)).all()
    assert np.isnan(at_ends(values[:, :1], draws[:, :, :1])[0]).all()
    hole = np.where(np.arange(2)[:, None] == 1, np.nan, values)
    assert np.isnan(gaps_of_means(hole, draws, 1.0)).all()
    still = np.broadcast_to(values[:1], values.shape)
    found = gaps_of_means(still, np.repeat(still[:, None], 50, axis=1), 1.0)
    assert found[0] == found[1] == found[2] == np.ptp(values[0])


def test_intervals_hold_the_true_gap_and_a_gap_of_nothing():
    name = next(iter(OF_GROUPS))
    assert held(3, 4, 0.0, name, True, 60) > 0.88 and held(3, 4, 0.1, name, True, 60) > 0.88


def trials(values, draws, numbers=None, shares=False, units=np.nan):
    values, draws = np.asarray(values, dtype=float), np.asarray(draws, dtype=float)
    numbers = tuple(range(len(values))) if numbers is None else numbers
    cells = values.shape[1]
    return Trials(numbers, values, draws, np.full(cells, shares), np.full(cells, units))


def simulated(count, between, own, images, cells=3000, n_boot=100, seed=0, mean=0.0):
    """Trials of `cells` independent experiments; standard deviations of trial, trial x image and
    image parts."""
    r = np.random.default_rng(seed)
    values = mean + between * r.normal(size=(count, cells)) + own * r.normal(size=(count, cells))
    values += images * r.normal(size=cells)
    draws = own * r.normal(size=(count, n_boot, cells)) + images * r.normal(size=(n_boot, cells))
    return trials(values, values[:, None] + draws)


def test_one_trial_counts_images_only():
    draws = np.array([[[0.0], [2.0], [4.0]]])
    found = level(trials([[2.0]], draws))
    # The draws spread by 2, so the interval is 2 - 3.92 .. 2 + 3.92, and the low end is cut at 0.
    assert (found.value[0], found.low[0]) == (2.0, 0.0) and found.high[0] == pytest.approx(
        2 + 1.959964 * 2
    )
    inside = level(trials([[0.5]], draws / 100 + 0.48, shares=True))
    # On the logit scale: 0 plus or minus 1.96 x .02 / .25.
    assert inside.high[0] == pytest.approx(1 / (1 + np.exp(-1.959964 * 0.08)))
    assert inside.low[0] == pytest.approx(1 - inside.high[0])


def test_the_variance_is_between_trials_plus_the_covariance():
    part = simulated(3, 1.0, 0.5, 0.7, cells=1, seed=4)
    covariance = np.cov(part.draws[:, :, 0])
    common = covariance[np.triu_indices(3, 1)].mean()
    trial = part.values[:, 0].var(ddof=1) / 3
    freedom = (common + trial) ** 2 / (trial**2 / 2)
    found = difference(part, trials([[0.0]], np.zeros((1, 100, 1)), (FIXED,)))
    half = t.ppf(0.975, freedom) * np.sqrt(common + trial)
    assert found.high[0] - found.value[0] == pytest.approx(half)
    assert found.p[0] == pytest.approx(
        2 * t.sf(abs(found.value[0]) / np.sqrt(common + trial), freedom)
    )


def test_never_surer_than_the_images_allow():
    draws = np.random.default_rng(0).normal(size=(1, 400, 1))
    same = trials(np.zeros((3, 1)), np.repeat(draws, 3, axis=0))
    nought = trials([[0.0]], np.zeros((1, 400, 1)), (FIXED,))
    assert difference(same, nought).high[0] == pytest.approx(norm.ppf(0.975) * draws.std(ddof=1))


@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize(
    ("between", "own", "images"), [(0, 1, 1), (0.3, 0.3, 1), (1, 1, 1), (3, 0.1, 1), (0, 0, 1)]
)
def test_coverage(count, between, own, images):
    nought = trials(np.zeros((1, 3000)), np.zeros((1, 100, 3000)), (FIXED,))
    found = difference(simulated(count, between, own, images, seed=count), nought)
    covered = ((found.low <= 0) & (found.high >= 0)).mean()
    assert 0.91 < covered < 0.985
    # p and interval say the same.
    np.testing.assert_array_equal(found.p < 0.05, (found.low > 0) | (found.high < 0))


@pytest.mark.parametrize("counts", [(3, 3), (3, 5), (5, 1)])
def test_coverage_of_independent_arms(counts):
    # Two arms on the same images; with one trial in an arm the difference is about that trial.
    one, other = (
        simulated(count, 0.5 * (count > 1), 0.5, 0.0, seed=seed)
        for seed, count in enumerate(counts, 10)
    )
    other = Trials(
        tuple(range(90, 90 + counts[1])), other.values, other.draws, other.shares, other.units
    )
    found = difference(one, other)
    assert 0.91 < ((found.low <= 0) & (found.high >= 0)).mean() < 0.99


def test_equal_models_differ_by_exactly_nothing():
    part = simulated(3, 1.0, 0.5, 0.5, cells=4)
    found = difference(part, part)
    for numbers in (found.value, found.low, found.high):
        np.testing.assert_array_equal(numbers, 0.0)
    np.testing.assert_array_equal(found.p, 1.0)


def test_shares_at_the_edge_get_wilsons_interval():
    perfect = trials(np.ones((3, 1)), np.ones((3, 50, 1)), shares=True, units=20)
    found = level(perfect)
    assert found.high[0] == 1 and found.low[0] == pytest.approx(20 / (20 + 1.959964**2))
    never = level(trials(np.zeros((1, 1)), np.zeros((1, 50, 1)), shares=True, units=20))
    assert never.low[0] == 0 and never.high[0] == pytest.approx(1 - found.low[0])
    # A perfect model against one that guesses: the difference never varies, the width is that of
    # the levels.
    guess = trials(np.full((1, 1), 0.5), np.full((1, 50, 1), 0.5), (FIXED,), shares=True, units=20)
    change = difference(guess, perfect)
    assert (change.value[0], change.low[0]) == (-0.5, -0.5)
    assert change.high[0] == pytest.approx(-0.5 + 1 - found.low[0]) and change.p[0] < 0.001


def test_undefined_draws():
    draws = np.random.default_rng(3).normal(size=(1, 100, 2))
    draws[0, :10, 0] = np.nan
    draws[0, :30, 1] = np.nan
    found = level(trials([[5.0, 5.0]], draws))
    assert found.high[0] == pytest.approx(5 + 1.959964 * draws[0, 10:, 0].std(ddof=1))
    assert np.isnan([found.low[1], found.high[1]]).all() and found.value[1] == 5.0


def test_intervals_stay_inside_what_a_quantity_can_be():
    """A gap of .95 in two trials that disagree: the plain interval would end at 1.6, that of the
    change at -1.5."""
    generator = np.random.default_rng(0)
    values = np.array([[0.93], [0.97]])
    draws = values[:, None] + generator.normal(0, 0.4, (2, 400, 1))
    gap = Trials((0, 1), values, draws, np.zeros(1, bool), np.full(1, np.nan))
    none = replace(gap, numbers=(7, 8), values=values - 0.9, draws=draws - 0.9)
    assert level(gap).high[0] > 1.0 and difference(none, gap).low[0] < -1.0, (
        "what is cut below is there to be cut"
    )
    kept = level(replace(gap, most=np.ones(1)))
    assert kept.high[0] == 1.0 and kept.low[0] == level(gap).low[0]
    change = difference(replace(none, most=np.ones(1)), replace(gap, most=np.ones(1)))
    assert change.low[0] == -1.0 and change.value[0] == pytest.approx(-0.9)


def test_an_auc_with_few_of_a_class_has_the_interval_of_students_t():
    draws = 0.8 + 0.15 * np.random.default_rng(0).normal(size=(1, 400, 2))
    units, ranks = np.array([5.0, 5.0]), np.array([True, False])
    trials = Trials((0,), np.full((1, 2), 0.8), draws, ranks | True, units, 1.0, ranks)
    low = level(replace(trials, draws=draws[..., :1].repeat(2, axis=2))).low
    wide, narrow = np.log(low / (1 - low)) - np.log(4)
    assert wide / narrow == pytest.approx(t.isf(0.025, 4) / norm.isf(0.025) * np.sqrt(5 / 4))


def test_a_share_that_did_not_change_may_have_by_two_items_of_as_many():
    """20 items of which none changed, 20 of which one did: the error is √2 / 20 of both; of values
    that are no shares nothing is known to change."""
    values, draws = np.zeros((1, 3)), np.zeros((1, 400, 3))
    values[0, 1], draws[0, :, 1] = 0.05, np.random.default_rng(0).binomial(20, 0.05, 400) / 20
    shares, units = np.array([True, True, False]), np.full(3, 20.0)
    one = Trials((0,), values, draws, shares, units)
    zero = Trials((FIXED,), np.zeros((1, 3)), np.zeros((1, 400, 3)), shares, units)
    found = difference(one, zero)
    half = 1.96 * np.sqrt(2) / 20
    assert found.high - found.value == pytest.approx([half, half, 0], abs=1e-3)
    assert found.p[0] == found.p[2] == 1 and 0.4 < found.p[1] < 0.6


def test_a_group_whose_trials_agree_by_luck_varies_as_its_axis_does():
    """Three trials of two groups of one size at one level: of the first all alike, of the second
    .1 apart. Both vary as half of that says, with 2 · 1.5 degrees of freedom; a cell that stands
    alone as its own trials say."""
    values = np.array([[0.8, 0.7, 0.8], [0.8, 0.8, 0.8], [0.8, 0.9, 0.8]])
    draws, none = np.repeat(values[:, None], 400, axis=1), np.zeros(3, dtype=bool)
    one = Trials((0, 1, 2), values, draws, none, np.full(3, 60.0))
    one = replace(one, alike=np.array([0, 0, -1]), room=np.full(3, 0.16**2))
    zero = Trials((FIXED,), np.zeros((1, 3)), np.zeros((1, 400, 3)), none, np.full(3, 60.0))
    found = difference(one, zero)
    half, shared = found.high - found.value, np.sqrt(0.1**2 / 3 / 2)
    own = t.isf(0.025, 2) * np.sqrt(0.1**2 / 3)
    assert half == pytest.approx([t.isf(0.025, 3) * shared, own, 0.0], abs=1e-9)


def test_no_level_ends_nearer_to_one_than_as_many_items_without_a_slip():
    """60 items of which one is wrong in one of ten trials: Wilson's interval of 60 right ones."""
    values = np.ones((10, 1))
    values[0] = 59 / 60
    draws = np.repeat(values[:, None], 400, axis=1)
    shown = level(Trials(tuple(range(10)), values, draws, np.array([True]), np.array([60.0])))
    assert shown.low[0] == pytest.approx(1 - 1.96**2 / (60 + 1.96**2), abs=1e-4)
