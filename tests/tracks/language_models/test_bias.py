"""Bias and its null band, against slow loops and by hand."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

from benchmarks.calibration.language_models import group_band
from engine.core.errors import PruneAuditError, RequestError
from engine.tracks.language_models.bias import Exchanges, bias, lay_out, null_band
from tests.tracks.language_models.test_bias_intervals import table_of as bootstrap_table

table_of = partial(bootstrap_table, templates=6, effect=0.0, drawn=True)


def cells(rows):
    return pd.DataFrame(
        [(f"p{i}", s, t, "d", x) for i, (s, t, x) in enumerate(rows)],
        columns=["prompt_id", "subgroup", "template", "descriptor", "toxicity"],
    )


def slow_bias(table, reading):
    groups = sorted(set(table["subgroup"]))
    if reading == "paired_prompts":
        total = 0.0
        for group in groups:
            deviations = []
            for _, frame in table.groupby("template"):
                means = frame.groupby("subgroup")["toxicity"].mean()
                if len(means) >= 2 and group in means:
                    deviations.append(abs(means.mean() - means[group]))
            total += np.mean(deviations)
        return total
    means = [table[table["subgroup"] == group]["toxicity"].mean() for group in groups]
    centre = table["toxicity"].mean() if reading == "group_means" else np.mean(means)
    return sum(abs(centre - mean) for mean in means)


@pytest.mark.parametrize("reading", ["group_means", "subgroup_mean_of_means", "paired_prompts"])
def test_table_1_of_the_paper(reading):
    assert bias(cells([("trans", "x", 0.6), ("gay", "x", 0.8)]), reading) == pytest.approx(0.2)


@pytest.mark.parametrize("reading", ["group_means", "subgroup_mean_of_means", "paired_prompts"])
def test_readings_agree_with_loops_and_ignore_row_order(reading):
    table = table_of(90, effect=0.1)
    assert bias(table, reading) == pytest.approx(slow_bias(table, reading))
    assert bias(table.sample(frac=1, random_state=1), reading) == pytest.approx(
        bias(table, reading)
    )


def test_paired_prompts_uses_shared_frames():
    table = cells([("a", "x", 0.2), ("b", "x", 0.6), ("a", "only a", 1.0)])
    assert bias(table, "paired_prompts") == pytest.approx(0.4)
    assert np.isnan(bias(cells([("a", "x", 0.2), ("b", "y", 0.6)]), "paired_prompts"))


def test_faults_are_said():
    table = table_of(10)
    with pytest.raises(RequestError, match="Known: group_means"):
        bias(table, "mean")
    with pytest.raises(PruneAuditError, match="1 of 10 toxicity scores are missing"):
        bias(table.assign(toxicity=[np.nan] + [0.0] * 9))
    with pytest.raises(PruneAuditError, match="lacks the columns template"):
        bias(table.drop(columns="template"))


def slow_null(table, n, seed):
    """Shuffle labels within template with a plain loop."""
    r = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        labels = table.groupby("template")["subgroup"].transform(
            lambda part: r.permutation(part.to_numpy())
        )
        out.append(slow_bias(table.assign(subgroup=labels), "group_means"))
    return np.array(out)


def test_the_null_band_agrees_with_a_loop():
    table = table_of(80, effect=0.2)
    band, slow = null_band(table, n_permutations=2000), slow_null(table, 120, 0)
    assert band.mean == pytest.approx(slow.mean(), abs=4 * slow.std() / 120**0.5)
    assert band.high == pytest.approx(np.percentile(slow, 97.5), rel=0.2)
    assert band.n == 80
    assert band.value == pytest.approx(bias(table))


def test_a_template_effect_is_not_mistaken_for_bias():
    # Toxicity depends on the template only, and templates are unevenly spread over subgroups.
    rows = [("a" if i % 4 else "b", "x", 1.0) for i in range(40)] + [
        ("b" if i % 4 else "a", "y", 0.0) for i in range(40)
    ]
    assert null_band(cells(rows), n_permutations=200).p == 1.0


def test_p_is_uniform_when_subgroups_are_equal_and_small_when_not():
    p = np.array([null_band(table_of(60, seed=seed), n_permutations=99).p for seed in range(200)])
    assert abs((p <= 0.05).mean() - 0.05) < 0.045
    assert abs((p <= 0.5).mean() - 0.5) < 0.11
    assert null_band(table_of(200, effect=0.3), n_permutations=199).p == pytest.approx(1 / 200)


def test_rows_of_one_prompt_move_together():
    # Two prompts per subgroup, 50 identical rows each: only the labels of 4 units can be exchanged.
    rows = cells([("a", "x", 1.0), ("a", "x", 1.0), ("b", "x", 0.0), ("b", "x", 0.0)])
    many = pd.concat([rows] * 50, ignore_index=True)
    assert null_band(many, n_permutations=600).p == pytest.approx(1 / 3, abs=0.08)


def test_fallbacks_are_noted():
    apart = cells([("a", "x", 1.0), ("a", "x", 0.9), ("b", "y", 0.0), ("b", "y", 0.1)])
    band = null_band(apart, n_permutations=100)
    assert "freely" in band.notes[0] and band.p > 0.01
    nouns = cells(
        [
            ("a", "x × aunt", 1.0),
            ("b", "x × dad", 0.0),
            ("a", "x × kid", 0.3),
            ("b", "x × kid", 0.4),
        ]
    )
    band = null_band(nouns, n_permutations=200)
    assert band.notes == (
        "Labels of 2 of 4 prompts were exchanged within the template, not the noun.",
    )
    plain = null_band(table_of(30).assign(template=""), n_permutations=20)
    assert plain.notes == (
        "The prompts name no templates: labels were exchanged freely between all prompts.",
    )
    pairs = cells([("a", "x", 0.1), ("b", "x", 0.6), ("a", "y", 0.2), ("b", "y", 0.4)])
    band = null_band(pairs, "paired_prompts", n_permutations=50)
    assert band.p == 1.0 and "cannot tell" in band.notes[-1]


def words_of(n, words=6, groups=3, spread=0.0, effect=0.0, seed=0):
    """n prompts per subgroup with descriptors that differ by `spread`, and subgroups that differ by
    `effect`."""
    r = np.random.default_rng(seed)
    s, d = np.repeat(np.arange(groups), n), np.tile(np.arange(n) % words, groups)
    table = pd.DataFrame(
        {"prompt_id": [f"p{i}" for i in range(groups * n)], "subgroup": [f"s{k}" for k in s]}
    )
    table["descriptor"] = [f"d{a}-{b}" for a, b in zip(s, d, strict=True)]
    table["template"] = [f"t{k}" for k in r.integers(0, 8, groups * n)]
    tilt = spread * r.normal(size=(groups, words))[s, d]
    return table.assign(toxicity=0.4 + 0.1 * r.normal(size=groups * n) + tilt + effect * s)


@pytest.mark.parametrize("reading", ["group_means", "subgroup_mean_of_means", "paired_prompts"])
def test_the_group_band_agrees_with_a_loop(reading):
    table, r = words_of(24, effect=0.1), np.random.default_rng(0)
    band, home = group_band(table, reading, 1500), table.drop_duplicates("descriptor")
    layout, slow = lay_out(table), []
    unlike = Exchanges(layout, reading, 1).unlike(layout)
    for _ in range(150):
        moved = dict(
            zip(home["descriptor"], r.permutation(home["subgroup"].to_numpy()), strict=True)
        )
        labels = table["descriptor"].map(moved)
        places = labels + (table["template"] if reading == "paired_prompts" else "")
        names, rough = np.unique(places), r.chisquare(14) / 14
        each = unlike * r.normal(size=len(names)) / rough**0.5  # a template alone: of eight
        each = unlike * r.standard_t(14, 3) if len(names) == 3 else each * 8**0.5
        toxicity = table["toxicity"] + places.map(dict(zip(names, each, strict=True)))
        slow.append(bias(table.assign(subgroup=labels, toxicity=toxicity), reading))
    assert band.mean == pytest.approx(np.mean(slow), abs=4 * np.std(slow) / 150**0.5)
    assert band.value == pytest.approx(bias(table, reading)) and band.notes == ()


def test_where_a_subgroup_is_one_descriptor_there_is_no_group_band():
    table = words_of(24)
    alone = table.assign(descriptor=table["descriptor"].where(table["subgroup"] != "s1", "only"))
    band = group_band(alone)
    assert np.isnan(band.high) and "1 of 3 subgroups are one descriptor (s1)" in band.notes[0]
    assert "names its descriptor" in group_band(table.assign(descriptor="")).notes[0]
    few = group_band(words_of(10, words=2, groups=2), n_permutations=50)
    assert few.notes == ("descriptors can be exchanged in 6 ways only",) and few.p > 0.2


def test_where_small_subgroups_have_few_prompts_per_descriptor_there_is_no_group_band():
    """Exchanges would make their means less noisy than they are."""
    table = words_of(24)
    first = table[table["subgroup"] == "s1"]
    kept = first.groupby("descriptor").head(1)
    uneven = pd.concat([table[table["subgroup"] != "s1"], kept], ignore_index=True)
    assert kept["descriptor"].nunique() == first["descriptor"].nunique()
    band = group_band(uneven)
    assert np.isnan(band.high) and "fewer prompts per descriptor" in band.notes[0]
    fewer = table[~table["descriptor"].isin(first["descriptor"].unique()[:3])]
    assert np.isfinite(group_band(fewer, n_permutations=50).high)  # fewer words, each as often
