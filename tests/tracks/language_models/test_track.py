"""Where a reader of this kind of audit starts."""

from __future__ import annotations

import pytest

from engine.report.tracks import tracks


@pytest.mark.parametrize(("levels", "first"), [([0.0, 0.05, 0.2, 0.5], 0.2), ([0.3, 0.5], 0.3)])
def test_where_a_reader_starts_does_not_depend_on_results(levels, first):
    assert tracks()["language_models"].level.first(levels) == first
