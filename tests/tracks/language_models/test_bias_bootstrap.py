"""Bootstrap intervals and paired differences: by hand, against loops, and their coverage."""

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import PruneAuditError
from engine.core.types import READINGS
from engine.tracks.language_models.bias import bias
from engine.tracks.language_models.bias_bootstrap import (
    BiasBootstrap,
    bias_interval,
    cluster_weights,
    mean_interval,
    paired_bias_difference,
)
from engine.tracks.language_models.perplexity_intervals import (
    block_weights,
    paired_perplexity_difference,
    perplexity_interval,
)


def table_of(n, *, seed=0, templates=8, groups=3, descriptors=4, effect=0.1, repeats=1):
    r = np.random.default_rng(seed)
    s = np.arange(n) % groups
    rows = pd.DataFrame(
        {
            "prompt_id": [f"p{i}" for i in range(n)],
            "subgroup": [f"s{k}" for k in s],
            "template": [f"t{k}" if templates else "" for k in r.integers(0, max(templates, 1), n)],
            "descriptor": [
                f"d{a}{b}" if descriptors else "" for a, b in zip(s, r.integers(0, max(descriptors, 1), n), strict=True)
            ],
        }
    )
    table = pd.concat([rows] * repeats, ignore_index=True)
    return table.assign(toxicity=r.random(n * repeats) + effect * np.tile(s, repeats))


def test_weights_are_products_of_cluster_counts():
    table = table_of(120)
    weights = cluster_weights(table, 50, seed=1)
    assert weights.shape == (50, 120) and weights.mean() == pytest.approx(1, abs=0.1)
    same = table.groupby(["subgroup", "template", "descriptor"]).indices
    for rows in same.values():
        assert (weights[:, rows] == weights[:, rows[:1]]).all()
    order = np.random.default_rng(0).permutation(120)
    np.testing.assert_array_equal(cluster_weights(table.iloc[order], 50, seed=1), weights[:, order])


@pytest.mark.parametrize("reading", READINGS)
def test_the_fast_replicates_equal_weighted_bias(reading):
    dense, variant = table_of(60, repeats=2), table_of(60, repeats=2, seed=0)
    variant["toxicity"] *= 0.8
    boot = BiasBootstrap(dense, n_boot=40, seed=3)
    per_prompt = dense.drop(columns="toxicity").drop_duplicates("prompt_id")
    weights = cluster_weights(per_prompt.assign(toxicity=0.0), 40, seed=3)
    means = [table.groupby("prompt_id")["toxicity"].mean() for table in (dense, variant)]
    pooled = [per_prompt.assign(toxicity=per_prompt["prompt_id"].map(mean)) for mean in means]
    slow = [[bias(table, reading, w) for w in weights] for table in pooled]
    _, fast = boot._evaluate(boot.toxicities(variant), reading)
    np.testing.assert_allclose(fast, slow[1], atol=1e-12)
    difference = boot.difference(variant, reading)
    assert difference.value == pytest.approx(bias(variant, reading) - bias(dense, reading))
    reps = np.subtract(slow[1], slow[0])
    assert difference.low == pytest.approx(np.percentile(reps - reps.mean(), 2.5) + difference.value)
    assert boot.interval(reading).value == pytest.approx(bias(dense, reading))


@pytest.mark.parametrize("reading", READINGS)
def test_identical_tables_differ_by_exactly_nothing(reading):
    table = table_of(90)
    difference = paired_bias_difference(table, table.sample(frac=1, random_state=2), reading)
    assert (difference.value, difference.low, difference.high, difference.p) == (0.0, 0.0, 0.0, 1.0)


def test_a_real_change_is_found_and_unpaired_tables_are_refused():
    dense = table_of(300, effect=0.4)
    variant = dense.assign(toxicity=dense["toxicity"] - 0.3 * (dense["subgroup"] == "s2"))
    found = paired_bias_difference(dense, variant)
    assert found.high < 0 and found.p < 0.01 and found.n == 300
    with pytest.raises(PruneAuditError, match="same prompts"):
        paired_bias_difference(dense, variant.iloc[1:])
    with pytest.raises(PruneAuditError, match="1 of 300 values of toxicity are missing"):
        paired_bias_difference(dense, variant.assign(toxicity=variant["toxicity"].where(variant.index > 0)))


def test_a_subgroup_of_one_prompt_gets_no_interval():
    table = pd.concat([table_of(40), table_of(1).assign(prompt_id="lone", subgroup="lone")], ignore_index=True)
    interval = bias_interval(table)
    assert interval.value > 0 and np.isnan(interval.low) and np.isnan(interval.high)
    difference = paired_bias_difference(table, table.assign(toxicity=0.5))
    assert np.isnan(difference.p) and np.isfinite(difference.value)


@pytest.mark.parametrize(("templates", "descriptors", "least", "most"), [(0, 0, 0.86, 1.0), (10, 4, 0.93, 1.0)])
def test_intervals_cover_the_level_measured_at_this_size(templates, descriptors, least, most):
    made = [
        bias_interval(table_of(120, seed=k, templates=templates, descriptors=descriptors), n_boot=150, seed=k)
        for k in range(80)
    ]
    level = np.mean([one.value for one in made])
    assert least <= np.mean([one.low <= level <= one.high for one in made]) <= most


def test_variants_draw_nothing_again_after_set_up(monkeypatch):
    """Draws cost a second at this size, a variant 12 ms."""
    dense = table_of(400, templates=26, groups=7, descriptors=8)
    boot = BiasBootstrap(dense, n_boot=50)
    first = boot.interval()
    monkeypatch.setattr("engine.tracks.language_models.bias_bootstrap.rng", None)
    monkeypatch.setattr("engine.tracks.language_models.bias_bootstrap._weights", None)
    assert boot.interval() == first
    assert all(boot.difference(dense.assign(toxicity=dense["toxicity"] * at)) for at in (0.5, 0.9))


def test_mean_interval_by_hand_and_clustered():
    assert mean_interval([1.0, 1.0, 1.0]).__dict__ == {"value": 1.0, "low": 1.0, "high": 1.0, "n": 3}
    assert np.isnan(mean_interval([1.0]).low) and np.isnan(mean_interval([1.0, 2.0], ["a", "a"]).low)
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
        {"window": np.arange(n) * 64, "nll": tokens * (2 + shift + 0.2 * r.normal(size=n)), "tokens": tokens}
    )


def test_perplexity_intervals():
    windows = windows_of(200)
    assert block_weights(200, 30).sum(axis=1).tolist() == [200.0] * 30
    interval = perplexity_interval(windows)
    assert interval.value == pytest.approx(np.exp(windows["nll"].sum() / windows["tokens"].sum()))
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * interval.value * 0.2 / 200**0.5, rel=0.35)
    same = paired_perplexity_difference(windows, windows.sample(frac=1, random_state=1))
    assert (same.value, same.low, same.high, same.p) == (0.0, 0.0, 0.0, 1.0)
    worse = paired_perplexity_difference(windows, windows.assign(nll=windows["nll"] + 0.05 * windows["tokens"]))
    assert worse.low > 0 and worse.p < 0.01
    assert np.isnan(perplexity_interval(windows_of(3)).low)
    with pytest.raises(PruneAuditError, match="different windows"):
        paired_perplexity_difference(windows, windows.assign(tokens=1))
    with pytest.raises(PruneAuditError, match="not finite"):
        perplexity_interval(windows.assign(nll=np.inf))
