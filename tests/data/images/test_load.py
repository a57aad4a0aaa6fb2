"""Embedded images and arrays: what is asked, split, sampled, drawn; faults of an ask."""

import hashlib
import os
import pickle
import sys

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import RequestError
from engine.data.images import arrays
from engine.data.images import embedded as avatar_faces
from engine.data.images.arrays import CLASSES, PUBLISHED
from engine.data.images.load import SPLITS, ImageAsk, load_images, look_images
from engine.data.images.pixels import ArrayPixels, Shelf
from engine.data.sources import allotted, deal
from tests.builders import refused
from tests.data import notes_of, sizes
from tests.data.images import faults_of, load, noise, npz


def test_the_table_has_its_columns_and_reading_gives_square_pictures():
    images = load_images("avatars", ImageAsk(groups=("male", "skin", "class"), max_images=60))
    table = images.table
    assert list(table) == ["image_id", "label", "split", "male", "skin", "class"]
    assert isinstance(table.index, pd.RangeIndex) and table["image_id"].is_unique
    assert table["label"].dtype == np.int64 and images.classes == ("not blond", "blond")
    assert sizes(images) == (60,) * len(SPLITS)
    assert set(table["skin"]) == {"light", "medium", "dark"}
    assert (table["class"] == table["label"].map(dict(enumerate(images.classes)))).all()
    pixels = images.read(np.array([3, 0, 3]))
    assert pixels.shape == (3, 32, 32, 3) and pixels.dtype == np.uint8
    assert (pixels[0] == pixels[2]).all() and "show nobody" in images.stand_in
    pixels[:] = 0
    assert images.read(np.array([3])).any(), "what is read is a copy"
    assert images.read(np.array([], dtype=int)).shape == (0, 32, 32, 3)


def test_all_faults_of_an_ask_are_said_together():
    ask = ImageAsk(target="smile", groups=("age", "hat"), size=4, max_images=0)
    faults = refused(load_images, "avatars", ask)
    assert len(faults) == 5
    for words in ("'smile' is not known", "blond", "'age'", "'hat'", "male", "32 to 64"):
        assert words in " ".join(faults)
    assert "target itself" in faults_of("digits", groups=("digit",))
    assert "cannot show 10 classes" in faults_of("digits", max_images=9)


def test_a_face_does_not_depend_on_what_else_is_drawn():
    many, few = avatar_faces.people("test", 400), avatar_faces.people("test", 40)
    assert (many.draw[:40] == few.draw).all() and (many.male[:40] == few.male).all()
    alone = avatar_faces.draw(many.of(np.array([17, 390])), 32)
    assert (alone == avatar_faces.draw(many, 32)[[17, 390]]).all()
    assert not (avatar_faces.people("train", 40).draw == few.draw).any()
    small, large = load_images("avatars", ImageAsk(max_images=80)), load_images("avatars")
    at = np.flatnonzero(large.table["image_id"] == small.table["image_id"][33])
    assert (small.read(np.array([33])) == large.read(at)).all()


def test_the_drawing_is_the_one_its_version_names():
    """Raise avatars.VERSION and these numbers together: stored results belong to a version."""
    faces = avatar_faces.draw(avatar_faces.people("train", 64), 32)
    assert avatar_faces.VERSION == 1
    assert faces.mean(axis=(0, 1, 2)) == pytest.approx([117.28, 107.02, 98.63], abs=0.1)
    assert avatar_faces.draw(avatar_faces.people("train", 2), 64).shape == (2, 64, 64, 3)


def test_the_digest_follows_everything_that_decides_a_number():
    asks = [{}, {}, {"size": 48}, {"groups": ("skin",)}, {"max_images": 51}]
    digests = [load_images("avatars", ImageAsk(**{"max_images": 50} | ask)).digest for ask in asks]
    assert digests[0] == digests[1] and len(set(digests)) == 4 and len(digests[0]) == 64


def test_digits_take_noise_that_is_the_same_every_time():
    plain, noisy, again = (load_images(one) for one in ("digits", "digits:100", "digits:100"))
    assert noisy.digest == again.digest != plain.digest and noisy.name == "digits:100"
    rows = np.arange(200)
    off = noisy.read(rows).astype(float) - plain.read(rows)
    assert 20 < np.abs(off).mean() < 80, "enlarged, and cut at black and white"
    assert "'0' is not a standard deviation" in " ".join(refused(load_images, "digits:0"))


def test_a_sample_keeps_shares_and_the_rare_cell():
    assert allotted(np.array([800, 150, 45, 5]), 100).tolist() == [80, 15, 4, 1]
    assert allotted(np.array([3, 2]), 10).tolist() == [3, 2]
    assert allotted(np.array([1000, 1, 1]), 3).tolist() == [1, 1, 1]
    images = load_images("avatars", ImageAsk(groups=("male",), max_images=400))
    counts = images.table[images.table["split"] == "test"].groupby(["label", "male"]).size()
    assert counts[0].to_dict() == {"male": 164, "non-male": 176}
    assert counts[1].to_dict() == {"male": 4, "non-male": 56}


def test_dealing_gives_every_class_its_share_whatever_the_order():
    table = pd.DataFrame(
        {"image_id": [f"i{i}" for i in range(23)], "target": ["a"] * 20 + ["b"] * 2 + ["c"]}
    )
    shares = {"test": 0.2, "validation": 0.1}
    split = deal(table, shares, "train")
    counts = pd.Series(split).groupby(table["target"]).value_counts()
    assert counts["a"].to_dict() == {"train": 14, "test": 4, "validation": 2}
    assert counts["b"].to_dict() == {"test": 1, "train": 1}
    assert counts["c"].to_dict() == {"train": 1}


def test_what_does_not_fit_into_memory_is_read_again(monkeypatch):
    monkeypatch.setattr("engine.data.images.pixels.KEEP_BYTES", 10)
    images = load_images("digits", ImageAsk(max_images=20))
    assert (images.read(np.array([1, 4])) == images.read(np.array([4, 1]))[::-1]).all()
    pixels = ArrayPixels(np.zeros((3, 32, 32, 3), np.uint8))
    assert Shelf(pixels, np.arange(3), 32)._kept is None


def test_npz_files_with_group_columns(tmp_path):
    pixels = noise(0, 60, 20, 16, 3)
    npz(tmp_path, "train", pixels[:40], [0, 1] * 20, coat=["long", "short"] * 20)
    npz(tmp_path, "test", pixels[40:], [0, 1] * 10, coat=["short"] * 20)
    info = look_images(str(tmp_path))
    assert (info.groups, info.size) == (("coat", "class"), 16)
    images = load(tmp_path / "pets_train.npz", groups=("coat",))
    assert images.classes == ("cat", "dog")
    assert sizes(images) == (36, 4, 20)
    row = images.table.index[images.table["image_id"] == "test/000003"]
    middle = pixels[43, 2:18]
    assert np.abs(images.read(row)[0].astype(int) - middle).max() <= 1
    assert load_images(str(tmp_path)).read(np.array([0])).shape == (1, 16, 16, 3)


def test_names_in_bytes_are_names_and_arrays_without_a_use_are_told(tmp_path):
    """Before, classes were called b'cat' and b'dog', and nobody heard of the ages."""
    more = {"age": np.ones(4), "coat": [1, 2] * 2}
    for split in ("train", "test"):
        npz(tmp_path, split, noise(len(split), 4, 8, 8, 3), [0, 1, 0, 1], (b"cat", b"dog"), **more)
    images, told = load(tmp_path), "age not read: no text or whole number per image"
    assert images.classes == ("cat", "dog") and notes_of(images).count(told) == 2
    assert told in look_images(str(tmp_path)).note and look_images(str(tmp_path)).groups == (
        "coat",
        "class",
    )


def test_broken_npz_files_are_said(tmp_path):
    pixels, broken = np.zeros((4, 8, 8, 3), np.uint8), tmp_path / "pets_test.npz"
    npz(tmp_path, "train", pixels, [0, 1, 0, 1])
    assert "no *test*.npz" in faults_of(tmp_path)
    npz(tmp_path, "test", pixels, [0, 1, 0, 2])
    assert "labels must be whole numbers below 2" in faults_of(tmp_path)
    npz(tmp_path, "test", pixels.astype(float), [0, 1, 0, 1])
    assert "not uint8" in faults_of(tmp_path)
    npz(tmp_path, "test", pixels[..., 0], [0, 1, 0, 1])
    assert "16 bits" not in faults_of(tmp_path), "what is wrong is the shape"
    npz(tmp_path, "test", pixels, [0, 1, 0, 1], more=np.array([object()], dtype=object))
    assert "plain arrays" in faults_of(tmp_path)
    broken.write_bytes(b"PK nothing")
    assert "plain arrays" in faults_of(tmp_path)


# CIFAR-10's python batches: read as published, and never opened otherwise.


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
