"""Performance degradation: what the cut cost each group, by hand; its interval, null band and
trials."""

import numpy as np
import pandas as pd
import pytest

from engine.classifiers.groups import RESULTS, GroupMeasure
from engine.tracks.fair_training.tables import METRIC, degradation_gaps, degradation_trials


def images_of(labels, **columns) -> pd.DataFrame:
    ids = np.random.default_rng(0).permutation(
        len(labels)
    )  # so that rows are not in the order of the keys
    return pd.DataFrame(
        {"image_id": [f"i{number:05d}" for number in ids], "label": labels, **columns}
    )


def answers_of(labels: np.ndarray, right: np.ndarray, k: int = 2) -> np.ndarray:
    """Answers that are right where `right` says so, [n, k]."""
    found = np.full((len(labels), k), 0.2 / (k - 1))
    found[np.arange(len(labels)), np.where(right, labels, (labels + 1) % k)] = 0.8
    return found


def measure_of(images: pd.DataFrame, dense, axes=("side",), k: int = 2, **more) -> GroupMeasure:
    names = [f"c{number}" for number in range(k)]
    return GroupMeasure(
        images, names, list(axes), dense, **{"n_boot": 80, "n_permutations": 60, **more}
    )


N = 120
LABELS = np.arange(N) % 2
SIDE = np.array(["u", "v"])[(np.arange(N) // 2) % 2]  # 60 of each, and both classes in each


def right(labels=LABELS, side=SIDE, **wrong: int) -> np.ndarray:
    """Right everywhere but for the first so many images of these groups."""
    found = np.ones(len(labels), dtype=bool)
    for group, count in wrong.items():
        found[np.flatnonzero(side == group)[:count]] = False
    return found


def arm_of(*cuts: np.ndarray, dense=None, images=None, **more):
    """The arm of a variant whose trials are right where told."""
    images = images_of(LABELS, side=SIDE) if images is None else images
    labels = images["label"].to_numpy()
    dense = np.ones(len(labels), dtype=bool) if dense is None else dense
    k = more.get("k", 2)
    measure = measure_of(images, answers_of(labels, dense, k), **more)
    return measure.variant([answers_of(labels, cut, k) for cut in cuts])


def test_by_hand():
    """The original is right for all of u and 50 of 60 of v; the cut one for 54 of u and 47 of v:
    lost .1 and .05."""
    arm = arm_of(right(u=6, v=13), dense=right(v=10))
    found = degradation_gaps(arm, "bifp-str-70%")
    assert tuple(found) == RESULTS and len(found) == 1
    row = found.iloc[0]
    assert row["value"] == pytest.approx(0.1 - 0.05) and row["n"] == N
    assert (row["variant"], row["axis"], row["metric"], row["split"]) == (
        "bifp-str-70%",
        "side",
        METRIC,
        "test",
    )
    assert row["low"] <= row["value"] <= row["high"] and row["low"] >= 0.0
    assert np.isnan([row["delta"], row["delta_low"], row["delta_high"], row["delta_p"]]).all()
    assert row["group"] == "" and row["verdict"] == ""
    gap = arm.pooled("x").results.set_index("metric").loc["accuracy_gap", "value"]
    assert gap == pytest.approx(54 / 60 - 47 / 60)  # the other notion is another number


@pytest.mark.parametrize(("groups", "k"), [("uv", 2), ("uvw", 2), ("uv", 4)])
def test_gaps_are_those_of_plain_means_over_all_trials_and_of_each(groups, k):
    draw = np.random.default_rng(k)
    labels, side, skin = (draw.choice([*names], 150) for names in (range(k), groups, "st"))
    before, *after = (draw.random(150) < share for share in (0.9, 0.8, 0.5))
    images = images_of(labels, side=side, skin=skin)
    axes = {"side": ["side"], "skin": ["skin"], "side+skin": ["side", "skin"]}
    arm = arm_of(*after, dense=before, images=images, axes=tuple(axes), k=k)
    for number, cuts in ((None, after), (0, after[:1]), (1, after[1:])):
        lost = images.assign(lost=before - np.mean(cuts, axis=0))
        found = degradation_gaps(arm, "x", number)
        each = [lost.groupby(columns)["lost"].mean() for columns in axes.values()]
        assert found["axis"].tolist() == [*axes]
        assert found["value"].tolist() == pytest.approx([one.max() - one.min() for one in each])
    alone = degradation_gaps(
        arm_of(after[1], dense=before, images=images, axes=("side",), k=k), "x"
    )
    pd.testing.assert_frame_equal(found.iloc[:1], alone)


def test_a_model_that_answers_as_before_has_none():
    dense = right(u=6)
    for number in (None, 0):
        row = degradation_gaps(arm_of(dense, dense=dense), "x", number).iloc[0]
        assert not row[["value", "low", "null_mean", "null_high"]].any()
        assert row["null_p"] == 1 and 0 < row["high"] < 0.1  # as far as two images of each group


def test_the_null_band_tells_chance_from_harm():
    lost = degradation_gaps(arm_of(right(u=30)), "x").iloc[0]
    assert (
        lost["value"] == pytest.approx(0.5)
        and lost["null_high"] < 0.3
        and lost["null_p"] == pytest.approx(1 / 61)
    )
    assert 0.0 <= lost["null_low"] <= lost["null_mean"] <= lost["null_high"]


def test_trials_of_the_trade_off():
    arm = arm_of(right(u=6), right(v=12))
    found = degradation_trials(arm)
    assert found.values.shape == (2, 1) and found.draws.shape == (2, 80, 1)
    assert found.numbers == (0, 1)
    assert found.values[:, 0] == pytest.approx([-0.1, 0.2])  # v minus u, as the means have it
    assert found.draws.mean(axis=1)[:, 0] == pytest.approx([-0.1, 0.2], abs=0.03)
    assert degradation_gaps(arm, "x")["value"].item() == pytest.approx(found.values.mean())


def test_classes_as_groups_have_no_null_band():
    """An image of one class cannot stand for another."""
    arm = arm_of(right(u=12), axes=("class",))
    row = degradation_gaps(arm, "x").iloc[0]
    assert row["value"] == pytest.approx(0.0) and np.isnan([row["null_mean"], row["null_p"]]).all()


def test_an_axis_with_one_group_that_may_be_compared_has_no_gap_but_a_word():
    side = np.array(["u"] * (N - 2) + ["v"] * 2)
    row = degradation_gaps(
        arm_of(right(side=side, u=12), images=images_of(LABELS, side=side)), "x"
    ).iloc[0]
    assert (
        np.isnan([row["value"], row["low"], row["high"], row["null_mean"]]).all()
        and row["verdict"] != ""
    )
