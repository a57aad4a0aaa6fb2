"""Small pictures, of every kind of audit: what was cut, and who pays."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from engine.report.charts import lookup
from engine.report.charts.by_group import MOST, pairs, thumbnail
from engine.report.charts.panel import Choice
from engine.report.charts.what_was_cut import HEIGHT, what_was_cut
from engine.report.contents import default_choice
from engine.report.tracks import track_of, tracks
from tests import made_up


@pytest.mark.parametrize("name", tracks())
def test_the_picture_holds_what_the_variant_says_and_stays_small(name):
    run = made_up.kept(name)
    axis = run.meta["request"]["axes"][0]
    for method in lookup.methods(run, axis):
        for level in lookup.levels(run, method, axis):
            panel = what_was_cut(run, Choice(method, axis, level))
            variant = lookup.variant_of(run, Choice(method, axis, level))
            if not variant["n_cut"]:
                assert not panel.has_chart and track_of(run).nouns.whole in panel.answer
                continue
            assert panel.has_chart and panel.figure.layout.height <= HEIGHT
            table = panel.table
            if run.has("layers"):
                assert (table["kept"] <= table.iloc[:, 4]).all() and (table["share kept"] < 1).any()
            else:
                drawn = panel.figure.data[0].z
                assert drawn.size == run.n_units == len(table)
                assert (1 - drawn).sum() == pytest.approx(variant["n_cut"], abs=1)


CIRCLE = "{http://www.w3.org/2000/svg}circle"
HOSTILE = "<b>x</b> & \u202e"


@pytest.mark.parametrize("track", tracks())
def test_a_row_has_a_mark_before_and_one_after(track, tmp_path, monkeypatch):
    run = made_up.kept(track)
    if not (run.table("groups")["verdict"] == "").any():
        run = made_up.make(track, tmp_path, "made-up-run")
    choice = default_choice(run)
    measure = track_of(run).readings.of(choice.reading).group
    table = pairs(run, choice, measure)
    rows = min(MOST, int((table["verdict"] == "").sum()))
    assert rows
    marks = ElementTree.fromstring(thumbnail(run, choice)).iter(CIRCLE)
    assert len(list(marks)) == 2 * rows
    uncut = ElementTree.fromstring(
        thumbnail(run, replace(choice, method="dense", level=track_of(run).level.none))
    )
    assert len(list(uncut.iter(CIRCLE))) == rows
    monkeypatch.setattr(
        "engine.report.charts.by_group.pairs", lambda *_, **__: table.assign(group=HOSTILE)
    )
    said = thumbnail(run, choice)
    assert "<b>" not in said and "\u202e" not in said and ElementTree.fromstring(said) is not None
