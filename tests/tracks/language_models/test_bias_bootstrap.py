"""Bootstrap weights, intervals of means and of perplexity; errors of a bias and of its changes:
against loops, in worlds with known truth, and near kinks."""

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import PruneAuditError
from engine.core.types import READINGS
from engine.stats import resampling
from engine.tracks.language_models.bias import bias, lay_out
from engine.tracks.language_models.bias_intervals import (
    BiasBootstrap,
    BiasErrors,
    PromptOrder,
    cluster_weights,
    mean_interval,
)
from engine.tracks.language_models.perplexity import (
    block_weights,
    paired_perplexity_difference,
    perplexity_interval,
)


def table_of(
    n, *, seed=0, templates=8, groups=3, descriptors=4, effect=0.1, repeats=1, drawn=False
):
    """n prompts of subgroups in turn, or of drawn ones."""
    r = np.random.default_rng(seed)
    s = r.integers(0, groups, n) if drawn else np.arange(n) % groups
    rows = pd.DataFrame(
        {
            "prompt_id": [f"p{i}" for i in range(n)],
            "subgroup": [f"s{k}" for k in s],
            "template": [f"t{k}" if templates else "" for k in r.integers(0, max(templates, 1), n)],
            "descriptor": [
                f"d{a}{b}" if descriptors else ""
                for a, b in zip(s, r.integers(0, max(descriptors, 1), n), strict=True)
            ],
        }
    )
    table = pd.concat([rows] * repeats, ignore_index=True)
    return table.assign(toxicity=r.random(n * repeats) + effect * np.tile(s, repeats))


def test_weights_are_products_of_cluster_counts():
    table = table_of(120)
    weights = cluster_weights(lay_out(table), 50, 1)
    assert weights.shape == (50, 120) and weights.mean() == pytest.approx(1, abs=0.1)
    same = table.groupby(["subgroup", "template", "descriptor"]).indices
    for rows in same.values():
        assert (weights[:, rows] == weights[:, rows[:1]]).all()
    order = np.random.default_rng(0).permutation(120)
    np.testing.assert_array_equal(
        cluster_weights(lay_out(table.iloc[order]), 50, 1), weights[:, order]
    )


def test_many_prompts_are_resampled_as_few_are_from_draws_held_as_integers(monkeypatch):
    table = table_of(120)
    values, prompts = table["toxicity"].to_numpy(), np.arange(120) // 2
    weights = cluster_weights(lay_out(table), 50, 1)
    shown = mean_interval(values, prompts)
    draws = BiasBootstrap(table, 50).draws(table)
    monkeypatch.setattr(resampling, "HELD", 1000)
    many = cluster_weights(lay_out(table), 50, 1)
    assert many.dtype == np.uint16 and (many == weights).all()
    assert mean_interval(values, prompts).low == pytest.approx(shown.low, rel=1e-12)
    np.testing.assert_allclose(BiasBootstrap(table, 50).draws(table), draws, rtol=1e-12)


def test_mean_interval_by_hand_and_clustered():
    assert mean_interval([1.0, 1.0, 1.0]).__dict__ == {
        "value": 1.0,
        "low": 1.0,
        "high": 1.0,
        "n": 3,
    }
    assert np.isnan(mean_interval([1.0]).low) and np.isnan(
        mean_interval([1.0, 2.0], ["a", "a"]).low
    )
    values = np.random.default_rng(0).normal(size=400)
    plain = mean_interval(values)
    assert plain.high - plain.low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.1)
    repeated = mean_interval(np.repeat(values, 4), np.repeat(np.arange(400), 4))
    assert repeated.high - repeated.low == pytest.approx(plain.high - plain.low, rel=0.1)
    with pytest.raises(PruneAuditError, match="1 of 2 values are missing"):
        mean_interval([1.0, np.nan])


def windows_of(n, seed=0, shift=0.0):
    r = np.random.default_rng(seed)
    tokens = r.integers(50, 100, n)
    return pd.DataFrame(
        {
            "window": np.arange(n) * 64,
            "nll": tokens * (2 + shift + 0.2 * r.normal(size=n)),
            "tokens": tokens,
        }
    )


def test_perplexity_intervals():
    windows = windows_of(200)
    assert block_weights(200, 30).sum(axis=1).tolist() == [200.0] * 30
    interval = perplexity_interval(windows)
    assert interval.value == pytest.approx(np.exp(windows["nll"].sum() / windows["tokens"].sum()))
    assert interval.high - interval.low == pytest.approx(
        2 * 1.96 * interval.value * 0.2 / 200**0.5, rel=0.35
    )
    same = paired_perplexity_difference(windows, windows.sample(frac=1, random_state=1))
    assert (same.value, same.low, same.high, same.p) == (0.0, 0.0, 0.0, 1.0)
    worse = paired_perplexity_difference(
        windows, windows.assign(nll=windows["nll"] + 0.05 * windows["tokens"])
    )
    assert worse.low > 0 and worse.p < 0.01
    assert np.isnan(perplexity_interval(windows_of(15)).low)
    with pytest.raises(PruneAuditError, match="different windows"):
        paired_perplexity_difference(windows, windows.assign(tokens=1))
    with pytest.raises(PruneAuditError, match="not finite"):
        perplexity_interval(windows.assign(nll=np.inf))


@pytest.mark.parametrize("rows", (2, 5))
def test_means_of_prompts_are_to_the_bit_those_of_pandas(rows):
    generator = np.random.default_rng(rows)
    prompts = [f"p{at:02d}" for at in range(30)]
    verdicts = generator.random(30 * rows, dtype=np.float32).astype(float)
    table = pd.DataFrame({"prompt_id": np.repeat(prompts, rows), "toxicity": verdicts})
    table = table.assign(subgroup=np.repeat(["a", "b"], 15 * rows), template="t", descriptor="d")
    order = PromptOrder(table)
    mixed = table.sample(frac=1, random_state=1)  # rows of one prompt in another order
    for given in (table, mixed):
        expected = given.groupby("prompt_id")["toxicity"].mean().reindex(order.prompts).to_numpy()
        np.testing.assert_array_equal(order.toxicities(given), expected)
    with pytest.raises(PruneAuditError, match="cannot be paired"):
        order.toxicities(table.iloc[1:])


@pytest.mark.parametrize("blocks", (16, 30))
def test_intervals_of_few_blocks_of_text_hold_as_often_as_they_say(blocks):
    draw, held = np.random.default_rng(blocks), 0
    dense = pd.DataFrame({"window": np.arange(blocks), "nll": 90.0, "tokens": 30})
    for _ in range(300):
        worse = dense.assign(nll=93.0 + 3.0 * draw.normal(size=blocks))
        change = paired_perplexity_difference(dense, worse)
        held += change.low <= np.exp(3.1) - np.exp(3.0) <= change.high
    assert 0.925 <= held / 300 <= 0.99


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
    assert change.value == pytest.approx(bias(variant, reading) - bias(dense, reading))
    assert change.n == 60


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
