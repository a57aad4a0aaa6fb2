"""Where the PW paper and its published code differ: protocols, views, affected classes, degenerate
trials left out."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from engine.audit.experiments import ExperimentAsk, experiment_named
from engine.classifiers.groups import cross_entropy
from engine.classifiers.images.context import TRAIN, VALIDATION, ImageShard
from engine.classifiers.images.dense import answers_of, targets_of
from engine.core.errors import RequestError
from engine.data.images.load import load_images
from engine.store.runs import within
from engine.surgery.filters.graph import filter_graph, with_weights
from engine.tracks.image_classifiers.measurements.trial import by_view, trial_model
from engine.tracks.image_classifiers.request import validate_images
from engine.tracks.image_classifiers.run import _stopped, _without, affected_classes, affected_table
from engine.training.recipe import LossPlan
from tests.classifiers.test_groups import answers, small, world
from tests.classifiers.worlds import tiny
from tests.tracks.image_classifiers.test_taylor import pruning
from tests.tracks.image_classifiers.worlds import image_context, image_request


def asked(name, protocol):
    return experiment_named(name).requests(ExperimentAsk(quick=True, protocol=protocol))[0]


def test_a_protocol_sets_every_switch_by_its_name():
    paper, published = asked("artefact", "paper"), asked("artefact", "published")
    switches = [(one.weighting, one.corrected, one.multi_class) for one in (paper, published)]
    assert switches == [("added", "image", "ovo"), ("mixed", "view", "ovr")]
    ours, theirs = (one.method_settings["taylor"] for one in (paper, published))
    assert theirs == ours | {"momentum": 0.0, "reading": "cut"} and "momentum" not in ours
    squares = {"name": "artefact"}, {"pixels": 4, "tested": "all", "redrawn": True}
    assert paper.changes == squares[:1] and published.changes == (squares[0] | squares[1],)
    assert published.mirror is None and asked("celeba", "published").mirror is False, (
        "CIFAR-10 alone is mirrored"
    )
    assert asked("celeba", "paper").mirror is None
    assert asked("celeba", "published").size is None, "avatars are no photographs of 178 pixels"


def test_labels_by_view_come_from_the_original_model_s_answer_to_that_view():
    context = image_context(image_request(corrected="view", mirror=True))
    plan = LossPlan.parse("labels")
    assert by_view(context, plan) and not by_view(context, LossPlan.parse("weights"))
    usual = image_context(image_request(mirror=True))
    assert not by_view(usual, plan)
    n = len(context.labels("train"))
    found, once = (
        targets_of(context, plan, "retrain", apart=True),
        targets_of(usual, plan, "retrain"),
    )
    assert len(found.labels) == 2 * n and torch.allclose(found.labels[:n], once.labels, atol=1e-5)
    assert not torch.allclose(found.labels[n:], once.labels, atol=1e-3), (
        "a mirrored digit is another"
    )


def test_the_weight_of_the_published_code_reaches_the_loss_of_an_arm():
    settings = image_request(
        weighting="mixed", pw={"taylor": {"theta": 0.3, "gamma": 2.0}}
    ).settings()
    plan = settings.plan("taylor", "pw")
    assert (plan.weighting, plan.theta, plan.gamma) == ("mixed", 0.3, 2.0)


@pytest.mark.parametrize("setting", [{"momentum": 0.0}, {"last_only": True}], ids=str)
def test_momentum_and_reading_point_of_taylor_change_importance(setting):
    goal = [0.7 * filter_graph(tiny()).flops()]
    (one,), (other,) = (list(pruning(tiny(), every=3, **more).run(goal)) for more in ({}, setting))
    assert not np.allclose(one.importance, other.importance)


def test_affected_classes_are_those_of_the_change():
    images = load_images("digits")
    rare = image_request(changes=({"name": "underrepresent", "classes": "2,7"},))
    assert affected_classes(rare, images) == ("2", "7")
    assert affected_classes(image_request(changes=({"name": "artefact"},)), images) == (
        images.classes[5],
    )
    assert affected_classes(image_request(), images) == ()


def test_both_means_are_said_where_a_trial_is_degenerate():
    results = pd.DataFrame(
        {
            "variant": ["dense", "taylor-4x", "random-4x"],
            "metric": "auc",
            "axis": "",
            "value": [0.9, 0.7, 0.6],
        }
    )
    without = results.iloc[[1]].assign(value=0.8)
    assert _without({"results": results, "without_degenerate": without}) == [
        "AUC with degenerate trials / without: taylor-4x 0.700 / 0.800."
    ]
    assert _without({"results": results}) == []


def test_means_without_degenerate_trials():
    images = world(200)
    dense, sound = answers(images), answers(images, seed=4)
    flat = np.tile([0.9, 0.1], (200, 1))
    measure = small(images, ["sex"], dense)
    assert affected_table(("no",), {"dense": measure.dense_arm}).empty, "no axis of classes"
    found = measure.variant([sound, flat]).without_degenerate("cut").results
    alone = measure.variant([sound]).pooled("cut").results
    assert np.allclose(found["value"], alone["value"], equal_nan=True)
    assert measure.variant([sound]).without_degenerate("cut") is None
    assert measure.variant([flat]).without_degenerate("cut") is None


# Early stopping of the dense model and of retraining: by validation images, with the best
# weights, and said.


TRIAL = ImageShard("trial", "random", "plain", 2.0)
FAST = {"epochs": 5, "batch": 32, "rate": 0.3, "schedule": "constant"}
"""So high a rate that the loss on validation images does not fall for long."""


def test_kept_weights_are_those_of_the_lowest_validation_loss():
    """Of the dense model fitted here, and of a cut model retrained."""
    patient, quick = {**FAST, "patience": 5}, {**FAST, "patience": 1}
    context = image_context(image_request(max_images=80, train=patient, retrain=quick))
    dense, cut = (context.fetch_arrays(shard)[0] for shard in (ImageShard("dense_weights"), TRIAL))
    kept = {
        "dense": with_weights(context.start, within(dense, "weights/")),
        "cut": trial_model(context, TRIAL),
    }
    labels = context.labels(VALIDATION)
    for arrays, model in ((dense, kept["dense"]), (cut, kept["cut"])):
        losses = arrays["curve/val_loss"]
        found = float(cross_entropy(answers_of(context, model, VALIDATION), labels).mean())
        assert found == pytest.approx(losses.min(), rel=1e-5)
    assert len(dense["curve/val_loss"]) == 5 and dense["curve/val_loss"].argmin() < 4
    stopped = cut["curve/val_loss"]
    assert len(stopped) < 5 and stopped.argmin() == len(stopped) - 2


def test_without_patience_every_key_is_as_before():
    usual, said = (
        image_context(image_request(retrain={**FAST, **more})) for more in ({}, {"patience": 0})
    )
    other = image_context(image_request(retrain={**FAST, "patience": 2}))
    assert usual.key(TRIAL) == said.key(TRIAL) != other.key(TRIAL)
    ids = [
        validate_images(image_request(retrain={**FAST, **more})).run_id
        for more in ({}, {"patience": 0})
    ]
    assert (
        ids[0] == ids[1] != validate_images(image_request(retrain={**FAST, "patience": 2})).run_id
    )


def test_it_is_said_how_often_it_stopped():
    plan = SimpleNamespace(request=image_request(retrain={"epochs": 3, "patience": 1}))
    rows = [("a#0", 3), ("a#1", 2), ("b#0", 2), ("dense", 1)]
    curves = pd.DataFrame({"variant": np.repeat([name for name, _ in rows], [n for _, n in rows])})
    curves["phase"] = np.where(curves["variant"] == "dense", "train", "retrain")
    (said,) = _stopped(plan, curves)
    assert said.startswith("2 of 3 fits (retrain) stopped early")
    assert _stopped(SimpleNamespace(request=image_request()), curves) == []


def test_there_must_be_images_to_stop_by(monkeypatch):
    from engine.classifiers.images import request as module

    real = module.images_of

    def without_validation(request):
        images = real(request)
        images.table.loc[images.table["split"] == VALIDATION, "split"] = TRAIN
        return images

    monkeypatch.setattr(module, "images_of", without_validation)
    with pytest.raises(RequestError, match="retrain patience: .*no validation images to stop by"):
        validate_images(image_request(retrain={"patience": 2}))
    validate_images(image_request(retrain={"patience": 0}))
