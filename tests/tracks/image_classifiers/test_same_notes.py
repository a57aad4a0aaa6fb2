"""evaluate, audit, inspect, ask and export read an input through one door: the same pixels, the
same sentences."""

import base64
import io
import json

import numpy as np
import pytest
import torch
from PIL import Image

from engine.classifiers.images.request import inspected
from engine.cli import main
from engine.models.image_processor import FILE
from engine.models.load_image_classifier import load_classifier
from engine.resident.asks import answer_here
from engine.resident.warm import Warm
from engine.tracks.image_classifiers.run import run_image_audit
from engine.tracks.image_classifiers.summary import evaluate
from tests.audit.run_checks import value_of
from tests.tiny_images import CLASSES, saved_by_transformers
from tests.tracks.image_classifiers.worlds import image_request

ASSUMED = (
    "Nothing beside its weights says how images are normalised; the usual mean (0.485, 0.456,"
    " 0.406) is assumed."
)


def png_of(at, deep=False):
    draw = np.random.default_rng(at)
    image = (
        Image.fromarray(draw.integers(0, 65536, (40, 64), dtype=np.uint16))
        if deep
        else Image.fromarray(draw.integers(0, 256, (40, 64, 3), dtype=np.uint8))
    )
    memory = io.BytesIO()
    image.save(memory, "PNG")
    return memory.getvalue()


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Wide pictures with a CSV that names no split: one broken, one absent, three of 16 bits, one
    hidden copy."""
    home = tmp_path_factory.mktemp("pictures")
    for at in range(120):
        (home / f"{at}.png").write_bytes(png_of(at, deep=at in (5, 6, 7)))
    (home / "8.png").write_bytes(b"broken")
    (home / "9.png").unlink()
    (home / "._labels.csv").write_bytes(b"\0\5\x16\7")
    rows = "".join(f"{at}.png,{CLASSES[at % 3]},{'ab'[at % 2]}\n" for at in range(120))
    (home / "labels.csv").write_text("path,label,site\n" + rows)
    return home


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved_by_transformers("resnet", tmp_path_factory.mktemp("models") / "resnet")


@pytest.fixture(scope="module")
def run(store, pictures, model):
    return run_image_audit(
        image_request(
            model=str(model),
            data=str(pictures),
            axes=("site",),
            size=None,
            methods=("random",),
            speedups=(1.5,),
            trials=1,
            train=None,
            max_images=None,
            retrain={"epochs": 4, "batch": 16, "rate": 0.05},
        ),
        store,
    )


def on_test(model, pictures, axis="site"):
    return evaluate(str(model), None, str(pictures), None, (axis,), "test", None, "cpu")


SAID = (
    "1 image is missing or empty and was left out: 9.png.",
    "More than 8 bits per colour were brought to 8 in 3 of 118 images.",
    "1 image cannot be decoded and was left out: 8.png (it is no whole file of JPEG, PNG",
    "No split is given: 70 % train, 10 % validation, 20 % test",
    "The images were split here.",
)


def test_evaluate_says_what_the_audit_says(run, pictures, model, capsys):
    found = on_test(model, pictures)
    for said in SAID:
        assert any(note.startswith(said) for note in found.notes), said
    assert set(found.notes) <= set(run.meta["warnings"])
    (mine,) = [row for row in found.rows if row["metric"] == "auc" and row["axis"] == ""]
    assert mine["value"] == pytest.approx(value_of(run.table("results"), "dense", "auc"))
    assert main(["evaluate", "--model", str(model), "--data", str(pictures), "--axis", "site"]) == 0
    printed = capsys.readouterr().out
    assert all(f"! {said}" in printed for said in SAID)


def test_an_axis_in_other_capitals_is_the_same_evaluation(pictures, model):
    found = [on_test(model, pictures, axis) for axis in ("site", "SITE")]
    assert json.dumps(found[0].rows) == json.dumps(found[1].rows)


def test_an_assumed_normalisation_is_said_by_all(pictures, model, tmp_path):
    bare = saved_by_transformers("resnet", tmp_path / "bare")
    (bare / FILE).unlink()
    assert ASSUMED in on_test(bare, pictures).notes
    assert ASSUMED in inspected({"model": str(bare)})
    assert ASSUMED not in inspected({"model": str(model)})
    assert not any("assumed" in said for said in inspected({"model": "demo-resnet"}))


def test_a_picture_of_ones_own_is_prepared_as_the_audits(run, store, model):
    content = png_of(7)
    given = {"run": run.id, "variant": "dense", "file": base64.b64encode(content).decode()}
    answer = answer_here("picture", given, store, warm=Warm())
    from transformers import AutoImageProcessor

    own = AutoImageProcessor.from_pretrained(model, backend="pil")
    with torch.no_grad():
        logits = load_classifier(model, device="cpu").model(
            own(Image.open(io.BytesIO(content)), return_tensors="pt")["pixel_values"]
        )
    np.testing.assert_allclose(answer["dense"]["probabilities"], logits.softmax(-1)[0], atol=1e-5)
    deep = base64.b64encode(png_of(5, deep=True)).decode()
    notes = answer_here("picture", {**given, "file": deep}, store, warm=Warm())["notes"]
    assert "More than 8 bits per colour were brought to 8 in this picture." in notes
    image = run.table("thumbs")["image_id"].iloc[0]
    kept = answer_here(
        "picture", {"run": run.id, "variant": "dense", "image": image}, store, warm=Warm()
    )
    stored = (
        run.table("predictions")
        .set_index(["variant", "image_id"])
        .filter(regex="^p_")
        .loc[("dense", image)]
    )
    np.testing.assert_allclose(kept["dense"]["probabilities"], stored, atol=1e-3)
