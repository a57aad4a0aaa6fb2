"""Masks that are taken away, of every kind of audit: those of its models, read back exactly."""

import json

import pytest

from engine.core.errors import RequestError
from engine.report.bundle import export_run
from engine.report.tracks import tracks
from engine.surgery.record import read_filter_mask, read_mask
from tests import made_up


@pytest.fixture(scope="module", params=tracks())
def run(request):
    return made_up.kept(request.param)


def test_masks_are_those_of_the_models_and_read_back_exactly(run, tmp_path):
    """One model of each method; weights that are zero are told layer by layer, and not replayed."""
    table = run.table("variants").query("n_cut > 0 and cut != ''")
    table = table[table["chosen"] if run.has("prompts") else table["seed"] >= 0]
    everything = {path.name for path in export_run(run, tmp_path / "all", ["masks"])}
    for row in table.groupby("method").head(1).to_dict("records"):
        (path,) = export_run(run, tmp_path / row["variant"], ["masks"], variant=row["variant"])
        cut = json.loads(row["cut"])
        assert path.name in everything
        if row.get("units") == "weights":
            layers = json.loads(path.read_text())["layers"]
            assert cut == {one["layer"]: one["weights"] - one["kept"] for one in layers}
            continue
        record = (read_mask if isinstance(cut, list) else read_filter_mask)(path)
        assert cut == (list(record.mask.units) if isinstance(cut, list) else record.mask.to_dict())
        assert record.mask.digest == row["mask_digest"]
        assert record.weight_hash == run.meta["model"]["weight_hash"]
        if "history" in row:
            assert record.history == json.loads(row["history"])
        if "loss" in row:
            told = record.method, record.loss, record.asked_speedup
            assert told == (row["base"], row["loss"], row["speedup"])
        if row.get("pooled"):
            pooled = export_run(run, tmp_path / row["pooled"], ["masks"], variant=row["pooled"])
            assert len(pooled) == (table["pooled"] == row["pooled"]).sum() > 1
    with pytest.raises(RequestError, match="cuts nothing"):
        export_run(run, tmp_path / "none", ["masks"], variant="dense")
    assert not (tmp_path / "none").exists()
