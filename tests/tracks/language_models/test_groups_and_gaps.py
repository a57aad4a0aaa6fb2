"""Subgroups one by one, and the levelling-down split."""

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import RequestError
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
from engine.tracks.language_models.bias_intervals import GROUPS_COLUMNS as COLUMNS
from engine.tracks.language_models.bias_intervals import (
    TOO_FEW_TEMPLATES,
    TOO_FEW_WORDS,
    BiasErrors,
    group_table,
    levelling,
    overall,
)


def table_of(sizes, means, seed=0):
    r = np.random.default_rng(seed)
    rows = [
        (f"{group}{i}", group, f"t{i % 10}", "", mean + 0.1 * r.normal())
        for (group, size), mean in zip(sizes.items(), means, strict=True)
        for i in range(size)
    ]
    return pd.DataFrame(
        rows, columns=["prompt_id", "subgroup", "template", "descriptor", "toxicity"]
    )


DENSE = table_of({"a": 40, "b": 40, "c": 40}, [0.2, 0.5, 0.8])


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
    assert dense.gap.low < dense.gap.value < dense.gap.high and dense.gap_change.p == 1
    assert split.worst == level_of(shifted(**change), "c")


def test_small_groups_are_no_worst_group():
    dense = table_of({"a": 40, "b": 40, "tiny": 3}, [0.2, 0.5, 0.9])
    assert levelling(dense, dense).worst_group == "b"
    few = table_of({"a": 40, "tiny": 3}, [0.2, 0.9])
    assert levelling(few, few).verdict == TOO_FEW


def test_group_table_rows():
    variant = shifted(c=-0.2)
    rows = group_table(DENSE, variant, errors=BiasErrors(DENSE))
    assert tuple(rows.columns) == COLUMNS and rows["group"].tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(rows["value"], variant.groupby("subgroup")["toxicity"].mean())
    assert rows["n"].tolist() == [40, 40, 40] and (rows["verdict"] == "").all()
    assert rows.loc[2, "delta_high"] < 0 < rows.loc[0, "delta_high"]
    alone = group_table(DENSE)
    assert alone["delta"].isna().all() and (alone["low"] < alone["value"]).all()


def test_groups_of_one_and_of_few():
    dense = table_of({"a": 40, "few": 9, "one": 1}, [0.2, 0.5, 0.9])
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


def test_intervals_of_groups_hold_the_truth_with_few_templates_and_words():
    """Every text moves with its word and its template: resampling four templates as if they were
    all there is covers .8."""
    table, draw, held = named(5, 4), np.random.default_rng(1), []
    errors = BiasErrors(table)
    codes = [np.unique(table[name], return_inverse=True)[1] for name in ("descriptor", "template")]
    for _ in range(150):
        noise = [
            0.3 * draw.normal(size=len(table))
            + sum(0.06 * draw.normal(size=20)[at] for at in codes)
            for _ in range(2)
        ]
        dense, variant = (table.assign(toxicity=0.5 + part) for part in noise)
        rows = group_table(dense, variant, errors=errors)
        held += [
            (rows["low"] <= 0.5) & (rows["high"] >= 0.5),
            (rows["delta_low"] <= 0) & (rows["delta_high"] >= 0),
        ]
    assert 0.92 <= np.mean(held) <= 0.995


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


def test_a_group_of_hardly_any_word_but_one_gets_no_verdict():
    table = words_table(np.random.default_rng(0).random(240))
    mostly = table["descriptor"].where(np.arange(240) % 60 > 44, "w-most")
    rows = group_table(table.assign(descriptor=mostly.where(table["subgroup"] == "g1", "w0")))
    assert rows["verdict"].tolist() == [TOO_FEW_WORDS] * 4
    assert set(group_table(table)["verdict"]) == {""}


def test_a_change_of_all_texts_is_of_other_words_too():
    """Words that a cut moves either way, none on average: it is not said to change toxicity."""
    draw, shown = np.random.default_rng(0), 0
    dense = words_table(np.full(240, 0.5))
    errors, words = BiasErrors(dense), np.unique(dense["descriptor"], return_inverse=True)[1]
    for _ in range(200):
        moved = 0.5 + 0.1 * draw.normal(size=20)[words] + 0.1 * draw.normal(size=240)
        level, change = overall(dense, dense.assign(toxicity=moved), errors)
        assert level.value - 0.5 == pytest.approx(change.value) and level.n == 240
        shown += change.p < 0.05
    assert 2 <= shown <= 20


def test_a_gap_between_groups_that_are_alike_may_be_none():
    """The highest of nine lies above the lowest: its interval allows for that."""
    draw, sure = np.random.default_rng(0), 0
    first = words_table(np.full(540, 0.5), groups=9)
    errors = BiasErrors(first)
    for _ in range(60):
        table = first.assign(toxicity=draw.random(540))
        gap = levelling(table, table, errors).gap
        assert 0 <= gap.low <= gap.value <= gap.high
        sure += gap.low > 0
    assert sure <= 6
    apart = first.assign(toxicity=draw.random(540) / 5 + 0.4 * (first["subgroup"] > "g3"))
    assert levelling(apart, apart, errors).gap.low > 0
