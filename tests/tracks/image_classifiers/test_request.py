"""Requests for audits of image classifiers: every fault at once, and equal requests are one run."""

import shutil
from dataclasses import replace

import numpy as np

from engine.audit.jobs import job_id_of
from engine.tracks.image_classifiers.request import validate_images
from tests.builders import refused
from tests.classifiers.worlds import saved_model
from tests.tracks.image_classifiers.worlds import image_request


def faults_of(request):
    return refused(validate_images, request)


def test_equal_requests_in_other_words_are_one_run(tmp_path, monkeypatch):
    model = saved_model(tmp_path / "model")
    request = image_request(model=str(model), train=None)
    run_id = validate_images(request).run_id
    shutil.copytree(model, tmp_path / "copy")
    monkeypatch.chdir(tmp_path)
    for other in (
        replace(request, speedups=(4, 2, 2.0)),
        replace(request, experiment="mine"),
        replace(request, mirror=False),  # digits are not mirrored unless somebody says so
        replace(request, model="copy"),
        replace(request, model="./model"),
    ):
        assert validate_images(other).run_id == run_id
    assert job_id_of(request) == job_id_of(replace(request, speedups=(4, 2)))


def test_the_same_weights_with_other_normalisation_are_another_run(tmp_path):
    """The pixels that the model sees differ, so all numbers do."""
    one = saved_model(tmp_path / "one")
    two = saved_model(tmp_path / "two", mean=(0.1, 0.2, 0.3))
    ids = {
        validate_images(image_request(model=str(path), train=None)).run_id for path in (one, two)
    }
    assert len(ids) == 2


def test_intersections_with_the_class_are_axes():
    plan = validate_images(
        image_request(changes=({"name": "artefact"},), axes=("class", "class+artefact"))
    )
    assert "artefact" in plan.images.groups


def test_an_arm_named_in_two_ways_is_named_twice():
    """ "random" and "random+plain" are the same arm: as two they would be measured and compared as
    two."""
    assert faults_of(image_request(methods=("random", "random+plain")))


def test_a_model_of_another_number_of_classes_is_refused(tmp_path):
    text = "\n".join(
        faults_of(image_request(model=str(saved_model(tmp_path / "m", n_classes=3)), train=None))
    )
    assert "classes" in text


def test_the_id_holds_the_version_of_every_method_that_is_asked():
    plan = validate_images(image_request(methods=("autobot", "autobot+pw", "random+pw")))
    methods = {name for name in plan.versions if not name.startswith("measurement")}
    assert methods == {"audit", "method autobot", "method random"}


def test_what_is_usual_and_said_is_the_same_run_and_what_touches_no_method_no_other():
    usual = validate_images(image_request(methods=("taylor+pw",), train={}, retrain={}))
    said = image_request(
        methods=("taylor+pw",),
        train={"epochs": 5, "mirror": True},
        retrain={"rate": 1e-3},
        mirror=False,
        method_settings={"taylor": {"rate": 0.01}},
        pw={"taylor": {"theta": 0.5, "gamma": 1}, "random": {"theta": 0.1}},
    )
    assert validate_images(said).run_id == usual.run_id
    assert usual.spelled_out()["pw"] == {"taylor": {"theta": 0.5, "gamma": 1.0}}
    assert validate_images(replace(said, retrain={"rate": 2e-3})).run_id != usual.run_id


def test_images_are_of_any_side_that_the_model_takes():
    """All architectures here are fully convolutional up to a mean over places; too small a side is
    refused."""
    plan = validate_images(
        image_request(model="demo-resnet", data="avatars", axes=("skin",), size=40, train=None)
    )
    assert plan.model.size == plan.images.size == 40
    found = plan.images.read(np.arange(2))
    assert found.shape == (2, 40, 40, 3)


def test_a_field_that_came_later_does_not_count_at_its_default():
    """So that audits from before there was a choice are still found."""
    request = image_request()
    said = dict(image_request(multi_class="ovr").identity)
    assert (
        "multi_class" not in request.identity
        and said.pop("multi_class") == "ovr"
        and said == request.identity
    )
    plain = validate_images(request).run_id
    assert validate_images(image_request(multi_class="ovo")).run_id == plain
    assert validate_images(image_request(multi_class="ovr")).run_id != plain
