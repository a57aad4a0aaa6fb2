"""Bootstrap weights, intervals of means and of perplexity."""

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import PruneAuditError
from engine.stats import resampling
from engine.tracks.language_models.bias import lay_out
from engine.tracks.language_models.bias_intervals import (
    BiasBootstrap,
    PromptOrder,
    cluster_weights,
    mean_interval,
)
from engine.tracks.language_models.perplexity import (
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
