"""Every experiment of the PW-loss paper: found by itself, its requests hold up on the embedded images."""

from __future__ import annotations

import pytest

from engine.audit.setting_faults import setting_faults
from engine.core.errors import RequestError
from engine.models.vision import architectures
from engine.tracks.image_classifiers.experiments import ExperimentAsk, experiment_named, experiments
from engine.tracks.image_classifiers.methods.base import filter_methods
from engine.tracks.image_classifiers.presets import PAPER
from engine.tracks.image_classifiers.request import ImageRequest, validate_images

EACH = pytest.mark.parametrize("name", experiments())


@EACH
def test_an_experiment_says_what_it_is(name):
    one = experiments()[name]
    assert one.name == name and one.question.endswith("?") and one.figure.startswith("Fig. ")
    assert any(dataset == one.dataset for dataset, _ in PAPER) and one.paper_model in architectures()
    assert (one.dataset, one.paper_model) in PAPER


@EACH
def test_its_quick_requests_hold_up_and_are_different_runs(name):
    requests = experiments()[name].requests(ExperimentAsk(quick=True, trials=2, device="cpu"))
    plans = [validate_images(request) for request in requests]
    assert len({plan.run_id for plan in plans}) == len(plans) >= 1
    assert len({request.title for request in requests}) == len(requests)
    for plan in plans:
        assert plan.request.experiment == name and plan.request.trials == 2
        assert plan.images.stand_in or "digits" in plan.images.name
        assert ImageRequest.from_dict(plan.request.to_dict()) == plan.request


@EACH
def test_quick_is_less_than_full(name):
    quick, full = (experiments()[name].requests(ExperimentAsk(quick=quick))[0] for quick in (True, False))
    assert (quick.max_images or 10**9) <= (full.max_images or 10**9)
    if quick.train is not None:
        assert quick.train["epochs"] < full.train["epochs"]


def test_what_is_asked_for_goes_before_what_is_usual():
    ask = ExperimentAsk(quick=True, trials=5, first_seed=7, speedups=(3.0,), max_images=123, train={"epochs": 1})
    for one in experiments().values():
        for request in one.requests(ask):
            assert (request.trials, request.first_seed, request.speedups, request.max_images) == (5, 7, (3.0,), 123)
            assert request.train == {"epochs": 1}


def test_on_the_papers_data_the_papers_model_and_numbers_are_used(tmp_path):
    """A folder of images stands for the data set; nothing is loaded to write the requests down."""
    from PIL import Image

    for group in ("cat", "dog"):
        (tmp_path / group).mkdir()
        for number in range(3):
            Image.new("RGB", (8, 8), (number, 9, 9)).save(tmp_path / group / f"{number}.png")
    (request,) = experiments()["cifar10"].requests(ExperimentAsk(data=str(tmp_path)))
    assert request.model == "resnet56" and request.speedups == (1.33, 2.0, 4.0, 8.0, 16.0)
    assert request.retrain == {"rate": 1e-3, "batch": 256, "epochs": 200}
    assert request.train["schedule"] == "steps" and request.train["steps"] == [100, 150, 175]
    assert request.method_settings["autobot"] == {"rate": 0.7, "batch": 128, "iterations": 200, "beta": 5.3}
    assert request.pw["taylor"] == {"theta": 0.5, "gamma": 1.0}
    (other,) = experiments()["cifar10"].requests(ExperimentAsk(data=str(tmp_path), model="efficientnet_v2_s"))
    assert other.method_settings["autobot"]["rate"] == 1.88 and other.retrain["epochs"] == 10
    (quick,) = experiments()["cifar10"].requests(ExperimentAsk(data=str(tmp_path), quick=True))
    assert quick.train["epochs"] == 10 and quick.max_images == 2500
    assert request.weights is None and other.weights == "imagenet"  # as appendix A starts them


@pytest.mark.parametrize("key", PAPER, ids=" ".join)
def test_the_papers_settings_are_allowed(key):
    preset = PAPER[key]
    for name, given in preset.request()["method_settings"].items():
        assert setting_faults(filter_methods()[name].settings, given) == []
    assert set(preset.pw) == set(filter_methods())
    request = ImageRequest(key[1], "digits", ("class",), train=preset.train, **preset.request())
    assert request.settings().retrain.faults("") == [] == request.settings().train.faults("")


def test_the_ablation_has_every_switch():
    found = set(experiments()["ablation"].methods)
    switches = {f"autobot+{part}{place}" for part in ("weights", "labels") for place in ("", "@prune", "@retrain")}
    assert switches | {"autobot", "autobot+pw"} == found


def test_an_unknown_experiment_names_the_known_ones():
    with pytest.raises(RequestError, match="Known: ablation, artefact, balance-subsets, celeba"):
        experiment_named("figure-9")
