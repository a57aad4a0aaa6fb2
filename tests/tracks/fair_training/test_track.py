"""Where a reader of this kind of audit starts."""

from __future__ import annotations

import pytest

from engine.report.tracks import tracks


@pytest.mark.parametrize(("levels", "first"), [([0.0, 0.488, 0.672, 0.832], 0.672)])
def test_where_a_reader_starts_does_not_depend_on_results(levels, first):
    assert tracks()["fair_training"].level.first(levels) == first
