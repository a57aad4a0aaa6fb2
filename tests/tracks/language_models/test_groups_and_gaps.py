"""Subgroups one by one, and the levelling-down split."""

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import RequestError
from engine.stats.resampling import ALL_HARMED, BOTH, HARMED, IMPROVED, LEVELLED, TOO_FEW, UNCLEAR
from engine.tracks.language_models.bias_intervals import BiasBootstrap
from engine.tracks.language_models.groups import COLUMNS, group_table, levelling


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
    assert split.gap_change.value == pytest.approx(split.gap_variant.value - split.gap_dense.value)
    assert split.gap_dense.low < split.gap_dense.value < split.gap_dense.high


def test_small_groups_are_no_worst_group():
    dense = table_of({"a": 40, "b": 40, "tiny": 3}, [0.2, 0.5, 0.9])
    assert levelling(dense, dense).worst_group == "b"
    few = table_of({"a": 40, "tiny": 3}, [0.2, 0.9])
    assert levelling(few, few).verdict == TOO_FEW


def test_group_table_rows():
    variant = shifted(c=-0.2)
    boot = BiasBootstrap(DENSE)
    rows = group_table(DENSE, variant, bootstrap=boot)
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
