"""CIFAR-10's python batches: read as published, and never opened otherwise."""

import hashlib
import os
import pickle
import sys

import numpy as np
import pytest

from engine.core.errors import RequestError
from engine.data.images import arrays
from engine.data.images.arrays import CLASSES, PUBLISHED
from engine.data.images.load import ImageAsk, load_images, look_images
from tests.data import sizes

NAMES = tuple(PUBLISHED)


def batches(home, n=40):
    """Files as CIFAR-10's page has them, n pictures each: byte keys, rows of 3,072 bytes, channel
    after channel."""
    home.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(1)
    for number, name in enumerate(NAMES):
        data = draw.integers(0, 255, (n, 3072), dtype=np.uint8)
        names = [f"thing_s_{number}_{i:04d}.png" for i in range(n)]
        content = {
            "batch_label": "x",
            "labels": [i % 10 for i in range(n)],
            "data": data,
            "filenames": names,
        }
        (home / name).write_bytes(pickle.dumps(content, protocol=2))
    return home


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Made-up batches that count as the published ones."""
    home = batches(tmp_path / "cifar-10-batches-py")
    hashes = {name: hashlib.md5((home / name).read_bytes()).hexdigest() for name in NAMES}
    monkeypatch.setattr(arrays, "PUBLISHED", hashes)
    return home


def refusal(home):
    with pytest.raises(RequestError) as caught:
        load_images(str(home))
    return str(caught.value)


def test_published_batches_are_read(tmp_path, published):
    assert look_images(str(tmp_path)).name == "CIFAR-10"
    images = load_images(str(tmp_path), ImageAsk())
    assert images.name == "CIFAR-10" and images.classes == CLASSES and images.groups == ("class",)
    assert sizes(images) == (180, 20, 40)
    row = np.flatnonzero(images.table["image_id"] == "test/thing_s_5_0007.png")
    stored = pickle.loads((published / "test_batch").read_bytes())["data"][7].reshape(3, 32, 32)
    assert (images.read(row)[0] == stored.transpose(1, 2, 0)).all() and images.table["label"][
        row[0]
    ] == 7
    assert load_images(str(published)).digest == images.digest


class Runs:
    """Unpickling it would call something."""

    def __init__(self, call, *given):
        self.call, self.given = call, given

    def __reduce__(self):
        return self.call, self.given


@pytest.mark.parametrize("call", [os.system, eval, sys.exit])
def test_a_batch_with_other_bytes_is_not_opened(published, call):
    mark = published / "was_here"
    given = {os.system: f"touch {mark}", eval: f"open({str(mark)!r}, 'w')", sys.exit: 3}[call]
    for name in ("data_batch_3", "test_batch"):
        (published / name).write_bytes(
            pickle.dumps({"data": Runs(call, given), "labels": [0]}, protocol=2)
        )
    said = refusal(published)
    assert "data_batch_3, test_batch" in said and "none was opened" in said and "npz" in said
    assert not mark.exists()


def test_a_batch_of_ones_own_is_refused_and_an_incomplete_set_is_said(tmp_path):
    assert "Not as published (by MD5): data_batch_1" in refusal(batches(tmp_path))
    (tmp_path / "test_batch").unlink()
    assert "Absent: test_batch" in refusal(tmp_path)
