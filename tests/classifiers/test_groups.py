"""A classifier's answers group by group: values, intervals, gaps, null bands, verdicts."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, recall_score, roc_auc_score

from engine.classifiers.groups import (
    GAPS,
    GROUPS,
    METRICS,
    RESULTS,
    Band,
    GroupMeasure,
    arm_difference,
    degenerate,
    with_band,
)
from engine.classifiers.layout import IMAGES, ONE_CLASS
from engine.core.errors import PruneAuditError, RequestError
from engine.stats.resampling import ALL_HARMED, BOTH, HARMED, IMPROVED, LEVELLED, UNCLEAR
from engine.store.runs import where


def images_of(labels, **columns):
    ids = np.random.default_rng(0).permutation(len(labels))
    return pd.DataFrame(
        {"image_id": [f"i{number:05d}" for number in ids], "label": labels, **columns}
    )


def world(n=600, k=2, seed=0, groups=("a", "b", "c")):
    r = np.random.default_rng(seed)
    return images_of(
        r.integers(0, k, n), sex=r.choice(["f", "m"], n), skin=r.choice(list(groups), n)
    )


def answers(images, k=2, strength=1.5, seed=1, decimals=None):
    """Probabilities; strength is one number or one per image."""
    r = np.random.default_rng(seed)
    logits = r.normal(size=(len(images), k))
    logits[np.arange(len(images)), images["label"]] += strength
    logits = logits if decimals is None else logits.round(decimals)
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def one(table, **wanted):
    table = where(table, **wanted)
    assert len(table) == 1
    return table.iloc[0]


def small(images, axes, dense, classes=("no", "yes"), **settings):
    return GroupMeasure(
        images, classes, axes, dense, **{"n_boot": 60, "n_permutations": 20, **settings}
    )


def test_tables_have_the_columns_of_the_store():
    images = world()
    measure = small(images, ["sex", "skin"], answers(images))
    found = measure.variant([answers(images, seed=2), answers(images, seed=3)]).pooled("autobot-4x")
    assert tuple(found.results) == RESULTS and tuple(found.groups) == GROUPS
    assert set(found.results["variant"]) == set(found.groups["variant"]) == {"autobot-4x"}
    assert set(found.groups["split"]) == {"test"} and len(found.groups) == 5 * len(METRICS)
    sex = found.results[found.results["axis"] == "sex"]
    assert sex["metric"].tolist() == [
        *GAPS,
        "worst_auc",
        "best_auc",
        "worst_accuracy",
        "best_accuracy",
    ]
    assert found.results["metric"].tolist()[:3] == ["auc", "accuracy", "cross_entropy"]
    dense = measure.dense()
    assert (
        dense.results[["delta", "delta_low", "delta_p"]].isna().all(axis=None)
        and (dense.results["verdict"] == "").all()
    )
    known = found.results[["value", "low", "high", "delta", "delta_low", "delta_high", "delta_p"]]
    assert known.notna().all(axis=None) and (found.results["low"] <= found.results["high"]).all()


@pytest.mark.parametrize("k", [2, 4])
def test_values_are_those_of_sklearn(k):
    images = world(k=k)
    dense, cut = answers(images, k, decimals=1), answers(images, k, 1.0, seed=5, decimals=1)
    classes = [f"c{number}" for number in range(k)]
    found = small(images, ["skin"], dense, classes).variant([cut]).pooled("cut")
    guess = (cut[:, 1] > 0.5).astype(int) if k == 2 else cut.argmax(axis=1)

    def area(p, rows):
        labels = images["label"][rows]
        return (
            roc_auc_score(labels, p[rows, 1])
            if k == 2
            else roc_auc_score(labels, p[rows], multi_class="ovo")
        )

    for group in "abc":
        rows = (images["skin"] == group).to_numpy()
        row = one(found.groups, group=group, metric="auc")
        assert row["value"] == pytest.approx(area(cut, rows))
        assert row["delta"] == pytest.approx(area(cut, rows) - area(dense, rows))
        labels = images["label"][rows]
        recall = recall_score(labels, guess[rows], average="binary" if k == 2 else "macro")
        assert one(found.groups, group=group, metric="tpr")["value"] == pytest.approx(recall)
        false = [np.mean(guess[rows][labels != cls] == cls) for cls in range(k)]
        expected = false[1] if k == 2 else np.mean(false)
        assert one(found.groups, group=group, metric="fpr")["value"] == pytest.approx(expected)
        assert row["n"] == rows.sum()
        assert np.isnan(row["n_positive"]) if k > 2 else row["n_positive"] == labels.sum()
    whole = found.results.set_index("metric")["value"]
    assert whole["auc"] == pytest.approx(area(cut, np.arange(len(images))))
    assert whole["cross_entropy"] == pytest.approx(log_loss(images["label"], cut))
    areas = found.groups[found.groups["metric"] == "auc"]["value"]
    assert one(found.results, metric="auc_gap")["value"] == pytest.approx(areas.max() - areas.min())


@pytest.mark.parametrize("k", [2, 3])
def test_draws_and_exchanges_are_those_of_the_slow_way(k):
    images = world(120, k)
    measure = small(
        images, ["skin"], answers(images, k), ["x", "y", "z"][:k], n_boot=6, n_permutations=6
    )
    ordered = np.argsort(images["image_id"].to_numpy())
    labels, probabilities = images["label"].to_numpy()[ordered], answers(images, k)[ordered]

    def area(rows):
        y, p = labels[rows], probabilities[rows]
        return roc_auc_score(y, p[:, 1]) if k == 2 else roc_auc_score(y, p, multi_class="ovo")

    axis, weights = measure.axes[1], measure._weights[1]
    for draw in range(6):
        slow = []
        for (name, members), part in zip(axis.strata.items(), weights, strict=True):
            assert set(images["skin"].to_numpy()[ordered][members]) == {name}
            assert part[:, draw].sum() == len(members)  # group sizes stay
            slow.append(area(np.repeat(members, part[:, draw])))
        at = where(measure.cells, metric="auc", axis="skin").index
        np.testing.assert_allclose(measure.dense_arm.trials.draws[0, draw, at], slow, atol=1e-6)
        gap = measure.cells.index[measure.cells["metric"] == "auc_gap"][0]
        assert measure.dense_arm.trials.draws[0, draw, gap] == pytest.approx(np.ptp(slow), abs=1e-6)
    exchange = measure.exchanges[0]
    for draw in range(6):
        codes = exchange.codes[:, draw]
        slow = [area(exchange.rows[codes == group]) for group in range(3)]
        drawn = measure.dense_arm.nulls[0, draw].reshape(3, 4)[:, 0]
        np.testing.assert_allclose(drawn, slow, atol=1e-6)
        for group, members in enumerate(axis.strata.values()):  # the balance of classes stays
            kept = labels[exchange.rows[codes == group]]
            np.testing.assert_array_equal(
                np.bincount(kept, minlength=k), np.bincount(labels[members], minlength=k)
            )


def test_classes_as_groups():
    images = world(400, 3).assign(
        artefact=lambda table: np.where(table.index % 2, "with", "without")
    )
    images["class+artefact"] = (
        images["label"].map(lambda label: "xyz"[label]) + " and " + images["artefact"]
    )
    cut = answers(images, 3)
    found = small(images, ["class", "class+artefact"], cut, "xyz").dense()
    for cls, name in enumerate("xyz"):
        own = (images["label"] == cls).to_numpy()
        assert one(found.groups, axis="class", group=name, metric="auc")["value"] == pytest.approx(
            roc_auc_score(own, cut[:, cls])
        )
        rows = where(found.groups, axis="class", group=name).set_index("metric")
        said = cut.argmax(axis=1) == cls
        assert (
            rows.loc["tpr", "value"]
            == rows.loc["accuracy", "value"]
            == pytest.approx(said[own].mean())
        )
        assert rows.loc["fpr", "value"] == pytest.approx(said[~own].mean())
        assert rows["n"].to_dict() == {**dict.fromkeys(METRICS, own.sum()), "fpr": (~own).sum()}
        assert (rows["n_positive"] == own.sum()).all()
        half = (images["artefact"] == "with").to_numpy()
        row = one(found.groups, axis="class+artefact", group=f"{name} and with", metric="auc")
        assert row["value"] == pytest.approx(roc_auc_score(own[half], cut[half, cls]))
    gaps = found.results[found.results["metric"] == "auc_gap"]
    assert (
        gaps["null_mean"].isna().all() and gaps["value"].notna().all()
    )  # a class cannot be exchanged for another


def test_small_and_one_sided_groups_get_no_verdict():
    images = world(300)
    group = images["skin"].copy()
    no, yes = (images.index[images["label"] == label] for label in (0, 1))
    group[no[:30]], group[yes[0]], group[[*no[30:33], *yes[1:6]]] = "only no", "one", "few"
    group[[*no[33:53], *yes[6:10]]], group[no[60:70]] = "four yes", ""
    images["skin"] = group
    measure = small(images, ["skin"], answers(images))
    assert measure.notes == ("10 of 300 images have no group on skin and are left out there.",)
    found = measure.variant([answers(images, seed=4)]).pooled("cut")
    areas = found.groups[found.groups["metric"] == "auc"].set_index("group")
    assert areas["verdict"].to_dict() == {
        "a": "",
        "b": "",
        "c": "",
        "only no": ONE_CLASS,
        "one": ONE_CLASS,
        "few": IMAGES.too_few,
        "four yes": IMAGES.too_few,
    }
    assert areas["n"][["only no", "one", "few", "four yes"]].tolist() == [30, 1, 8, 24]
    undefined = areas.loc[["only no", "one"], ["value", "low", "high", "delta", "delta_low"]]
    assert undefined.isna().all(axis=None)
    assert (
        one(found.groups, group="only no", metric="accuracy")["low"] > 0
    )  # what is defined is given
    assert np.isnan(one(found.groups, group="only no", metric="tpr")["value"])
    counted = areas.loc[["a", "b", "c"], "value"]
    gap = one(found.results, metric="auc_gap")
    assert gap["value"] == pytest.approx(counted.max() - counted.min())
    assert gap["n"] == areas.loc[["a", "b", "c"], "n"].sum() and 0 < gap["null_p"] <= 1


def test_one_group_that_counts_makes_no_gap():
    images = world(60).assign(skin=["a"] * 55 + ["b"] * 5)
    found = (
        small(images, ["skin"], answers(images)).variant([answers(images, seed=2)]).pooled("cut")
    )
    gap = one(found.results, metric="auc_gap")
    assert gap[["value", "low", "null_mean", "null_p", "delta", "delta_p"]].isna().all()
    assert (
        gap["verdict"] == IMAGES.too_few
        and not found.results["metric"].str.contains("worst|best").any()
    )


def test_equal_groups_lie_inside_the_null_band():
    p = []
    for seed in range(30):
        images = world(200, seed=seed)
        found = small(images, ["skin"], answers(images, seed=100 + seed), n_boot=10)
        rows = found.dense().results.set_index("metric")["null_p"]
        p += rows[["auc_gap", "accuracy_gap"]].tolist()
    # Shares of a uniform number: mean 1/2 with a standard error of .05.
    assert 0.35 < np.mean(p) < 0.65 and np.mean(np.array(p) < 0.1) < 0.3
    images = world(600)
    apart = answers(images, strength=np.where(images["skin"] == "a", 0.2, 2.0))
    gap = one(small(images, ["skin"], apart).dense().results, metric="auc_gap")
    assert gap["null_p"] == 1 / 21 and gap["null_high"] < gap["low"]


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({"c": 0.9}, IMPROVED),
        ({"a": -0.9}, LEVELLED),
        ({"a": -0.8, "c": 0.8}, BOTH),
        ({}, UNCLEAR),
        ({"b": -0.3}, UNCLEAR),
        ({"c": -0.4}, HARMED),
        ({"a": -0.9, "c": -0.4}, ALL_HARMED),
    ],
)
def test_levelling_down(change, verdict):
    images = world(1500)
    strength = images["skin"].map({"a": 2.4, "b": 1.5, "c": 0.6}).to_numpy()
    moved = strength + images["skin"].map(change).fillna(0.0).to_numpy()
    measure = small(images, ["skin"], answers(images, strength=strength))
    found = measure.variant([answers(images, strength=moved, seed=1)]).pooled("cut").results
    assert one(found, metric="auc_gap")["verdict"] == verdict
    assert (
        one(found, metric="worst_auc")["group"] == "c"
        and one(found, metric="best_auc")["group"] == "a"
    )


def test_trials_and_their_pool():
    images = world()
    parts = {number: answers(images, seed=number) for number in (5, 2, 9)}
    arm = small(images, ["sex"], answers(images)).variant(parts)
    pooled, single = arm.pooled("p"), [arm.trial(number, f"p#{number}") for number in (2, 5, 9)]
    is_gap = pooled.results["metric"].str.endswith("_gap")
    for column in ("value", "delta"):
        mean = np.mean([part.results[column] for part in single], axis=0)
        np.testing.assert_allclose(pooled.results[column][~is_gap], mean[~is_gap])
    for row in pooled.results[is_gap].itertuples():  # of the means, not the mean of gaps
        mine = pooled.groups[pooled.groups["metric"] == row.metric.removesuffix("_gap")]["value"]
        assert row.value == pytest.approx(np.ptp(mine)) and row.low <= row.value <= row.high
        assert row.null_mean <= np.mean(
            [one(part.results, metric=row.metric)["null_mean"] for part in single]
        )
        before = one(arm.measure.dense().results, metric=row.metric)["value"]
        assert row.delta == pytest.approx(row.value - before)
    np.testing.assert_allclose(
        pooled.groups["value"], np.mean([part.groups["value"] for part in single], axis=0)
    )
    again = small(images, ["sex"], answers(images)).variant([parts[5]]).pooled("p#5")
    pd.testing.assert_frame_equal(single[1].results, again.results)


def test_dense_models_trained_anew_are_paired_by_trial():
    images = world()
    dense = {number: answers(images, strength=0.5 + number, seed=number) for number in range(3)}
    measure = small(images, ["sex"], dense)
    near = {number: np.clip(part + [[-1e-3, 1e-3]], 0, 1) for number, part in dense.items()}
    row = one(measure.variant(near).pooled("near").results, metric="auc")
    assert abs(row["delta"]) < 1e-9 and row["delta_high"] < 0.01 and row["high"] - row["low"] > 0.2
    assert abs(one(measure.variant(near).trial(1, "x").results, metric="auc")["delta"]) < 1e-9
    assert one(measure.variant({0: near[0]}).pooled("first").results, metric="auc")["delta_p"] > 0.9
    loose = one(measure.variant({7: near[0], 8: near[1]}).pooled("other").results, metric="auc")
    assert loose["delta_high"] - loose["delta_low"] > 0.1


def test_difference_between_two_arms():
    images = world(800)
    measure = small(images, ["skin"], answers(images, strength=2.0))
    hurt = np.where(images["skin"] == "a", 0.8, 1.5)
    plain = measure.variant([answers(images, strength=hurt, seed=seed) for seed in range(3)])
    weighted = measure.variant([answers(images, strength=1.5, seed=seed) for seed in range(3)])
    every = arm_difference(weighted, plain)
    table = where(every, metric="auc", axis="skin").reset_index(drop=True)
    assert (
        table["group"].tolist() == ["a", "b", "c"]
        and table["paired"].all()
        and table["n"].sum() == 800
    )
    row = one(table, group="a")
    both = [
        one(arm.pooled("x").groups, group="a", metric="auc")["value"] for arm in (weighted, plain)
    ]
    assert row["value"] == pytest.approx(both[0] - both[1]) and row["low"] > 0 and row["p"] < 0.05
    assert (table["value"][1:] == 0).all() and (
        table["p"][1:] == 1
    ).all()  # same seeds, same answers there
    assert one(every, metric="auc_gap", axis="skin")["high"] < 0
    np.testing.assert_allclose(arm_difference(plain, weighted)["value"], -every["value"])
    with pytest.raises(PruneAuditError, match="cannot be compared"):
        arm_difference(plain, small(images, ["skin"], answers(images)).dense_arm)


def test_degenerate_models_are_marked():
    images = world(100)
    flat = np.tile([0.7, 0.3], (100, 1))
    assert (
        degenerate(flat)
        and not degenerate(answers(images))
        and degenerate(np.tile([0.2, 0.5, 0.3], (9, 1)))
    )
    arm = small(images, ["sex"], answers(images)).variant({0: answers(images, seed=3), 4: flat})
    assert arm.degenerate == (4,)
    row = one(arm.trial(4, "flat").results, metric="auc")
    assert (row["value"], row["low"], row["high"]) == (0.5, 0.5, 0.5) and row["delta_high"] < 0


def test_what_is_wrong_is_said():
    images = world(50)
    good = answers(images)
    bad = good.copy()
    bad[:3, 1] = np.nan
    measure = small(images, ["sex"], good)
    with pytest.raises(
        PruneAuditError, match="trial 1: the probabilities of 3 of 50 images are missing"
    ):
        measure.variant([good, bad])
    with pytest.raises(PruneAuditError, match="dense: answers of shape"):
        small(images, ["sex"], good[:-1])
    with pytest.raises(PruneAuditError, match="without trials"):
        measure.variant([])
    with pytest.raises(PruneAuditError, match="do not all belong to 2 classes"):
        small(images.assign(label=2), ["sex"], good)
    with pytest.raises(RequestError) as caught:
        small(images, ["sex", "hair", "skin+hat"], good)
    assert not [part for part in ("hair", "hat", "class") if part not in str(caught.value)]
    with pytest.raises(RequestError, match="No image has a group on skin"):
        small(images.assign(skin=""), ["skin"], good)


def test_intersections_of_columns():
    images = world(400)
    found = small(images, ["sex+skin"], answers(images)).dense().groups
    assert set(found["group"]) == {f"{sex}+{skin}" for sex in "fm" for skin in "abc"}
    joined = images.assign(**{"sex+skin": images["sex"] + "+" + images["skin"]})
    pd.testing.assert_frame_equal(
        small(joined, ["sex+skin"], answers(images)).dense().groups, found
    )


def test_groups_that_hold_whole_classes_have_no_null_band():
    """Exchanging labels within a class changes nothing then: the gap would stand in a band of
    itself."""
    labels = np.repeat([0, 1, 2, 3], 30)
    images = images_of(labels, rarity=np.where(labels < 2, "rare", "common"))
    found = small(images, ["rarity"], answers(images, 4), "abcd", n_boot=20).dense().results
    gaps = where(found, axis="rarity").set_index("metric")
    assert gaps.filter(like="_gap", axis=0)["null_high"].isna().all()
    assert np.isfinite(gaps.loc["accuracy_gap", "value"])


def test_a_gap_of_models_that_miss_nothing_may_be_more_than_none():
    """Of 60 images a group none is missed: another 60 may hold one that is."""
    images = images_of(np.arange(240) % 2, skin=np.repeat(["a", "b", "c", "d"], 60))
    right = np.eye(2)[images["label"].to_numpy()] * 0.98 + 0.01
    gap = one(small(images, ["skin"], right).dense().results, metric="accuracy_gap")
    assert gap["value"] == gap["low"] == 0 and 0.03 < gap["high"] < 0.1


def test_a_gap_that_exchanged_labels_explain_may_be_none():
    row = {"value": 0.2, "low": 0.1}
    lows = [with_band(row, Band(0.1, 0.0, 0.3, p))["low"] for p in (0.04, 0.06, np.nan)]
    assert lows == [0.1, 0.0, 0.1]
