"""The small picture of who pays: well-formed whatever subgroups are called, one mark per model and
row."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from engine.audit.tracks import tracks
from engine.report.charts.by_group import MOST, pairs, thumbnail
from engine.report.contents import default_choice
from engine.report.tracks import track_of
from tests.made_up import kept, make

CIRCLE = "{http://www.w3.org/2000/svg}circle"
HOSTILE = "<b>x</b> & \u202e"


@pytest.mark.parametrize("track", sorted(tracks()))
def test_a_row_has_a_mark_before_and_one_after(track, tmp_path, monkeypatch):
    run = kept(track)
    if not (run.table("groups")["verdict"] == "").any():
        run = make(track, tmp_path, "made-up-run")
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
