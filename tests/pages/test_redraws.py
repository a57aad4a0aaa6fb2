"""What a redraw costs: what was found and drawn for one session serves all others."""

import json

import plotly.graph_objects as go
import plotly.io as pio
import pytest

from engine.report.charts import lookup
from engine.report.tracks import tracks
from engine.store.runs import Store
from pages.shared import cache
from tests import made_up
from tests.pages.checks import assert_calm, charts_of, opened, use_store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("redraws")
    for name in tracks():
        made_up.small(name, folder, f"{name}-redrawn")
    return folder


@pytest.mark.parametrize("name", tracks())
def test_another_session_draws_nothing_anew(store, monkeypatch, name):
    use_store(store, monkeypatch)
    drawn, to_json = [], go.Figure.to_json
    monkeypatch.setattr(
        go.Figure, "to_json", lambda figure, *more: drawn.append(1) or to_json(figure, *more)
    )
    first = opened("summary", run=f"{name}-redrawn")
    before, charts = len(drawn), charts_of(first)
    again = opened("summary", run=f"{name}-redrawn")
    assert_calm(again)
    assert charts and before and len(drawn) == before and charts_of(again) == charts


def test_a_figure_is_sent_as_it_is():
    figure = go.Figure(go.Scatter(x=[1, float("nan")], y=[2.0, 3.0], text=["a", "<b>"]))
    assert cache.ready(figure) is cache.ready(figure)
    sent = pio.to_json(cache.ready(figure).to_dict(), validate=False)
    assert json.loads(sent) == json.loads(pio.to_json(figure.to_dict(), validate=False))


@pytest.mark.parametrize("name", tracks())
def test_what_is_remembered_is_that_of_the_content_and_nobody_elses(store, tmp_path, name):
    run = Store(store).open(f"{name}-redrawn")
    method = lookup.methods(run)[0]
    lookup.methods(run).clear()
    lookup.reported(run).insert(0, "more", 1)
    assert lookup.methods(run)[0] == method and "more" not in lookup.reported(run)
    tables = {table: run.table(table) for table in run.meta["tables"]}
    tables["variants"] = tables["variants"][tables["variants"]["method"] != method]
    meta = {key: value for key, value in run.meta.items() if key not in ("tables", "id", "schema")}
    assert method not in lookup.methods(Store(store).write(run.id, meta, tables))
