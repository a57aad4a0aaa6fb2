"""Errors of bias, of its changes, of subgroups and of perplexity: against loops, in worlds with
known truth, and near kinks; the levelling-down split. How often they hold in small simulations."""

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import PruneAuditError, RequestError
from engine.core.types import READINGS
from engine.stats import resampling
from engine.stats.resampling import (
    ALL_HARMED,
    BOTH,
    HARMED,
    IMPROVED,
    LEVELLED,
    TOO_FEW,
    UNCLEAR,
    Interval,
)
from engine.tracks.language_models.bias import bias, lay_out
from engine.tracks.language_models.bias_intervals import (
    GROUPS_COLUMNS,
    TOO_FEW_TEMPLATES,
    TOO_FEW_WORDS,
    BiasBootstrap,
    BiasErrors,
    PromptOrder,
    cluster_weights,
    group_table,
    levelling,
    mean_interval,
    overall,
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


def sized(sizes, means, seed=0):
    r = np.random.default_rng(seed)
    rows = [
        (f"{group}{i}", group, f"t{i % 10}", "", mean + 0.1 * r.normal())
        for (group, size), mean in zip(sizes.items(), means, strict=True)
        for i in range(size)
    ]
    return pd.DataFrame(
        rows, columns=["prompt_id", "subgroup", "template", "descriptor", "toxicity"]
    )


DENSE = sized({"a": 40, "b": 40, "c": 40}, [0.2, 0.5, 0.8])


NOISE = 0.02 * np.random.default_rng(9).normal(size=len(DENSE))
NOISE -= pd.Series(NOISE).groupby(DENSE["subgroup"]).transform("mean").to_numpy()


def shifted(**by):
    return DENSE.assign(toxicity=DENSE["toxicity"] + DENSE["subgroup"].map(by).fillna(0.0) + NOISE)


def level_of(table, group):
    """The interval that the table of groups shows."""
    row = group_table(table).set_index("group").loc[group]
    return Interval(*row[["value", "low", "high"]].tolist(), n=int(row["n"]))


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({"c": -0.2}, IMPROVED),
        ({"a": 0.2}, LEVELLED),
        ({"a": 0.1, "c": -0.1}, BOTH),
        ({}, UNCLEAR),
        ({"b": 0.2}, UNCLEAR),
        ({"c": 0.1}, HARMED),
        ({"a": 0.2, "c": 0.2}, ALL_HARMED),
    ],
)
def test_verdicts(change, verdict):
    split = levelling(DENSE, shifted(**change))
    assert split.verdict == verdict
    assert (split.worst_group, split.best_group) == ("c", "a")
    assert split.worst_change.value == pytest.approx(change.get("c", 0.0), abs=0.02)
    dense = levelling(DENSE, DENSE)
    assert split.gap_change.value == pytest.approx(split.gap.value - dense.gap.value)
    assert 0 < dense.gap.low < dense.gap.value < dense.gap.high and dense.gap_change.p == 1
    assert split.worst == level_of(shifted(**change), "c")


def test_small_groups_are_no_worst_group():
    dense = sized({"a": 40, "b": 40, "tiny": 3}, [0.2, 0.5, 0.9])
    assert levelling(dense, dense).worst_group == "b"
    few = sized({"a": 40, "tiny": 3}, [0.2, 0.9])
    assert levelling(few, few).verdict == TOO_FEW


def test_group_table_rows():
    variant = shifted(c=-0.2)
    rows = group_table(DENSE, variant, errors=BiasErrors(DENSE))
    assert tuple(rows.columns) == GROUPS_COLUMNS and rows["group"].tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(rows["value"], variant.groupby("subgroup")["toxicity"].mean())
    assert rows["n"].tolist() == [40, 40, 40] and (rows["verdict"] == "").all()
    assert rows.loc[2, "delta_high"] < 0 < rows.loc[0, "delta_high"]
    few = DENSE[10:], variant[10:]  # groups of unlike sizes
    level, change = overall(*few, BiasErrors(few[0]))
    before, after = (table["toxicity"].mean() for table in few)
    assert (level.value, change.value) == pytest.approx((after, after - before))
    assert level.n == len(few[0])
    alone = group_table(DENSE)
    assert alone["delta"].isna().all() and (alone["low"] < alone["value"]).all()


def test_groups_of_one_and_of_few():
    dense = sized({"a": 40, "few": 9, "one": 1}, [0.2, 0.5, 0.9])
    rows = group_table(dense, dense).set_index("group")
    assert rows["verdict"].to_dict() == {
        "a": "",
        "few": "too few prompts",
        "one": "too few prompts",
    }
    assert np.isnan(rows.loc["one", "low"]) and np.isfinite(rows.loc["few", "low"])


def test_perplexity_per_group_weights_tokens():
    tokens = np.tile([5, 10], len(DENSE) // 2)
    table = DENSE.drop(columns="toxicity").assign(nll=tokens * 2.0, tokens=tokens)
    table.loc[0, "nll"] = 100.0
    rows = group_table(table, table, metric="perplexity").set_index("group")
    part = table[table["subgroup"] == "a"]
    assert rows.loc["a", "value"] == pytest.approx(np.exp(part["nll"].sum() / part["tokens"].sum()))
    assert rows.loc["b", "value"] == pytest.approx(np.exp(2)) and (rows["delta"] == 0).all()
    with pytest.raises(RequestError, match="Known: perplexity, toxicity"):
        group_table(DENSE, metric="loss")


def named(words, templates):
    """The dense table with so many words for each group, and so many templates."""
    place = DENSE.groupby("subgroup").cumcount()
    return DENSE.assign(
        descriptor=DENSE["subgroup"] + (place % words).astype(str),
        template="t" + (place // 2 % templates).astype(str),
    )


@pytest.mark.parametrize(
    ("words", "templates", "why"),
    [
        (3, 3, ""),
        (2, 12, TOO_FEW_WORDS),
        (1, 12, TOO_FEW_WORDS),
        (5, 2, TOO_FEW_TEMPLATES),
        (5, 1, ""),
    ],
)
def test_where_words_or_templates_are_too_few_for_any_interval_there_is_no_verdict(
    words, templates, why
):
    table = named(words, templates)
    rows = group_table(table)
    assert (rows["verdict"] == why).all() and rows["low"].notna().all()
    assert levelling(table, table).verdict == (why or UNCLEAR)
    found, is_sure = BiasErrors(table).difference(table), words > 1 and templates != 2
    assert found.value == 0 and np.isfinite([found.low, found.p]).all() == is_sure


def words_table(toxicity, words=5, groups=4):
    """Groups of as many prompts, each of so many words and ten templates."""
    n = len(toxicity) // groups
    rows = [
        (f"{g}-{i:03d}", f"g{g}", f"t{i // words % 10}", f"w{g}-{i % words}")
        for g in range(groups)
        for i in range(n)
    ]
    table = pd.DataFrame(rows, columns=["prompt_id", "subgroup", "template", "descriptor"])
    return table.assign(toxicity=toxicity)


def test_sixty_texts_of_which_none_is_toxic_do_not_show_that_none_can_be():
    none = words_table(np.zeros(240))
    row = group_table(none, none).iloc[0]
    assert row["low"] == row["value"] == 0 and 0.05 < row["high"] < 0.08
    assert row["delta"] == 0 and 0.04 < row["delta_high"] == -row["delta_low"] < 0.06


def test_verdicts_that_vary_little_say_more_than_toxic_or_not():
    table = words_table(np.tile([0.04, 0.06], 1200))
    row = group_table(table, table).iloc[0]
    assert row["high"] - 0.05 == pytest.approx(0.05 - row["low"], rel=0.15) and row["low"] < 0.047


@pytest.mark.parametrize("family", ["advice", "groups", "language_models"])
def test_bars_hold_in_small_simulations(family):
    """Those of the benchmark, and what so few worlds leave open. "no harm" takes more worlds."""
    worlds = pytest.importorskip(f"benchmarks.calibration.{family}")
    for one in worlds.measures(quick=True):
        if one.bar is not None and "no harm" not in one.name:
            low = one.bar if one.at_least else -np.inf if one.floor is None else one.floor
            high = np.inf if one.at_least else one.bar
            assert low - 0.06 <= one.value <= high + 0.06, one.name


def test_intervals_of_few_blocks_of_text_hold_as_often_as_they_say():
    worlds = pytest.importorskip("benchmarks.calibration.groups")
    assert [one for one in worlds._text(300) if one.holds is False] == []
