"""The small picture of what was cut, of every kind of audit."""

from __future__ import annotations

import pytest

from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.charts.what_was_cut import HEIGHT, what_was_cut
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
