"""A picture for both models: the answers are the audit's, the maps Captum's, and bad input is refused."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from captum.attr import Occlusion
from PIL import Image

from engine.cli import main
from engine.core.errors import RequestError
from engine.models.load_image_classifier import fresh_classifier
from engine.models.log_odds import log_odds
from engine.resident.asks import answer_here
from engine.resident.warm import Warm
from engine.store.runs import Run, Store
from engine.tracks.image_classifiers.picture import LARGEST_FILE
from engine.tracks.image_classifiers.run import run_image_audit
from engine.tracks.image_classifiers.where_it_looks import occlusion
from tests.pages.checks import assert_calm, charts_of, opened, use_store, words_of
from tests.tracks.image_classifiers.worlds import image_request

VARIANT = "random-2x"


@pytest.fixture(scope="module")
def run(store) -> Run:
    return run_image_audit(image_request(methods=("random",), speedups=(2.0,), trials=1, max_images=150), store)


@pytest.fixture(scope="module")
def warm() -> Warm:
    return Warm()


@pytest.fixture
def ask(run, store, warm):
    def asked(**given):
        return answer_here("picture", {"run": run.id, "variant": VARIANT, **given}, store, warm=warm)

    return asked


def file_of(pixels: np.ndarray, kind: str = "PNG") -> str:
    memory = io.BytesIO()
    Image.fromarray(pixels).save(memory, kind)
    return base64.b64encode(memory.getvalue()).decode()


def noise(size: int = 40) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (size, size, 3), dtype=np.uint8)


def test_kept_pictures_get_the_answers_of_the_audit(run, ask):
    stored = run.table("predictions").set_index(["variant", "image_id"]).filter(regex="^p_")
    for image in run.table("thumbs")["image_id"].head(3):
        answer = ask(image=image)
        for side, variant in (("dense", "dense"), ("pruned", f"{VARIANT}#0")):
            np.testing.assert_allclose(answer[side]["probabilities"], stored.loc[(variant, image)], atol=1e-3)
    assert answer["filters"] > 0 and answer["window"] == 2 and answer["size"] == 16
    assert np.shape(answer["dense"]["map"]) == (16, 16)


def test_a_picture_of_ones_own_and_no_cut(ask):
    answer = ask(file=file_of(noise()), variant="dense")
    assert answer["dense"] == answer["pruned"] and any("Nothing is cut" in note for note in answer["notes"])
    brought = ask(file=file_of(noise(), "JPEG"))
    assert sum(brought["dense"]["probabilities"]) == pytest.approx(1)
    assert brought["dense"]["map"] != brought["pruned"]["map"]


class Corner(torch.nn.Module):
    """Reads the corner at the top left."""

    def forward(self, given):
        corner = given[:, :, :4, :4].square().mean((1, 2, 3))
        return torch.stack([corner, -corner], dim=1)


def test_the_map_is_captums_and_finds_what_decides():
    clf = replace(fresh_classifier("resnet20", ("one", "other"), 32, seed=0, device="cpu"), model=Corner())
    image = clf.prepared(noise(32)[None])
    expected = Occlusion(lambda given: log_odds(clf.model(given))).attribute(
        image, (3, 4, 4), strides=(3, 2, 2), baselines=0, target=0, perturbations_per_eval=1
    )
    found = occlusion(clf, noise(32), 0)
    np.testing.assert_allclose(found, expected[0, 0].numpy(), atol=1e-5)
    assert (found[:4, :4] > 0).all() and not found[8:].any() and not found[:, 8:].any()


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
        ({"image": "none", "pixels": []}, "'pixels' is not known"),
    ],
)
def test_bad_input_is_refused(ask, given, told):
    with pytest.raises(RequestError, match=told):
        ask(**given)


def test_without_kept_weights_the_reason_is_said(run, tmp_path):
    tables = {name: run.table(name) for name in run.meta["tables"]}
    tables["weights"] = tables["weights"].query("variant == 'dense'")
    store = Store(tmp_path)
    store.write("changed", {name: part for name, part in run.meta.items() if name != "tables"}, tables)
    with pytest.raises(RequestError, match="has no weights in this audit"):
        answer_here("picture", {"run": "changed", "variant": VARIANT, "file": file_of(noise())}, store)


def test_the_command(run, store, capsys, tmp_path):
    Image.fromarray(noise()).save(tmp_path / "one.png")
    words = ["ask", run.id, "--store", str(store.root), "--image", str(tmp_path / "one.png")]
    assert main(words) == 0
    assert "dense  says" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["pruned"]["map"]) == 16
    (tmp_path / "large.png").write_bytes(b"\x89PNG" + bytes(LARGEST_FILE))
    assert main([*words[:-1], str(tmp_path / "large.png")]) == 2
    assert "is larger than 5 MB" in capsys.readouterr().err


def test_the_page(run, store, monkeypatch):
    use_store(store.root, monkeypatch)
    at = opened("picture", run.id)
    assert_calm(at)
    assert "Press Run" in words_of(at) and "anecdote" in at.info[0].value
    next(one for one in at.button if one.label == "Run").click().run()
    assert_calm(at)
    assert len(charts_of(at)) == 3
