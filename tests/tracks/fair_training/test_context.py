"""The context of fair training: groups, what is looked at while training, and what a measurement
depends on."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from engine.classifiers.images.context import ImageShard
from engine.classifiers.layout import lay_out
from engine.tracks.fair_training.context import FairShard, Look, group_names
from tests.tracks.fair_training.worlds import fair_context, fair_request

TRAINED = {
    "bifp-str": FairShard("trained", "bifp-str", 0.5, 1.0),
    "pf": FairShard("trained", "pf", 0.5, 1.0),
    "snip": FairShard("trained", "snip", 0.5),
    "lottery": FairShard("trained", "lottery", 0.5),
}


REQUEST = fair_request(methods=tuple(TRAINED))
EVERYTHING = (
    {"tolerance": 0.1},
    {"notion": "degradation"},
    {"iterations": 7},
    {"check_every": 2},
    {"recipe": {"batch": 8}},
    {"tune_on": "validation"},
    {"axes": ("male",)},
    {"first_seed": 1},
    {"mirror": False},
    {"max_images": 100},
)
"""Changes of how fairness is told, and of how models are trained and looked at."""
NOTHING = {"strength": 2.0, "fair_gap": 0.2, "within": 0.1, "keep_weights": "all", "seeds": 5}
"""λ is in the shard itself."""


@pytest.fixture(scope="module")
def context():
    return fair_context(REQUEST)


def test_every_image_has_the_code_of_its_group(context):
    names = context.images.table["skin"].to_numpy()
    assert context.groups == ("dark", "light", "medium") and len(context.codes) == len(names)
    assert all(
        context.groups[code] == name for code, name in zip(context.codes, names, strict=True)
    )


def test_an_image_without_a_group_has_none_and_two_columns_are_joined(context):
    table = context.images.table.assign(side="left")
    table.loc[3, "side"] = ""
    names = group_names(table, "skin+side")
    assert names[3] == "" and names[0] == f"{table['skin'].iloc[0]}+left"


def test_what_is_looked_at_is_not_trained_on():
    plain, tuned = fair_context(), fair_context(fair_request(tune_on="validation"))
    for context in (plain, tuned):
        assert not set(context.looked) & set(context.tuned)
        assert set(context.images.table["split"].iloc[context.looked]) == {"validation"}
    assert set(plain.images.table["split"].iloc[plain.tuned]) == {"train"}
    assert len(tuned.looked) == 40 and len(tuned.tuned) == 160  # a fifth of 200
    assert np.array_equal(tuned.looked, fair_context(fair_request(tune_on="validation")).looked)


def test_the_dense_models_answers_are_where_they_belong(context):
    rows = np.concatenate([context.looked[:3], context.tuned[:3], context.rows("test")[:3]])
    from engine.training.fit import probabilities

    again = probabilities(
        context.dense.model, rows, context.images.read, context.dense.prepared
    ).numpy()
    assert np.allclose(context.before(rows), again, atol=1e-6)


def test_a_look_counts_the_obvious_way():
    """Ten times the same: group 0 of 30 images, group 1 of 20, nobody's."""
    labels, groups = np.tile([0, 0, 1, 1, 0, 1], 10), np.tile([0, 0, 0, 1, 1, -1], 10)
    right = np.eye(2)[np.tile([0, 0, 1, 1, 0, 1], 10)] * 0.8 + 0.1
    wrong = (
        np.eye(2)[np.tile([0, 1, 1, 0, 0, 0], 10)] * 0.8 + 0.1
    )  # group 0: 2 of 3, group 1: 1 of 2, nobody's: 0 of 1
    look = Look(labels, groups, 3, right)
    found = look.of(wrong)
    assert found["accuracy"] == pytest.approx(3 / 6)
    assert found["gap"] == pytest.approx(2 / 3 - 1 / 2) and found["degradation"] == pytest.approx(
        1 / 2 - 1 / 3
    )
    assert found["val_loss"] == pytest.approx(-(3 * np.log(0.9) + 3 * np.log(0.1)) / 6)
    assert np.isnan(look.accuracies(wrong)[2])  # a group nobody is looked at of


def test_only_groups_that_may_be_compared_count_in_a_look():
    """As on test images: 10 images, 5 of each class that is there, and two classes."""
    sizes = {
        "plenty": (30, 20),
        "few of a class": (30, 4),
        "few": (5, 4),
        "one class": (40, 0),
        "enough": (5, 5),
    }
    labels = np.concatenate([np.repeat([0, 1], size) for size in sizes.values()])
    groups = np.repeat(np.arange(5), [sum(size) for size in sizes.values()])
    answers = np.tile([0.9, 0.1], (len(labels), 1))
    look = Look(labels, groups, 5, answers)
    table = pd.DataFrame({"label": labels, "side": np.array(list(sizes))[groups]})
    (_, axis), _ = lay_out(table, ("no", "yes"), ["side"])
    assert set(axis.groups["group"].iloc[axis.counts]) == {"plenty", "enough"}
    assert list(look.compared) == [True, False, False, False, True]
    assert look.of(answers)["gap"] == pytest.approx(30 / 50 - 5 / 10)
    alone = groups < 4
    lonely = Look(labels[alone], groups[alone], 4, answers[alone])
    found = lonely.of(answers[alone])
    assert (
        np.isnan(found["gap"]) and np.isnan(found["degradation"]) and np.isfinite(found["accuracy"])
    )
    assert np.isnan(lonely.gap_error())
    none = Look(labels[:0], groups[:0], 0, answers[:0])
    assert np.isnan(none._gap(np.zeros(0)))


def test_classes_that_a_group_lacks_do_not_matter_where_two_are_there():
    labels, groups = np.repeat([0, 1, 1, 2], 10), np.repeat([0, 1], 20)
    assert Look(labels, groups, 2, np.full((40, 3), 1 / 3)).compared.all()


def test_the_error_of_a_gap_falls_with_the_number_of_images():
    answers = np.tile([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1], [0.9, 0.1]], (100, 1))
    labels, groups = np.tile([0, 1, 0, 1], 100), np.tile([0, 0, 1, 1], 100)
    look, small = (
        Look(labels, groups, 2, answers),
        Look(labels[:100], groups[:100], 2, answers[:100]),
    )
    assert small.gap_error() == pytest.approx(2 * look.gap_error()) and look.gap_error() > 0


def test_the_dense_model_is_measured_under_the_keys_of_an_audit_of_filters():
    filters = pytest.importorskip("tests.tracks.image_classifiers.worlds")
    asked = {
        "data": "avatars",
        "target": "blond",
        "axes": ("skin",),
        "size": None,
        "max_images": 200,
        "train": {"epochs": 2, "batch": 32, "rate": 3e-3},
    }
    other, context = filters.image_context(filters.image_request(**asked)), fair_context()
    for kind in ("dense_weights", "original", "dense_answers", "cost"):
        assert context.key(ImageShard(kind)) == other.key(ImageShard(kind)), kind


@pytest.mark.parametrize(
    ("change", "methods"),
    [
        *((one, tuple(TRAINED)) for one in EVERYTHING),
        (NOTHING | {"surface": True, "title": "x"}, ()),
        ({"method_settings": {**REQUEST.method_settings, "snip": {"batches": 3}}}, ("snip",)),
        # a default said aloud is the default
        ({"method_settings": {**REQUEST.method_settings, "bifp-str": {"rho": 1.0}}}, ()),
        ({"sparsities": (0.5, 0.7)}, ("lottery",)),  # a descent depends on all of them
    ],
    ids=str,
)
def test_a_training_is_another_one_where_its_request_says_so(context, change, methods):
    other = fair_context(replace(REQUEST, **change))
    found = [name for name, shard in TRAINED.items() if context.key(shard) != other.key(shard)]
    assert tuple(found) == methods


def test_a_measurement_is_told_in_words(context):
    assert context.describe(TRAINED["bifp-str"]) == "bifp-str, 50 % cut, λ 1, seed 0"
    assert context.describe(FairShard("trained", "dense-tuned", seed=2)) == "dense-tuned, seed 2"
