"""An image run taken away: masks and tables, and why there is no checkpoint."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from engine.core.errors import RequestError
from engine.report import bundle
from engine.store.runs import Run
from engine.surgery.record import read_filter_mask
from tests.tracks.image_classifiers.made_up_run import make_run

SMALL = {"images": 160, "speedups": (4.0, 16.0), "switches": False}
TRIAL = "autobot+pw-16x#0"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    return make_run(tmp_path_factory.mktemp("store"), "plain", **SMALL)


def test_masks_are_those_of_trials_and_read_back_exactly(run, tmp_path):
    paths = bundle.export_run(run, tmp_path / "one", ["masks"], variant=TRIAL)
    assert len(paths) == 1
    record, row = read_filter_mask(paths[0]), run.table("variants").set_index("variant").loc[TRIAL]
    assert (
        record.mask.to_dict() == json.loads(row["cut"]) and record.mask.digest == row["mask_digest"]
    )
    assert record.history == json.loads(row["history"])
    assert (record.method, record.loss, record.asked_speedup) == ("autobot", "pw", 16.0)
    assert record.weight_hash == run.meta["model"]["weight_hash"] and record.settings["trial"] == 0
    mean = bundle.export_run(run, tmp_path / "mean", ["masks"], variant="autobot+pw-16x")
    assert [read_filter_mask(path).settings["trial"] for path in mean] == [0, 1, 2]
    everything = bundle.export_run(run, tmp_path / "all", ["masks"])
    assert len(everything) == int((run.table("variants")["seed"] >= 0).sum())
    with pytest.raises(RequestError, match="cuts nothing.*speedup above 1"):
        bundle.export_run(run, tmp_path / "none", ["masks"], variant="dense")


def test_tables_leave_bytes_to_parquet(run, tmp_path):
    bundle.export_run(run, tmp_path, ["tables"])
    folder = tmp_path / "tables"
    thumbs = run.table("thumbs")
    assert pd.read_csv(folder / "thumbs.csv")["png"].tolist() == thumbs["png"].map(len).tolist()
    assert json.loads((folder / "thumbs.json").read_text())[0]["png"] == len(thumbs["png"].iat[0])
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "thumbs.parquet"), thumbs)
    assert len(pd.read_csv(folder / "predictions.csv")) == len(run.table("predictions"))


@pytest.mark.parametrize(
    ("variant", "base", "said"),
    [
        ("taylor-4x#1", None, "no weights in this audit"),
        ("dense", None, "cuts nothing"),
        (TRIAL, "resnet10-w16", "the audit was of"),
    ],
)
def test_a_checkpoint_that_cannot_be_written_says_why_and_leaves_nothing(
    run, tmp_path, variant, base, said
):
    with pytest.raises(RequestError, match=said):
        bundle.export_run(run, tmp_path / "out", ["checkpoint"], variant=variant, base=base)
    assert not (tmp_path / "out").exists()
