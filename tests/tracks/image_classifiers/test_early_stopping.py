"""Early stopping of the dense model and of retraining: by validation images, with the best weights,
and said."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from engine.classifiers.groups import cross_entropy
from engine.classifiers.images.context import TRAIN, VALIDATION, ImageShard
from engine.classifiers.images.dense import answers_of
from engine.core.errors import RequestError
from engine.store.runs import within
from engine.surgery.filters.graph import with_weights
from engine.tracks.image_classifiers.measurements.trial import trial_model
from engine.tracks.image_classifiers.request import validate_images
from engine.tracks.image_classifiers.run import _stopped
from tests.tracks.image_classifiers.worlds import image_context, image_request

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
