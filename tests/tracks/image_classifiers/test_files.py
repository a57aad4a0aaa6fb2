"""An image run taken away: tables, and why there is no checkpoint."""

import json

import pandas as pd
import pytest

from engine.core.errors import RequestError
from engine.report import bundle
from tests.tracks.image_classifiers.made_up_run import make_run

SMALL = {"images": 160, "speedups": (4.0, 16.0), "switches": False}
TRIAL = "autobot+pw-16x#0"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("store"), "plain", **SMALL)


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
