"""evaluate asks a folder of transformers what its own processor makes of pictures."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from engine.classifiers.groups import GroupMeasure
from engine.data.images.load import ImageAsk, load_images
from engine.models.image_processor import FILE
from engine.models.load_image_classifier import load_classifier
from engine.tracks.image_classifiers.summary import evaluate
from tests.models.test_image_processor import folder_of_pictures, theirs
from tests.tiny_images import CLASSES, saved_by_transformers


def test_evaluate_asks_the_model_what_its_processor_makes(tmp_path):
    folder, home = (
        saved_by_transformers("resnet", tmp_path / "resnet"),
        folder_of_pictures(tmp_path / "pictures"),
    )
    numbers, _ = theirs(folder, json.loads((folder / FILE).read_text()))
    table = load_images(str(home), ImageAsk(size=32)).table
    table = table[table["split"] == "test"].reset_index(drop=True)
    with torch.no_grad():
        images = torch.tensor(
            np.stack([numbers((home / name).read_bytes()) for name in table["image_id"]])
        )
        answers = load_classifier(folder, device="cpu").model(images).softmax(1).double().numpy()
    own = (
        GroupMeasure(table, CLASSES, ("class",), answers)
        .dense()
        .results.set_index(["metric", "axis"])["value"]
    )
    found = evaluate(str(folder), None, str(home), None, ("class",), "test", None, "cpu")
    values = {row["metric"]: row["value"] for row in found.rows if row["axis"] == ""}
    assert values["auc"] == pytest.approx(own["auc", ""], abs=1e-9) and own["auc", ""] not in (
        0.5,
        1.0,
    )
    assert values["accuracy"] == own["accuracy", ""]
