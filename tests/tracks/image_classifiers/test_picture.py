"""A picture for both models: the answers are the audit's, the maps Captum's, and bad input is
refused."""

import base64
import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from captum.attr import Occlusion
from PIL import Image

from engine.classifiers.images.picture import LARGEST_FILE
from engine.classifiers.images.side_by_side import grad_cam, last_fine_layer, occlusion
from engine.cli import main
from engine.core.errors import RequestError
from engine.models.load_image_classifier import fresh_classifier
from engine.report.charts.where_it_looks import ABOUT, overlays
from engine.report.palette import theme
from engine.tracks.image_classifiers.run import run_image_audit
from engine.training.losses import log_odds
from tests.builders import call
from tests.pages.checks import assert_calm, charts_of, click, html_of, words_of
from tests.tracks.image_classifiers.worlds import image_request

VARIANT = "random-2x"
ASKED = "picture", {"variant": VARIANT}


@pytest.fixture(scope="module")
def run(store):
    return run_image_audit(
        image_request(methods=("random",), speedups=(2.0,), trials=1, max_images=150), store
    )


def file_of(pixels, kind="PNG"):
    memory = io.BytesIO()
    Image.fromarray(pixels).save(memory, kind)
    return base64.b64encode(memory.getvalue()).decode()


def noise(size=40):
    return np.random.default_rng(0).integers(0, 256, (size, size, 3), dtype=np.uint8)


def test_kept_pictures_get_the_answers_of_the_audit(run, ask):
    stored = run.table("predictions").set_index(["variant", "image_id"]).filter(regex="^p_")
    for image in run.table("thumbs")["image_id"].head(3):
        answer = ask(image=image)
        for side, variant in (("dense", "dense"), ("pruned", f"{VARIANT}#0")):
            np.testing.assert_allclose(
                answer[side]["probabilities"], stored.loc[(variant, image)], atol=1e-3
            )
    assert answer["gone"].endswith("filters") and answer["window"] == 2 and answer["size"] == 16
    assert np.shape(answer["dense"]["map"]) == (16, 16)


def test_a_picture_of_ones_own_and_no_cut(ask):
    answer = ask(file=file_of(noise()), variant="dense")
    assert answer["dense"] == answer["pruned"] and any(
        "Nothing is cut" in note for note in answer["notes"]
    )
    brought = ask(file=file_of(noise(), "JPEG"))
    assert sum(brought["dense"]["probabilities"]) == pytest.approx(1)
    assert brought["dense"]["map"] != brought["pruned"]["map"]


class Corner(torch.nn.Module):
    """Reads the corner at the top left."""

    def forward(self, given):
        corner = given[:, :, :4, :4].square().mean((1, 2, 3))
        return torch.stack([corner, -corner], dim=1)


def test_the_map_is_captums_and_finds_what_decides():
    clf = replace(
        fresh_classifier("resnet20", ("one", "other"), 32, seed=0, device="cpu"), model=Corner()
    )
    image = clf.prepared(noise(32)[None])
    expected = Occlusion(lambda given: log_odds(clf.model(given))).attribute(
        image, (3, 4, 4), strides=(3, 2, 2), baselines=0, target=0, perturbations_per_eval=1
    )
    found = occlusion(clf, noise(32), 0)
    np.testing.assert_allclose(found, expected[0, 0].numpy(), atol=1e-5)
    assert (found[:4, :4] > 0).all() and not found[8:].any() and not found[:, 8:].any()


class Chain(torch.nn.Module):
    """Two maps of 4 x 4 places, of the first and the second colour, summed up with the weights 3
    and -1."""

    def __init__(self):
        super().__init__()
        self.maps = torch.nn.Conv2d(3, 2, 8, stride=8, bias=False)
        self.pool = torch.nn.AdaptiveAvgPool2d(1)
        self.maps.weight.data = torch.zeros(2, 3, 8, 8)
        self.maps.weight.data[0, 0] = self.maps.weight.data[1, 1] = 1 / 64
        self.requires_grad_(False)

    def forward(self, given):
        pooled = self.pool(self.maps(given)).flatten(1)
        score = 3 * pooled[:, 0] - pooled[:, 1]
        return torch.stack([score, -score], dim=1)


def test_grad_cam_is_solved_by_hand():
    """The log-odds of the first of two classes are twice the score, so maps weigh 6/16 and -2/16 at
    each place."""
    clf = replace(
        fresh_classifier("resnet20", ("one", "other"), 32, seed=0, device="cpu"), model=Chain()
    )
    red, green = (
        clf.prepared(noise(32)[None])[0, at].reshape(4, 8, 4, 8).mean((1, 3)) for at in range(2)
    )
    found, layer = grad_cam(clf, noise(32), 0)
    assert layer == "maps"
    np.testing.assert_allclose(found, (6 * red - 2 * green).numpy() / 16, rtol=1e-4)
    np.testing.assert_allclose(grad_cam(clf, noise(32), 1)[0], -found, rtol=1e-4)


@pytest.mark.parametrize(
    ("arch", "size", "layer"),
    [
        ("resnet10-w16", 32, "layer3.0"),  # layer4 tells 2 x 2 places apart
        ("resnet18", 224, "layer4.1"),
        ("vgg16", 64, "features.29"),
        ("mobilenet_v2", 224, "features.18"),
    ],
)
def test_the_layer_is_the_last_fine_one_where_all_paths_have_met(arch, size, layer):
    model = fresh_classifier(arch, ("one", "other"), size, seed=0, device="cpu").model
    assert last_fine_layer(model, torch.zeros(1, 3, size, size)) == layer


def test_a_model_without_fine_layers_is_told_to_ask_for_occlusion():
    with pytest.raises(RequestError, match="Ask for occlusion"):
        last_fine_layer(Corner(), torch.zeros(1, 3, 32, 32))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "one is needed"),
        ({"image": "a", "file": "b"}, "one only"),
        ({"image": "none"}, "'none' is not among the"),
        ({"file": "no base64!"}, "not in base64"),
        ({"file": base64.b64encode(b"GIF89a").decode()}, "neither PNG nor JPEG"),
        ({"file": file_of(noise())[:400]}, "cannot be decoded"),
        ({"file": "A" * (LARGEST_FILE * 2)}, "too large"),
        ({"file": 7}, "is no file"),
        ({"image": "none", "variant": "random"}, "variant: 'random' is not known"),
        ({"file": 7, "way": "x-ray"}, "way: 'x-ray' is not known"),
        ({"image": "none", "pixels": []}, "'pixels' is not known"),
    ],
)
def test_bad_input_is_refused(ask, given, told):
    with pytest.raises(RequestError, match=told):
        ask(**given)


def test_the_command(run, store, capsys, tmp_path):
    Image.fromarray(noise()).save(tmp_path / "one.png")
    words = ["ask", run.id, "--store", str(store.root), "--image", str(tmp_path / "one.png")]
    assert main(words) == 0
    assert "dense  says" in capsys.readouterr().out
    assert len(call(capsys, *words, "--json")[1]["pruned"]["map"]) == 16
    (tmp_path / "large.png").write_bytes(b"\x89PNG" + bytes(LARGEST_FILE))
    assert main([*words[:-1], str(tmp_path / "large.png")]) == 2
    assert "is larger than 5 MB" in capsys.readouterr().err


def test_the_page(run, visit):
    at = visit("picture")
    assert "Press Run" in words_of(at) and "anecdote" in at.info[0].value
    click(at, "Run")
    assert_calm(at)
    assert len(charts_of(at)) == 3 and ABOUT["occlusion"] in words_of(at)
    look = next(one for one in at.segmented_control if "looks" in one.label)
    look.set_value("grad-cam").run()
    assert "Press Run" in words_of(at)
    click(at, "Run")
    assert_calm(at)
    assert ABOUT["grad-cam"] in words_of(at) and "over 16 places" in words_of(at)


def test_the_gallery_shows_where_both_look_when_asked(run, visit):
    at = visit("examples")
    assert 'class="pa-maps"' not in html_of(at)
    at.segmented_control(key="looks").set_value("grad-cam").run()
    assert_calm(at)
    html, pictures = html_of(at), run.table("thumbs")["image_id"].nunique()
    assert (
        0 < html.count("Where the dense model looks") == html.count('class="pa-maps"') <= pictures
    )
    assert "prove nothing about a subgroup" in words_of(at)


def test_a_map_is_laid_over_the_picture_by_hand():
    """Left half for, right half against: the colours of the house cover three quarters; a map of
    zeros covers none."""
    grey = file_of(np.full((2, 2, 3), 100, np.uint8))
    maps = {"dense": {"map": [[1.0, -1.0]]}, "pruned": {"map": [[0.0, 0.0]]}}
    pictures = dict(overlays({"way": "grad-cam", "picture": grey, **maps}, dark=False))
    dense, pruned = (
        np.asarray(Image.open(io.BytesIO(pictures[side]))) for side in ("dense", "pruned")
    )
    assert (pruned == 100).all()
    against, for_ = (theme(False).diverging[end][1] for end in (0, -1))
    for colour, half in ((for_, dense[:, :64]), (against, dense[:, 64:])):
        expected = 25 + 0.75 * np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)])
        assert np.abs(half - expected).max() <= 0.5
