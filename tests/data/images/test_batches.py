"""CIFAR-10's python batches: read as published, and never executed."""

import os
import pickle
import sys

import numpy as np
import pytest

from engine.core.errors import RequestError
from engine.data.images.load import ImageAsk, load_images, look
from engine.data.images.readers import safe_pickle
from engine.data.images.readers.cifar10_batches import CLASSES


def batches(home, n=40, protocol=2):
    """Files as CIFAR-10's page has them, n pictures each: byte keys, rows of 3,072 bytes, channel after channel."""
    home.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(1)
    for number, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        data = draw.integers(0, 255, (n, 3072), dtype=np.uint8)
        names = [f"thing_s_{number}_{i:04d}.png".encode() for i in range(n)]
        content = {b"batch_label": b"x", b"labels": [i % 10 for i in range(n)], b"data": data, b"filenames": names}
        (home / name).write_bytes(pickle.dumps(content, protocol=protocol))
    (home / "batches.meta").write_bytes(
        pickle.dumps({b"label_names": [c.encode() for c in CLASSES]}, protocol=protocol)
    )
    return home


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_batches_of_every_protocol_are_read(tmp_path, protocol):
    home = batches(tmp_path / "cifar-10-batches-py", protocol=protocol)
    assert look(str(tmp_path)).classes == CLASSES
    images = load_images(str(tmp_path), ImageAsk())
    assert images.name == "CIFAR-10" and images.classes == CLASSES and images.groups == ("class",)
    assert images.table["split"].value_counts().to_dict() == {"train": 180, "test": 40, "validation": 20}
    row = np.flatnonzero(images.table["image_id"] == "test/thing_s_5_0007.png")
    stored = pickle.loads((home / "test_batch").read_bytes())[b"data"][7].reshape(3, 32, 32)
    assert (images.read(row)[0] == stored.transpose(1, 2, 0)).all() and images.table["label"][row[0]] == 7
    assert load_images(str(home)).digest == images.digest


def test_pickles_of_python_2_are_read(tmp_path):
    """Text opcodes and module names as Python 2's cPickle wrote them (the files on CIFAR-10's page)."""
    raw = (
        b"(dp1\nS'data'\np2\ncnumpy.core.multiarray\n_reconstruct\np3\n(cnumpy\nndarray\np4\n(I0\ntS'b'\ntRp5\n"
        b"(I1\n(I2\nI2\ntcnumpy\ndtype\np6\n(S'u1'\nI0\nI1\ntRp7\n(I3\nS'|'\nNNNI-1\nI-1\nI0\ntbI00\nS'abcd'\ntb"
        b"sS'labels'\np8\n(lp9\nI3\naI5\nas."
    )
    (tmp_path / "b").write_bytes(raw)
    found = safe_pickle.load(tmp_path / "b")
    assert found["data"].tolist() == [[97, 98], [99, 100]] and found["labels"] == [3, 5]


class Runs:
    """Unpickling it would call something."""

    def __init__(self, call, *given):
        self.call, self.given = call, given

    def __reduce__(self):
        return self.call, self.given


BOMBS = {
    "os.system": lambda path: Runs(os.system, f"touch {path}"),
    "eval": lambda path: Runs(eval, f"open({str(path)!r}, 'w')"),
    "getattr": lambda path: Runs(getattr, "", "join"),
    "open": lambda path: Runs(open, str(path), "w"),
    "numpy.load": lambda path: Runs(np.load, str(path)),
    "sys.exit": lambda path: Runs(sys.exit, 3),
    "bytes": lambda path: Runs(bytes, 10**13),
    "bytearray": lambda path: Runs(bytearray, 10**13),
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("protocol", [0, 4])
def test_a_pickle_with_code_in_it_is_refused_and_does_nothing(tmp_path, name, protocol):
    home, mark = batches(tmp_path), tmp_path / "was_here"
    content = {b"data": BOMBS[name](mark), b"labels": [0]}
    (home / "data_batch_3").write_bytes(pickle.dumps(content, protocol=protocol))
    with pytest.raises(RequestError, match="batch data_batch_3: It asks for .*could run code"):
        load_images(str(home))
    assert not mark.exists()


@pytest.mark.parametrize(
    "content",
    [
        np.array([object()], dtype=object),
        np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]),
        np.array([1], dtype=">i4"),
        np.array(["a"]),
        np.datetime64("2020-01-01"),
    ],
)
def test_arrays_of_anything_but_numbers_are_refused(tmp_path, content):
    (tmp_path / "b").write_bytes(pickle.dumps({b"data": content}, protocol=2))
    with pytest.raises(RequestError, match="no batch of images needs"):
        safe_pickle.load(tmp_path / "b")


def test_forged_arrays_and_other_codecs_are_refused(tmp_path):
    def refused(raw):
        (tmp_path / "b").write_bytes(raw)
        with pytest.raises(RequestError) as caught:
            safe_pickle.load(tmp_path / "b")
        return str(caught.value)

    whole = pickle.dumps({"data": np.arange(4, dtype=np.uint8).reshape(2, 2)}, protocol=2)
    assert b"K\x02K\x02\x86" in whole
    assert "do not fill its shape" in refused(whole.replace(b"K\x02K\x02\x86", b"K\x02K\xff\x86"))
    assert "codec 'zlib'" in refused(b"c_codecs\nencode\n(Vabc\nVzlib\ntR.")
    assert "cut short" in refused(whole[:-20]) and "cut short" in refused(b"") and "cut short" in refused(b"hello")
    assert "no dictionary" in refused(pickle.dumps([1]))
    assert "cut short" in refused(b"cnumpy\nndarray\n}b."), "a state for the class itself"


def test_batches_that_are_incomplete_are_said(tmp_path):
    home = batches(tmp_path)

    def said():
        with pytest.raises(RequestError) as caught:
            load_images(str(home))
        return str(caught.value)

    def write(**content):
        (home / "test_batch").write_bytes(pickle.dumps(content, protocol=2))

    data = np.zeros((2, 3072), np.uint8)
    wrong_ones = [{"data": data, "labels": labels} for labels in ([0, 10], [0], ["a", "b"])]
    for wrong in (*wrong_ones, {"data": data.astype(float), "labels": [0, 1]}, {"labels": [0, 1]}):
        write(**wrong)
        assert "holds no images of 3,072 bytes" in said()
    (home / "batches.meta").write_bytes(pickle.dumps({"label_names": 3}))
    assert "label_names" in said()
    (home / "test_batch").unlink()
    assert "Absent: test_batch" in said()
