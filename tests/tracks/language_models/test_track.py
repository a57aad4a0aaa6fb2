"""Where a reader of this kind of audit starts, and which runs are of it."""

from __future__ import annotations

import pytest

from engine.report.tracks import track_of, tracks
from engine.store.runs import Store
from tests.tracks.language_models.made_up_run import FEW, make_run


@pytest.mark.parametrize(("levels", "first"), [([0.0, 0.05, 0.2, 0.5], 0.2), ([0.3, 0.5], 0.3)])
def test_where_a_reader_starts_does_not_depend_on_results(levels, first):
    assert tracks()["language_models"].level.first(levels) == first


def test_runs_from_before_tracks_are_of_language_models(tmp_path):
    run = make_run(tmp_path, "first", **FEW)
    assert "track" not in run.meta and track_of(run).name == "language_models"
    meta = {key: value for key, value in run.meta.items() if key != "tables"}
    former = Store(tmp_path).write("second", {**meta, "track": "heads"}, {"variants": run.table("variants")})
    assert track_of(former).name == "language_models"
