"""A method that was asked for and could not be built is said wherever it would have stood."""

import pytest

from engine.core import words
from engine.report.charts import lookup
from engine.report.charts.pareto import pareto
from engine.report.contents import axis_panels, default_choice
from engine.report.tracks import track_of, tracks
from engine.store.runs import Store
from tests.builders import parts_of
from tests.made_up import kept
from tests.pages.checks import assert_calm, opened, use_store, words_of

LOST = "lost-run"


def without(run, method, store):
    """The run as it is written where no variant of `method` could be built, for any axis."""
    meta, tables = parts_of(run)
    gone = set(tables["variants"].query("method == @method")["variant"])
    tables = {
        name: table[~table["variant"].isin(gone)] if "variant" in table else table
        for name, table in tables.items()
    }
    return store.write(LOST, meta, tables)


@pytest.fixture(scope="module", params=tracks())
def lost(request, tmp_path_factory):
    run = kept(request.param)
    method = lookup.methods(run)[-1]
    return without(run, method, Store(tmp_path_factory.mktemp("store"))), method


def test_charts_that_compare_methods_say_it_and_no_others_do(lost):
    run, method = lost
    axis, name = run.meta["request"]["axes"][0], words.method_name(method)
    said = lookup.not_built(run, axis)
    assert said == f"{track_of(run).methods.not_built}: {name}."
    choice = default_choice(run, axis)
    assert said in pareto(run, choice).said
    panels = list(axis_panels(run, choice))
    curves = [panel for panel in panels if said in panel.mind]
    assert curves or not any("along" in panel.key for panel in panels)
    whole = kept(track_of(run).name)
    assert (
        lookup.not_built(whole, axis) == ""
        and track_of(run).methods.not_built not in pareto(whole, choice).said
    )


def test_pages_say_it_beside_the_methods(lost, monkeypatch):
    run, method = lost
    use_store(run.path.parents[1], monkeypatch)
    at = opened("trade_off", run=LOST)
    assert_calm(at)
    assert lookup.not_built(run, run.meta["request"]["axes"][0]) in words_of(at).replace("\\", "")
