"""An image run taken away: masks, tables, report, and a checkpoint of a real small network."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import RequestError
from engine.report import bundle
from engine.report.report import model_card, report_html
from engine.store.runs import Run, Store
from engine.surgery.record import read_filter_mask
from tests.builders import parts_of
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


def test_the_report_knows_nothing_of_texts(run, no_charts):
    page = report_html(run)
    said = ("What this cannot say", "stand-in", "images of one class only")
    assert all(text in page for text in (*said, run.meta["data"]["digest"]))
    assert not [text for text in ("toxic", "prompt", "perplexity") if text in written(page)]


def written(page: str) -> str:
    """What stands before the library for charts."""
    return page.split("plotly.js")[0].lower()


def test_the_card_says_what_was_measured_and_how_to_load_it(run):
    row = run.table("variants").set_index("variant", drop=False).loc[TRIAL].to_dict()
    card = model_card(run, row)
    assert (
        card.startswith("# synthetic-resnet, pruned: AutoBot + PW, 16×")
        and "load_cut_classifier" in card
    )
    assert "## This model" in card and "Means over all trials of the audit, not this model." in card
    assert (
        "- **Gender.**" in card
        and "lowers AUC" in card
        and run.meta["model"]["weight_hash"] in card
    )
    assert not any(
        word in card.lower() for word in ("toxic", "judge", "from_pretrained", "debias", "unbiased")
    )


def test_figures_are_written_whole(run, tmp_path, monkeypatch):
    from engine.report import figures

    monkeypatch.setattr(figures.shutil, "which", lambda name: None)
    monkeypatch.delenv("BROWSER_PATH", raising=False)
    written = {path.name for path in bundle.export_run(run, tmp_path, ["figures"])}
    assert {
        "gender-groups_along_speedup.html",
        "gender-pw_difference.html",
        "layers_by_speedup.html",
    } <= written
    page = (tmp_path / "figures" / "gender-groups_along_speedup.html").read_text()
    assert '"xaxis3"' in page and "plain loss" in page


@pytest.fixture(scope="module")
def real(run, tmp_path_factory):
    """The made-up run, told that it is about a real small network of which one trial was cut. (run,
    small, folder)"""
    from engine.models.load_image_classifier import (
        fresh_classifier,
        load_classifier,
        save_classifier,
    )
    from engine.store.runs import pack
    from engine.surgery.filters.graph import cut_filters, filter_graph

    folder = tmp_path_factory.mktemp("real")
    save_classifier(
        fresh_classifier("resnet20", ("other", "blond"), 32, seed=0, device="cpu"), folder / "base"
    )
    whole = load_classifier(folder / "base", device="cpu")
    graph = filter_graph(whole)
    keep = np.random.default_rng(0).random(graph.total) < 0.7
    keep[[group.start for group in graph.groups]] = True
    mask = graph.mask(keep)
    small, history = cut_filters(whole, mask)  # stands for one that was retrained too
    meta, tables = parts_of(run)
    mine = tables["variants"]["variant"] == TRIAL
    texts = {
        "cut": json.dumps(mask.to_dict()),
        "history": json.dumps(history),
        "mask_digest": mask.digest,
    }
    for column, text in texts.items():
        tables["variants"].loc[mine, column] = text
    state = {name: value.numpy() for name, value in small.model.state_dict().items()}
    tables["weights"] = pack(state).assign(variant=TRIAL)
    known = {"architecture": "resnet20", "weight_hash": whole.weight_hash, "size": 32}
    model = {
        **meta["model"],
        **known,
        "name": "base",
        "layers": [list(pair) for pair in graph.widths],
    }
    request = {**meta["request"], "model": str(folder / "base")}
    return (
        Store(folder).write("real", {**meta, "model": model, "request": request}, tables),
        small,
        folder,
    )


def test_a_checkpoint_holds_the_retrained_weights_and_loads(real, tmp_path):
    from engine.surgery.filters.replay import load_cut_classifier, same_weights

    run, small, _ = real
    paths = bundle.export_run(run, tmp_path / "out", ["checkpoint"], variant=TRIAL)
    place = next(path.parent for path in paths if path.name == "cut.safetensors")
    assert {path.name for path in paths} == {
        "cut.safetensors",
        "mask.json",
        "model.json",
        "agreement.json",
        "README.md",
    }
    loaded = load_cut_classifier(place, device="cpu")
    assert same_weights(loaded, small) and loaded.mean == small.mean
    with pytest.raises(RequestError, match="not empty"):
        bundle.export_run(run, tmp_path / "out", ["checkpoint"], variant=TRIAL)
    mean = bundle.export_run(
        run, tmp_path / "mean", ["checkpoint"], variant=TRIAL.partition("#")[0]
    )
    assert any(path.name == "cut.safetensors" for path in mean), (
        "the first trial stands for the mean"
    )


def test_a_checkpoint_that_cannot_be_written_says_why_and_leaves_nothing(real, tmp_path):
    run, _, folder = real
    with pytest.raises(RequestError, match="no weights in this audit"):
        bundle.export_run(run, tmp_path / "out", ["checkpoint"], variant="taylor-4x#1")
    with pytest.raises(RequestError, match="cuts nothing"):
        bundle.export_run(run, tmp_path / "out", ["checkpoint"], variant="dense")
    from engine.models.load_image_classifier import fresh_classifier, save_classifier

    save_classifier(
        fresh_classifier("resnet20", ("other", "blond"), 32, seed=1, device="cpu"), folder / "other"
    )
    with pytest.raises(RequestError, match="the audit was of"):
        bundle.export_run(
            run, tmp_path / "out", ["checkpoint"], variant=TRIAL, base=str(folder / "other")
        )
    assert not (tmp_path / "out").exists()
