"""The Compare page: what differs is a table that wraps, in words; titles are told once above the
answers."""

from __future__ import annotations

import pytest

from tests.builders import changed
from tests.pages.checks import assert_calm, opened, use_store, words_of
from tests.tracks.image_classifiers.made_up_run import make_run

SMALL = {"switches": False, "speedups": (2.0,), "loss_share": False, "trials": 2}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    make_run(folder, "one", **SMALL, images=160, title="The first of them")
    more = {"images": 120, "stream": 3, "created": "2026-03-01T00:00:00+00:00"}
    two = make_run(folder / "more", "two", **SMALL, **more, title="*The second* of <b>them</b>")
    asked = {**two.meta["request"], "data": "<b>a folder</b>"}
    changed(two, folder, "variants", lambda table: table, request=asked)
    return folder


def test_settings_are_a_table_that_wraps(made, monkeypatch):
    use_store(made, monkeypatch)
    at = opened("compare", run="one", axis="Skin")
    assert_calm(at)
    assert len(at.table) == 1 and not at.dataframe
    table = at.table[0].value
    assert list(table.columns) == ["Setting", "This audit", "The other audit"]
    assert "Images used" in " ".join(table["Setting"]) and "<b>a folder" not in table.to_csv()
    told = [item.value for kind in ("caption", "info") for item in at.get(kind)]
    assert any("The second" in text for text in told) and not any("<b>" in text for text in told)
    assert "Does the same cut do the same to the AUC gap of skin" in words_of(at)
