"""The task's own metric: equal to sklearn's, by hand, and with intervals over texts and trials."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, matthews_corrcoef

from engine.classifiers.groups import MATTHEWS, RESULTS, GroupMeasure
from engine.classifiers.layout import TEXTS
from engine.tracks.text_classifiers.metrics import Matthews, task_metric


def measure_of(texts, classes, dense, *more, **named) -> GroupMeasure:
    return GroupMeasure(
        texts, classes, [], dense, *more, **named, items=TEXTS, further=[Matthews()]
    )


def row_of(measured) -> pd.Series:
    """The one row of the correlation."""
    table = measured.results
    assert tuple(table) == RESULTS
    (found,) = table[table["metric"] == MATTHEWS].iloc
    return found


def world(n=200, k=2, seed=0):
    draw = np.random.default_rng(seed)
    ids = [f"t{number:04d}" for number in range(n)]
    return pd.DataFrame({"text_id": ids, "label": draw.integers(0, k, n)})


def answers(texts, k=2, seed=0, noise=1.0):
    draw = np.random.default_rng(seed)
    logits = noise * draw.normal(size=(len(texts), k))
    logits[np.arange(len(texts)), texts["label"]] += 1
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def guess(p):
    return (p[:, 1] > 0.5).astype(int) if p.shape[1] == 2 else p.argmax(axis=1)


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_one_trial_equals_sklearn(k, seed):
    texts = world(k=k, seed=seed)
    p, labels = answers(texts, k, seed), texts["label"].to_numpy()
    assert task_metric("accuracy", p, labels) == pytest.approx(
        accuracy_score(labels, guess(p)), abs=1e-12
    )
    assert task_metric("matthews", p, labels) == pytest.approx(
        matthews_corrcoef(labels, guess(p)), abs=1e-12
    )


@pytest.mark.parametrize("k", [2, 3])
def test_rows_are_on_the_draws_of_the_other_numbers(k):
    texts = world(80, k).sample(frac=1, random_state=1).reset_index(drop=True)
    dense, cut = answers(texts, k), answers(texts, k, 1, 2.0)
    classes = list("abc")[:k]
    measure = measure_of(texts, classes, dense, n_boot=10, seed=3)
    arm = measure.variant([cut])
    order = np.argsort(texts["text_id"].to_numpy(dtype=object))
    labels, said = texts["label"].to_numpy()[order], guess(cut)[order]
    for draw in range(10):
        rows = np.repeat(np.arange(80), measure._weights[0][0][:, draw])
        expected = matthews_corrcoef(labels[rows], said[rows])
        assert 2 * arm.trials.draws[0, draw, -1] - 1 == pytest.approx(expected)
    row = row_of(arm.pooled("cut"))
    assert row["value"] == pytest.approx(matthews_corrcoef(texts["label"], guess(cut)))
    assert row["delta"] == pytest.approx(
        row["value"] - matthews_corrcoef(texts["label"], guess(dense))
    )


def test_columns_intervals_and_trials():
    texts = world()
    dense = answers(texts)
    measure = measure_of(texts, ["no", "yes"], dense)
    arm = measure.variant({4: answers(texts, 2, 1, 2.0), 7: answers(texts, 2, 2, 2.0)})
    pooled, single = row_of(arm.pooled("isp-50%")), row_of(arm.trial(7, "isp-50%#7"))
    for row, name in ((pooled, "isp-50%"), (single, "isp-50%#7")):
        assert (row["variant"], row["axis"], row["metric"], row["group"], row["n"]) == (
            name,
            "",
            "matthews",
            "",
            200,
        )
        assert -1 < row["low"] < row["value"] < row["high"] < 1
        assert row["delta_low"] < row["delta"] < row["delta_high"] and 0 < row["delta_p"] < 1
        assert np.isnan(row["null_mean"])
    both = [row_of(arm.trial(number, "x"))["value"] for number in (4, 7)]
    assert pooled["value"] == pytest.approx(np.mean(both))
    assert np.isnan(row_of(measure.dense())["delta"])


@pytest.mark.filterwarnings("error")
def test_perfect_worse_than_chance_and_degenerate_models():
    texts = world(60)
    right = np.eye(2)[texts["label"]]
    measure = measure_of(texts, ["no", "yes"], right)
    best = row_of(measure.dense())
    assert best["value"] == 1 and best["high"] == 1 and 0.8 < best["low"] < 1
    wrong = row_of(measure.variant([right[:, ::-1]]).pooled("wrong"))
    assert (
        wrong["value"] == -1 and wrong["low"] == -1 and wrong["delta"] == -2
    )  # below 0, and said so
    flat = row_of(measure.variant([np.eye(2)[np.ones(60, int)]]).pooled("flat"))
    assert (
        flat["value"] == 0 and flat["delta"] == -1 and flat["delta_low"] <= -1 <= flat["delta_high"]
    )


def test_the_interval_covers():
    """Share of 95 % intervals of one fixed model that hold the correlation of 40,000 texts."""
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, 40_000)
    said = np.where(draw.random(40_000) < 0.8, labels, 1 - labels)
    truth, inside = matthews_corrcoef(labels, said), 0
    for start in range(0, 20_000, 100):
        rows = slice(start, start + 100)
        texts = pd.DataFrame({"text_id": [f"{i:03d}" for i in range(100)], "label": labels[rows]})
        row = row_of(measure_of(texts, ["no", "yes"], np.eye(2)[said[rows]], 200, start).dense())
        inside += row["low"] <= truth <= row["high"]
    assert 0.90 <= inside / 200 <= 0.985
