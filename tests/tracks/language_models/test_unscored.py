"""Audits in which no method asks for scores of heads: none is measured, and every place that shows
scores says so."""

import shutil
from dataclasses import replace

import pytest

from engine.core.types import Hooks
from engine.report.bundle import export_run
from engine.report.charts.panel import Choice
from engine.store.runs import Run, Store
from engine.tracks.language_models import predicted
from engine.tracks.language_models.panels import head_card, heads
from engine.tracks.language_models.predict import predict
from engine.tracks.language_models.run import run_audit, scores_only, warnings_of
from engine.tracks.language_models.words import FIRST_ORDER
from tests.pages.checks import assert_calm, opened, use_store, words_of
from tests.tiny import build
from tests.tracks.language_models.worlds import world_request

pytestmark = pytest.mark.usefixtures("words_judged")
ARMS = ("int8", "int4", "layer_drop")
ONLY = {"methods": ARMS, "sparsities": (0.0, 0.5), "seeds": 1, "controls": None}
CHOICE = Choice("nationality", "layer_drop", 0.5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("unscored")


@pytest.fixture(scope="module")
def run(folder, events, words_judged_here) -> Run:
    other = shutil.copytree(build("gpt2", folder / "model"), folder / "copy")
    request = world_request(folder, **ONLY, against=(str(other),))
    return run_audit(request, Store(folder / "store"), Hooks(report=events.append))


def test_no_head_is_scored_that_no_method_asks_for(run, events):
    assert run.table("scores").empty and run.table("head_groups").empty
    assert not {"score heads", "predict"} & {event.phase for event in events}
    assert sum("Heads were not scored" in warning for warning in run.meta["warnings"]) == 1
    assert set(run.table("variants")["method"]) == {"dense", *ARMS, "against-copy"}


def test_a_warning_speaks_of_scores_only_where_there_are_some(run):
    tables = {name: run.table(name) for name in ("results", "groups")}
    inside = tables["results"].assign(null_high=9.0)
    request = world_request(run.path.parents[2], **ONLY)
    unscored = warnings_of(request, {**tables, "results": inside}, 99)
    scored = warnings_of(replace(request, methods=("fasp",)), {**tables, "results": inside}, 99)
    for method, is_told in (("int8", False), ("fasp", True)):
        first = replace(request, methods=(method,), perplexity_estimator="gradient")
        assert (FIRST_ORDER in warnings_of(first, tables, 99)) == is_told
    assert FIRST_ORDER not in scored
    assert any("inside its null band" in text for text in unscored)
    assert not any("rank noise" in text for text in unscored)
    assert any("rank noise" in text for text in scored)


def test_a_command_that_asks_for_scores_has_them(folder):
    found = scores_only(world_request(folder, **ONLY), Store(folder / "store"))
    assert "z_bias_religion" in found


def test_a_prediction_counts_no_scoring(folder):
    found = predict(world_request(folder, **ONLY), Store(folder / "other"))
    assert found["scoring_seconds"] == [0, 0] and found["measuring_seconds"] > 0
    assert "No method asks for scores of heads" in found["words"]


@pytest.mark.parametrize(
    "page", ["summary", "trade_off", "heads", "bench", "reliability", "export"]
)
def test_pages_open_and_say_so(run, monkeypatch, page):
    use_store(run.path.parents[1], monkeypatch)
    at = opened(page, run.id)
    assert_calm(at)
    if page in ("heads", "bench"):
        assert "Heads were not scored" in words_of(at)


def test_what_shows_scores_says_that_there_are_none(run):
    for panel in (heads.fasp_picture(run, CHOICE), heads.perplexity_map(run, CHOICE)):
        assert "Heads were not scored" in panel.answer and not panel.has_chart
    assert "Heads were not scored" in head_card.head_card(run, CHOICE, 0).answer
    assert "not scored" in predicted.predicted(run, (1, 2), "nationality").note


def test_what_is_taken_away_says_so(run, tmp_path, no_charts):
    export_run(run, tmp_path, ("tables", "report"))
    page = next(tmp_path.rglob("*.html")).read_text(encoding="utf-8")
    assert "Heads were not scored" in page
