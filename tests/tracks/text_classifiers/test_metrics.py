"""The task's own metric, BPSN and BNSP AUC: on plain texts with sklearn, by hand, and on the same
redrawn texts as the other numbers."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, matthews_corrcoef, roc_auc_score

from engine.classifiers.groups import GROUPS, MATTHEWS, RESULTS, GroupMeasure
from engine.classifiers.layout import TEXTS
from engine.store.runs import where
from engine.tracks.text_classifiers.metrics import BORKAN, Borkan, Matthews, task_metric

CLASSES = ["kind", "insulting"]


def world(n=300, k=2, seed=0):
    draw = np.random.default_rng(seed)
    texts = {
        "text_id": [f"t{number:04d}" for number in range(n)],
        "label": draw.integers(0, k, n),
        "people": draw.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2]),
        "place": draw.choice(["x", "y"], n),
    }
    return pd.DataFrame(texts)


def answers(texts, k=2, seed=0, noise=1.0):
    draw = np.random.default_rng(seed)
    logits = noise * draw.normal(size=(len(texts), k))
    logits[np.arange(len(texts)), texts["label"]] += 1
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def guess(p):
    return (p[:, 1] > 0.5).astype(int) if p.shape[1] == 2 else p.argmax(axis=1)


def task(texts, dense, classes=CLASSES, **more):
    return GroupMeasure(texts, classes, [], dense, items=TEXTS, further=[Matthews()], **more)


def borkan(texts, dense, axes=("people",), **more):
    return GroupMeasure(texts, CLASSES, axes, dense, items=TEXTS, further=[Borkan()], **more)


def rows_of(measured):
    """The correlation's row of a result, and the rows of BORKAN."""
    assert tuple(measured.results) == RESULTS and tuple(measured.groups) == GROUPS
    (row,) = [*where(measured.results, metric=MATTHEWS).iloc, None][:1]
    return row, measured.groups[measured.groups["metric"].isin(BORKAN)].reset_index(drop=True)


def sides(texts, own):
    """The texts that each AUC is of: others' positives beside a group's negatives, and turned."""
    label = texts["label"] == 1
    return {"bpsn_auc": own & ~label | ~own & label, "bnsp_auc": own & label | ~own & ~label}


@pytest.mark.parametrize("k", [2, 3, 5])
def test_one_trial_equals_sklearn(k):
    texts = world(k=k)
    p, labels = answers(texts, k), texts["label"].to_numpy()
    for name, slow in (("accuracy", accuracy_score), ("matthews", matthews_corrcoef)):
        assert task_metric(name, p, labels) == pytest.approx(slow(labels, guess(p)), abs=1e-12)


@pytest.mark.parametrize("k", [2, 3])
def test_the_task_s_metric_is_on_the_draws_of_the_other_numbers(k):
    texts = world(80, k).sample(frac=1, random_state=1).reset_index(drop=True)
    dense, cut = answers(texts, k), answers(texts, k, 1, 2.0)
    classes, drawn = list("abc")[:k], {"n_boot": 10, "seed": 3}
    measure = task(texts, dense, classes, **drawn)
    arm = measure.variant([cut])
    order = np.argsort(texts["text_id"].to_numpy(dtype=object))
    labels, said = texts["label"].to_numpy()[order], guess(cut)[order]
    for draw in range(10):
        rows = np.repeat(np.arange(80), measure._weights[0][0][:, draw])
        expected = matthews_corrcoef(labels[rows], said[rows])
        assert 2 * arm.trials.draws[0, draw, -1] - 1 == pytest.approx(expected)
    now, before = (matthews_corrcoef(texts["label"], guess(one)) for one in (cut, dense))
    row, _ = rows_of(arm.pooled("cut"))
    assert [row["value"], row["delta"]] == pytest.approx([now, now - before])
    assert -1 < row["low"] < row["value"] < row["high"] < 1
    assert row["delta_low"] < row["delta"] < row["delta_high"] and 0 < row["delta_p"] < 1


@pytest.mark.filterwarnings("error")
def test_perfect_worse_than_chance_and_degenerate_models():
    texts = world(60)
    right = np.eye(2)[texts["label"]]
    measure = task(texts, right)
    best, _ = rows_of(measure.dense())
    assert best["value"] == best["high"] == 1 and 0.8 < best["low"] < 1
    wrong, _ = rows_of(measure.variant([right[:, ::-1]]).pooled("wrong"))
    assert wrong[["value", "low", "delta"]].tolist() == [-1, -1, -2]  # below 0, and said so
    flat, _ = rows_of(measure.variant([np.eye(2)[np.ones(60, int)]]).pooled("flat"))
    assert flat["value"] == 0 and flat["delta"] == -1
    assert flat["delta_low"] <= -1 <= flat["delta_high"]


def test_values_and_changes_of_groups_are_those_of_plain_subsets():
    texts = world()
    dense, cut = answers(texts), answers(texts, seed=1, noise=2.0)
    axes = ["people", "people+place"]
    measure = borkan(texts, dense, [*axes, "class"], n_boot=30)
    _, table = rows_of(measure.variant([cut]).pooled("cut"))
    assert set(table["metric"]) == set(BORKAN)
    assert set(table["axis"]) == set(axes) and len(table) == 2 * (3 + 6)
    texts["people+place"] = texts["people"] + "+" + texts["place"]
    for row in table.to_dict("records"):
        own = texts[row["axis"]] == row["group"]
        rows = sides(texts, own)[row["metric"]]
        now, before = (roc_auc_score(texts["label"][rows], p[rows, 1]) for p in (cut, dense))
        assert [row["value"], row["delta"]] == pytest.approx([now, now - before])
        assert row["low"] < row["value"] < row["high"]
        assert row["delta_low"] < row["delta"] < row["delta_high"]
        assert (row["n"], row["n_positive"]) == (own.sum(), (own & (texts["label"] == 1)).sum())


def test_draws_of_groups_are_those_of_the_other_numbers_and_of_the_slow_way():
    texts = world(90)
    mixed, drawn = texts.sample(frac=1, random_state=3), {"n_boot": 8, "seed": 5}
    p = answers(texts)
    measure = borkan(mixed, p[mixed.index], **drawn)
    axis = measure.axes[1]
    draws = measure.dense_arm.trials.draws[0, :, -2 * len(axis.strata) :]
    weights = np.zeros((90, 8), dtype=int)
    for rows, part in zip(axis.strata.values(), measure._weights[1], strict=True):
        weights[rows] = part
    for place, name in enumerate(axis.strata):
        for at, rows in enumerate(sides(texts, texts["people"] == name).values()):
            for draw in range(8):
                slow = roc_auc_score(
                    texts["label"][rows], p[rows, 1], sample_weight=weights[rows, draw]
                )
                assert draws[draw, 2 * place + at] == pytest.approx(slow)


@pytest.mark.filterwarnings("error")
def test_groups_that_lack_a_class_and_texts_without_a_group():
    texts = world(8).assign(label=[0, 0, 1, 1, 0, 1, 0, 1], people=[*"uuvvvv", "", ""])
    said = np.array([0.1, 0.2, 0.9, 0.8, 0.3, 0.7, 0.99, 0.0])
    p = np.stack([1 - said, said], axis=1)
    _, found = rows_of(borkan(texts, p, n_boot=20).variant([p, p]).pooled("cut"))
    table = found.set_index(["group", "metric"])
    # u has no positives: BNSP is undefined; the two texts without a group count nowhere.
    assert np.isnan(table.loc[("u", "bnsp_auc"), "value"])
    assert table.loc[("u", "bpsn_auc"), "value"] == 1.0
    verdicts = where(found, metric="bpsn_auc").set_index("group")["verdict"]
    assert verdicts.to_dict() == {"u": "one class only", "v": "too few texts"}
    _, alone = rows_of(borkan(texts.assign(people="u"), p, n_boot=20).dense())
    assert alone["value"].isna().all()
