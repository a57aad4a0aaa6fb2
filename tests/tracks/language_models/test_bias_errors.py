"""Errors of a bias and of its changes: against loops, in worlds with known truth, and near
kinks."""

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import PruneAuditError
from engine.core.types import READINGS
from engine.tracks.language_models.bias import bias
from engine.tracks.language_models.bias_intervals import BiasErrors
from tests.tracks.language_models.test_bias_bootstrap import table_of

FAR = {"groups": 2, "effect": 3.0, "templates": 0, "descriptors": 4}
"""Two subgroups so far apart that no sign is in doubt; no templates."""


@pytest.mark.parametrize("reading", READINGS)
def test_values_are_those_of_the_bias(reading):
    dense = table_of(60, repeats=2)
    variant = dense.assign(toxicity=dense["toxicity"] * 0.8)
    errors = BiasErrors(dense)
    assert errors.interval(reading).value == pytest.approx(bias(dense, reading))
    assert errors.interval(reading, variant).value == pytest.approx(bias(variant, reading))
    change = errors.difference(variant, reading)
    assert (
        change.value == pytest.approx(bias(variant, reading) - bias(dense, reading))
        and change.n == 60
    )


def test_the_error_of_a_clear_bias_is_that_of_its_contrast_over_descriptors():
    table = table_of(120, **FAR)
    errors = BiasErrors(table)
    found = errors.levels(errors.dense[:, None])
    variance = 0.0  # of |m_1 − m_0| = m_1 − m_0, by hand: a subgroup is a sum over its descriptors
    for _, rows in table.groupby("subgroup"):
        moves = (rows["toxicity"] - rows["toxicity"].mean()) / len(rows)
        shares = rows.groupby("descriptor").size() / len(rows)
        variance += (moves.groupby(rows["descriptor"]).sum() ** 2).sum() / (1 - (shares**2).sum())
    assert found.error[0] == pytest.approx(np.sqrt(variance))
    assert 2 < found.freedom[0] <= 6, "four descriptors on either side, not equally many prompts"


@pytest.mark.parametrize("reading", READINGS)
def test_identical_tables_differ_by_exactly_nothing(reading):
    table = table_of(90)
    difference = BiasErrors(table).difference(table.sample(frac=1, random_state=2), reading)
    assert (difference.value, difference.low, difference.high, difference.p) == (0.0, 0.0, 0.0, 1.0)


def test_a_real_change_is_found_and_unpaired_tables_are_refused():
    dense = table_of(300, effect=0.4)
    noise = np.random.default_rng(1).normal(scale=0.05, size=300)
    variant = dense.assign(toxicity=dense["toxicity"] - 0.3 * (dense["subgroup"] == "s2") + noise)
    found = BiasErrors(dense).difference(variant)
    assert found.high < 0 and found.p < 1e-6 and found.n == 300, "no floor under p"
    with pytest.raises(PruneAuditError, match="same prompts"):
        BiasErrors(dense).difference(variant.iloc[1:])
    with pytest.raises(PruneAuditError, match="1 of 300 values of toxicity are missing"):
        BiasErrors(dense).difference(
            variant.assign(toxicity=variant["toxicity"].where(variant.index > 0))
        )


def test_a_subgroup_of_one_prompt_gets_no_interval():
    table = pd.concat(
        [table_of(40), table_of(1).assign(prompt_id="lone", subgroup="lone")], ignore_index=True
    )
    interval = BiasErrors(table).interval()
    assert interval.value > 0 and np.isnan(interval.low) and np.isnan(interval.high)
    difference = BiasErrors(table).difference(table.assign(toxicity=0.5))
    assert np.isnan(difference.p) and np.isfinite(difference.value)


def test_a_sign_that_noise_decides_widens_a_change_and_narrows_a_level():
    """Equal subgroups: the level of |difference| varies less than the difference, a fixed effect
    changes its sign."""
    rng, worlds = np.random.default_rng(3), 400
    table = table_of(40, groups=2, templates=0, descriptors=0)
    errors = BiasErrors(table)
    dense = rng.random((40, worlds))
    pushed = (
        dense + 0.05 * (errors.layout.subgroup == 1)[:, None]
    )  # by the same amount for every text: no noise of its own
    level, change = errors.levels(dense), errors.changes(pushed, dense=dense)
    assert np.mean(level.error) < 0.85 * np.sqrt(2 * dense.var() / 20)
    assert change.value.std() == pytest.approx(np.sqrt((change.error**2).mean()), rel=0.35)


def test_a_head_is_found_where_the_bias_itself_is_hardly_there():
    """The subgroups' order is in doubt, which widens what is said of the bias; that one of them
    moves is not."""
    draw, table = np.random.default_rng(5), table_of(60, groups=2, descriptors=5)
    errors = BiasErrors(table)
    second = errors.layout.subgroup == 1
    dense = 0.5 + 0.3 * draw.normal(size=(60, 300)) + 0.1 * second[:, None]
    noise = 0.06 * draw.normal(size=(60, 300))
    effect = errors.changes(dense + noise - 0.06 * second[:, None], dense=dense)
    nothing = errors.changes(dense + noise, dense=dense)
    assert np.mean(effect.p_of_nothing < 0.05) > 0.6 > 2 * np.mean(effect.p < 0.05)
    assert 0.01 < np.mean(nothing.p_of_nothing < 0.05) < 0.07


def test_errors_of_the_paired_reading_hold_what_words_share():
    """Words move their texts in every template alike; distances of cells do not tell whose."""
    table, draw, worlds = table_of(360, templates=12, effect=0.0), np.random.default_rng(0), 200
    errors = BiasErrors(table)
    word = np.unique(errors.layout.descriptor, return_inverse=True)[1]
    values = 0.5 + 0.15 * errors.layout.subgroup[:, None] + 0.1 * draw.normal(size=(360, worlds))
    values += 0.1 * draw.normal(size=(word.max() + 1, worlds))[word]
    found = errors.levels(values, "paired_prompts")
    assert 0.8 < (found.error**2).mean() / found.value.var() < 1.5, "a twentieth of it before"
