"""What outputs mean: aligned by name, asked, or refused. The model is its own oracle: every label
is what it answers, so that its accuracy is 1 where outputs are taken for the right classes and 0
where two of them are exchanged.
"""

import numpy as np
import pytest
from PIL import Image

from engine.classifiers.images.request import images_of
from engine.core.errors import Fault
from engine.core.types import rng
from engine.models.load_image_classifier import fresh_classifier, save_classifier
from engine.models.vision import architecture_for
from tests.builders import accuracy, evaluated, faults_of
from tests.classifiers.worlds import SMALL
from tests.tracks.image_classifiers.worlds import image_request

SPLITS = ["train"] * 20 + ["test"] * 20


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A model folder of two outputs, and 40 pictures of either in class folders: normal is output
    0, odd output 1."""
    place, draw = tmp_path_factory.mktemp("pictures"), rng("pictures for outputs", 0)
    noise = draw.integers(0, 256, (160, 16, 16, 3)).astype(np.uint8) // draw.integers(
        1, 9, (160, 1, 1, 1)
    ).astype(np.uint8)
    new = fresh_classifier(SMALL, ("0", "1"), 16, 0, device="cpu")
    margin = np.subtract(*new.model(new.prepared(noise)).detach().numpy().T[::-1])
    head = new.model.get_submodule(new.architecture.classifier(new.model))
    head.bias[1] -= float(np.median(margin))
    save_classifier(new, place / "model")
    order = np.argsort(margin)
    for name, rows in (("normal", order[:40]), ("odd", order[-40:])):
        for at, row in enumerate(rows):
            file = place / "data" / SPLITS[at] / name / f"{row}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(noise[row]).save(file)
    return place


def test_weights_alone_do_not_say_a_size(pictures, capsys):
    """Trained at 16 pixels, read at 32. Before, the accuracy was .5, nobody said why, and nothing
    could be done."""
    words = ["--model", SMALL, "--weights", str(pictures / "model" / "model.safetensors")]
    words += ["--data", str(pictures / "data"), "--classes", "normal,odd"]
    usual = evaluated(capsys, *words)[1]
    side = architecture_for(SMALL).default_size
    assert accuracy(usual) < 0.9 and side != 16
    said = (
        f"Nor what size they have: the middle square of each is taken, at {side} x {side} pixels."
    )
    assert said in usual["notes"]
    own = evaluated(capsys, *words, "--size", "16")[1]
    assert accuracy(own) == 1.0 and not any("Nor what size" in note for note in own["notes"])
    few = evaluated(capsys, *words, "--size", "16", "--max-images", "6")[1]["results"]
    assert {type(row["n"]) for row in few} == {int}, "also where no group can be compared"


def test_image_audits_and_evaluate_ask_the_same(pictures, capsys):
    words = ["--model", str(pictures / "model"), "--data", str(pictures / "data")]
    code, found = evaluated(capsys, *words)
    assert code == 2 and "gives them no names" in found["faults"][0]["what"]
    assert [
        name.rpartition("/")[2].endswith(".png") for name, _ in found["faults"][0]["examples"]
    ] == [True] * 3
    asked = {"model": str(pictures / "model"), "data": str(pictures / "data"), "train": None}
    told = tuple(Fault.from_dict(one) for one in found["faults"])
    assert told == faults_of(images_of, image_request(**asked))
    assert accuracy(evaluated(capsys, *words, "--classes", "normal,odd")[1]) == 1.0
    assert accuracy(evaluated(capsys, *words, "--classes", "odd,normal")[1]) == 0.0
    assert images_of(image_request(**asked, classes=("odd", "normal"))).classes == ("odd", "normal")
