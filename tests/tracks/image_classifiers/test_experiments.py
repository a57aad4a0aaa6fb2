"""Figures of the PW-loss paper: found by themselves, their requests hold up on embedded images,
runs are read."""

import pytest

from engine.audit.experiments import ExperimentAsk
from engine.core.types import setting_faults
from engine.tracks.image_classifiers.experiments.paper import PAPER
from engine.tracks.image_classifiers.methods import filter_methods
from engine.tracks.image_classifiers.request import ImageRequest
from tests.builders import changed
from tests.experiment_checks import QUICK, check_reading, of_paper
from tests.tracks.image_classifiers.made_up_run import make_run

FOUND = of_paper("PW loss")
AUDITS = {name: one for name, one in FOUND.items() if one.figure != "Fig. 6"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("store"))


def test_every_figure_is_there():
    assert {one.figure.partition(",")[0] for one in FOUND.values()} == {
        f"Fig. {number}" for number in range(1, 9)
    }


def test_printed_numbers_stand_beside_those_of_the_same_subgroup(run):
    table = AUDITS["celeba"].table([run], QUICK)
    printed = table[table["paper"].notna()]
    assert printed["paper"].tolist() == [0.9639, 0.9794] and set(printed["where"]) == {"Sec. 4.2.1"}


def test_every_setting_that_is_not_the_papers_is_told(run, tmp_path):
    (told,) = set(AUDITS["celeba"].table([run], QUICK)["differs"])
    assert "speedups 2×, 4×, 8× and 16×, not 16×, 32×, 64×, 128× and 256×" in told
    assert "trials miss" in told and "PW of autobot theta" not in told
    request = run.meta["request"] | {"pw": {"autobot": {"theta": 0.9, "gamma": 1.0}}}
    other = changed(run, tmp_path, "variants", {}, request=request)
    (told,) = set(AUDITS["celeba"].table([other], QUICK)["differs"])
    assert "PW of autobot theta 0.9, not 0.3" in told


def test_shares_of_the_loss_are_laid_beside_the_papers_words(run, tmp_path):
    """Fig. 4: with intervals over trials, whatever a data set calls blond."""
    share = "change of the share of the loss, autobot, male"

    def told(table):
        classes = run.meta["data"] | {"classes": ["not blond hair", "blond hair"]}
        here = changed(run, tmp_path / str(len(table)), "loss_share", lambda _: table, data=classes)
        return AUDITS["loss-share"].table([here], QUICK).set_index("what")

    every = run.table("loss_share")
    found = told(every)["agrees"]
    assert found[f"{share}, blond"] == found[f"{share}, all classes"] == "as stated"
    assert found[f"{share}, blond".replace("autobot", "taylor")] == "against it"
    other = (
        every["loss"].map({"pw": "plain", "plain": "pw"}).where(every["trial"] > 0, every["loss"])
    )
    mixed = every.assign(loss=other)[(every["label"] == 0) | (every["step"] < 20)]
    found = told(mixed)
    assert found.loc[f"{share}, blond", "agrees"] == "cannot be told"
    parts = [found.loc[f"{share}, {name}", "ours"] for name in ("blond", "not blond")]
    assert found.loc[f"{share}, all classes", "ours"] == pytest.approx(sum(parts))


def test_the_artefact_goes_with_its_class_as_often_as_it_should():
    one = FOUND["artefact-images"]
    assert one.requests(QUICK) == []
    table = check_reading(one, [])
    assert table["paper"].tolist() == [0.98, 0.02, 0.845]
    assert table["paper"].between(table["low"], table["high"])[:2].all()


def test_what_is_asked_for_goes_before_what_is_usual():
    ask = ExperimentAsk(quick=True, levels=(3.0,), most=123, train={"epochs": 1})
    for one in AUDITS.values():
        for request in one.requests(ask):
            found = request.speedups, request.max_images, request.train
            assert found == (ask.levels, ask.most, ask.train)


def test_on_the_papers_data_the_papers_model_and_numbers_are_used(tmp_path):
    """A folder of images stands for the data set; nothing is loaded to write the requests down."""
    from PIL import Image

    for group in ("cat", "dog"):
        (tmp_path / group).mkdir()
        for number in range(3):
            Image.new("RGB", (8, 8), (number, 9, 9)).save(tmp_path / group / f"{number}.png")

    def asked(**more):
        return AUDITS["cifar10"].requests(ExperimentAsk(data=str(tmp_path), **more))[0]

    request = asked()
    preset = PAPER["cifar10", "resnet56"]
    assert preset.request().items() <= vars(request).items() and request.train == preset.train
    assert request.train["steps"] == [100, 150, 175] and request.retrain["epochs"] == 200
    autobot = {"rate": 0.7, "batch": 128, "iterations": 200, "beta": 5.3}
    assert request.method_settings["autobot"] == autobot
    other, quick = asked(model="efficientnet_v2_s"), asked(quick=True)
    assert other.retrain == PAPER["cifar10", "efficientnet_v2_s"].retrain
    assert quick.train["epochs"] == 10 and quick.max_images == 2500
    assert request.weights is None and other.weights == "imagenet"  # as appendix A starts them
    sides = [
        asked(model=model, protocol=protocol).size
        for model in (None, "efficientnet_v2_s")
        for protocol in ("paper", "published")
    ]
    assert sides == [None, 32, None, 224], "the paper names none: the model's own"


@pytest.mark.parametrize("key", PAPER, ids=" ".join)
def test_the_papers_settings_are_allowed(key):
    preset = PAPER[key]
    for name, given in preset.request()["method_settings"].items():
        assert setting_faults(filter_methods()[name].settings, given) == []
    assert set(preset.pw) == set(filter_methods())
    request = ImageRequest(key[1], "digits", ("class",), train=preset.train, **preset.request())
    assert request.settings().retrain.faults("") == [] == request.settings().train.faults("")


def test_the_ablation_has_every_switch():
    found = set(AUDITS["ablation"].methods)
    switches = {
        f"autobot+{part}{place}"
        for part in ("weights", "labels")
        for place in ("", "@prune", "@retrain")
    }
    assert switches | {"autobot", "autobot+pw"} == found
