"""Small parts of an image audit: packed arrays, unfinished fits on disk, measured time, pictures
for the gallery."""

import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from engine.audit import measurements
from engine.audit.measurements import latency_row, paired_latency
from engine.classifiers import tables as gallery
from engine.core.errors import Cancelled, MaskError, PruneAuditError
from engine.store.runs import pack, unpack, within
from engine.store.sealed import PartialFit
from tests.classifiers.worlds import stop_after
from tests.tracks.image_classifiers.worlds import image_context, image_request


def test_packed_arrays_come_back_from_a_file_as_they_were(tmp_path):
    arrays = {
        "a/weights": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "a/none": np.zeros((0, 4)),
        "b": np.array([True, False]),
        "n": np.array([np.nan, np.inf, -0.0]),
    }
    pack(arrays, {"met": True, "history": [["conv1", True, [0]]]}).to_parquet(
        tmp_path / "x.parquet"
    )
    again, plain = unpack(pd.read_parquet(tmp_path / "x.parquet"))
    assert plain == {"met": True, "history": [["conv1", True, [0]]]} and list(again) == list(arrays)
    for name, array in arrays.items():
        assert again[name].dtype == array.dtype and again[name].shape == array.shape
        assert (
            np.array_equal(again[name], array, equal_nan=array.dtype.kind == "f")
            and again[name].flags.writeable
        )
    assert set(within(again, "a/")) == {"weights", "none"} and unpack(pack({}))[1] == {}


def test_weights_that_say_nothing_yet_are_no_reason_not_to_fit_them():
    """As those of torchvision's ViT, whose last layer starts at zero; weights that are kept must
    say something."""
    context = image_context(image_request())
    context.start.model.fc.weight.zero_()
    context.prove()
    kept = replace(context, settings=replace(context.settings, train=None))
    with pytest.raises(MaskError, match="answers the same to every picture"):
        kept.prove()


def test_a_packed_number_without_dimensions_keeps_its_shape():
    """Such as batch norm's counter."""
    again, _ = unpack(pack({"num_batches_tracked": np.array(7)}))
    assert again["num_batches_tracked"].shape == () and int(again["num_batches_tracked"]) == 7


def test_an_unfinished_fit_is_kept_whole_or_not_at_all(tmp_path):
    keep, other = (PartialFit(tmp_path / "partial", key) for key in ("abc", "other"))
    keep.save({"rows": [{"epoch": 0, "loss": 0.5}]})
    assert keep.load()["rows"] == [{"epoch": 0, "loss": 0.5}] and other.load() is None
    keep.path.write_bytes(keep.path.read_bytes()[:100])
    assert keep.load() is None  # cut short: fitted from the start
    keep.clear()
    keep.clear()
    assert not keep.path.exists()
    with pytest.raises(PruneAuditError):
        PartialFit(tmp_path, "../outside")


def test_an_unfinished_fit_never_runs_code(tmp_path):
    class Evil:
        def __reduce__(self):
            return open, (str(tmp_path / "ran"), "w")

    keep = PartialFit(tmp_path, "abc")
    torch.save({"rows": Evil()}, keep.path)
    assert keep.load() is None and not (tmp_path / "ran").exists()


@pytest.fixture
def patient(monkeypatch):
    """Timings as users get them."""
    monkeypatch.setattr(measurements, "PATIENCE", 2.0)
    monkeypatch.setattr(measurements, "LEAST", 5)


def test_models_are_timed_in_turn_after_warming_up(patient):
    calls = []
    own, dense = paired_latency(
        lambda: calls.append("own"), lambda: calls.append("dense"), 3, "cpu"
    )
    warm, rounds = calls[:4], calls[4:]
    assert warm == ["dense", "own"] * 2
    assert (
        rounds == ["dense", "own", "own", "dense", "dense", "own"]
        and own.shape == dense.shape == (3,)
        and (own >= 0).all()
    )
    with pytest.raises(Cancelled):
        paired_latency(lambda: None, lambda: None, 9, "cpu", stop_after(4))


@pytest.mark.parametrize(
    ("seconds", "calls", "counted"), [(0.01, 22, 9), (0.12, 18, 7), (5.0, 12, 5)]
)
def test_slow_models_are_timed_less_often(patient, monkeypatch, seconds, calls, counted):
    clock, seen = [0.0], []
    monkeypatch.setattr(measurements.time, "perf_counter", lambda: clock[0])

    def run():
        seen.append(1)
        clock[0] += seconds

    own, dense = paired_latency(run, run, 9, "cpu")
    assert (len(seen), len(own), len(dense)) == (calls, counted, counted)
    assert own == pytest.approx([1e3 * seconds] * counted)


def test_a_row_of_latency_by_hand():
    row = latency_row(np.array([1.0, 2.0, 4.0]), np.array([4.0, 4.0, 4.0]))
    assert (row["latency_ms"], row["dense_latency_ms"], row["speedup"], row["n"]) == (
        2.0,
        4.0,
        2.0,
        3,
    )
    assert (row["latency_low"], row["latency_high"]) == (1.5, 3.0)
    assert (row["speedup_low"], row["speedup_high"]) == (1.5, 3.0)


def test_the_gallery_gives_small_groups_their_full_share(monkeypatch):
    monkeypatch.setattr(gallery, "MOST", 10)
    table = pd.DataFrame({"label": [0] * 95 + [1] * 5, "skin": ["light"] * 98 + ["dark"] * 2})
    found = gallery.chosen(table, ["skin"], np.arange(100))
    assert len(found) == 10 and np.array_equal(found, np.sort(found)) and len(set(found)) == 10
    assert {98, 99} <= set(found) and {95, 96, 97} <= set(found)
    assert np.array_equal(found, gallery.chosen(table, ["skin"], np.arange(100)))
    few = np.array([3, 50, 99])
    assert np.array_equal(gallery.chosen(table, ["skin"], few), few)


def test_a_picture_is_small():
    content = gallery._png(np.zeros((200, 200, 3), dtype=np.uint8))
    assert max(Image.open(io.BytesIO(content)).size) == 64
