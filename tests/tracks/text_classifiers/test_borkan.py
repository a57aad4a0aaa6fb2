"""BPSN and BNSP AUC: on plain subsets with sklearn, and on the same redrawn texts as the
other numbers."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from engine.classifiers.groups import GROUPS, GroupMeasure
from engine.classifiers.layout import TEXTS
from engine.core.errors import PruneAuditError, RequestError
from engine.store.runs import where
from engine.tracks.text_classifiers.metrics import BORKAN, Borkan

CLASSES = ["kind", "insulting"]


def measure_of(texts, axes, dense, **more) -> GroupMeasure:
    return GroupMeasure(texts, CLASSES, axes, dense, items=TEXTS, further=[Borkan()], **more)


def borkan(measured) -> pd.DataFrame:
    return measured.groups[measured.groups["metric"].isin(BORKAN)].reset_index(drop=True)


def frame(labels, groups, **more):
    ids = [f"t{number:04d}" for number in range(len(labels))]
    return pd.DataFrame({"text_id": ids, "label": labels, "people": groups, **more})


def answers(scores):
    scores = np.asarray(scores, dtype=float)
    return np.stack([1 - scores, scores], axis=1)


def world(n=300, seed=0):
    draw = np.random.default_rng(seed)
    groups = draw.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    return frame(draw.integers(0, 2, n), groups, place=draw.choice(["x", "y"], n))


def guesses(texts, seed=0, noise=0.3):
    draw = np.random.default_rng(seed)
    return answers(
        np.round(
            np.clip(0.3 + 0.4 * texts["label"] + noise * draw.normal(size=len(texts)), 0, 1), 2
        )
    )


def cell(table, group, metric, axis="people"):
    (found,) = where(table, axis=axis, group=group, metric=metric).to_dict("records")
    return found


def dense_of(texts, scores) -> pd.DataFrame:
    """Rows of one model that gives these scores to class 1."""
    return borkan(measure_of(texts, ["people"], answers(scores), n_boot=20).dense())


def test_values_and_changes_are_those_of_plain_subsets():
    texts = world()
    dense, cut = guesses(texts), guesses(texts, 1, 0.6)
    axes = ["people", "people+place", "class"]
    table = borkan(measure_of(texts, axes, dense, n_boot=30).variant([cut]).pooled("cut"))
    assert tuple(table) == GROUPS and set(table["metric"]) == set(BORKAN)
    assert set(table["axis"]) == {"people", "people+place"} and len(table) == 2 * (3 + 6)
    texts["people+place"] = texts["people"] + "+" + texts["place"]
    label = texts["label"] == 1
    for axis in ("people", "people+place"):
        for group in set(texts[axis]):
            own = texts[axis] == group
            for metric, rows in (
                ("bpsn_auc", own & ~label | ~own & label),
                ("bnsp_auc", own & label | ~own & ~label),
            ):
                row = cell(table, group, metric, axis)
                now, before = (roc_auc_score(label[rows], p[rows, 1]) for p in (cut, dense))
                assert row["value"] == pytest.approx(now) and row["delta"] == pytest.approx(
                    now - before
                )
                assert (
                    row["low"] < row["value"] < row["high"]
                    and row["delta_low"] < row["delta"] < row["delta_high"]
                )
                assert (row["n"], row["n_positive"]) == (own.sum(), (own & label).sum())


def test_draws_are_those_of_the_other_numbers_and_of_the_slow_way():
    texts = world(90)
    mixed = texts.sample(frac=1, random_state=3)
    p = guesses(texts)
    measure = measure_of(mixed, ["people"], p[mixed.index], n_boot=8, seed=5)
    axis, parts = measure.axes[1], measure._weights[1]
    label = texts["label"].to_numpy() == 1
    draws = measure.dense_arm.trials.draws[0, :, -2 * len(axis.strata) :]
    for place, name in enumerate(axis.strata):
        for draw in range(8):
            drawn = {
                group: np.repeat(rows, parts[at][:, draw])
                for at, (group, rows) in enumerate(axis.strata.items())
            }
            own = drawn[name]
            rest = np.concatenate([rows for group, rows in drawn.items() if group != name])
            for at, rows in enumerate(
                ([*own[~label[own]], *rest[label[rest]]], [*own[label[own]], *rest[~label[rest]]])
            ):
                assert draws[draw, 2 * place + at] == pytest.approx(
                    roc_auc_score(label[rows], p[rows, 1])
                )


def test_trials_pool_and_stand_alone_and_are_paired_with_their_own_dense_model():
    texts = world()
    dense = {seed: guesses(texts, seed) for seed in range(3)}
    measure = measure_of(texts, ["people"], dense, n_boot=40)
    arm = measure.variant(dense)
    pooled, single = borkan(arm.pooled("same")), borkan(arm.trial(1, "same#1"))
    assert (
        (pooled["delta"] == 0).all()
        and (single["delta"] == 0).all()
        and (single["delta_low"] == 0).all()
    )
    values = [borkan(arm.trial(number, "x"))["value"] for number in dense]
    assert pooled["value"].to_numpy() == pytest.approx(np.mean(values, axis=0))
    assert set(single["variant"]) == {"same#1"} and set(single["split"]) == {"test"}
    wide, narrow = (cell(table, "c", "bpsn_auc") for table in (pooled, single))
    assert np.isfinite([wide["low"], narrow["low"]]).all()
    assert borkan(measure.dense())["delta"].isna().all()


@pytest.mark.filterwarnings("error")
def test_groups_that_lack_a_class_and_texts_without_a_group():
    texts = frame([0, 0, 1, 1, 0, 1, 0, 1], ["u", "u", "v", "v", "v", "v", "", ""])
    p = answers([0.1, 0.2, 0.9, 0.8, 0.3, 0.7, 0.99, 0.0])
    table = borkan(measure_of(texts, ["people"], p, n_boot=20).variant([p, p]).pooled("cut"))
    # u has no positives: BNSP is undefined; the two texts without a group count nowhere.
    assert (
        np.isnan(cell(table, "u", "bnsp_auc")["value"])
        and cell(table, "u", "bpsn_auc")["value"] == 1.0
    )
    assert cell(table, "u", "bpsn_auc")["verdict"] == "one class only"
    assert cell(table, "v", "bpsn_auc")["verdict"] == "too few texts"
    assert dense_of(frame([0, 1] * 4, ["u"] * 8), p[:, 1])["value"].isna().all()


def test_wrong_axes_and_answers():
    texts = world(40)
    with pytest.raises(RequestError, match="hair"):
        measure_of(texts, ["hair"], guesses(texts))
    measure = measure_of(texts, ["people"], guesses(texts), n_boot=10)
    for wrong in (guesses(texts)[:-1], np.full((40, 2), np.nan)):
        with pytest.raises(PruneAuditError, match="trial 0"):
            measure.variant([wrong])
    with pytest.raises(PruneAuditError, match="without trials"):
        measure.variant({})
