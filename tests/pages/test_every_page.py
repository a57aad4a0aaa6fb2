"""Every page with an audit of every track, opened as a reader does: through the app, one after the
other."""

import re

import pytest
from streamlit.testing.v1 import AppTest

from engine.report.tracks import tracks
from tests.pages.checks import (
    PAGES,
    ROOT,
    assert_calm,
    charts_of,
    html_of,
    own_pages,
    use_store,
    words_of,
)

CODE = {"from_pretrained", "load_classifier", "load_cut_classifier"}
"""Identifiers that readers are told to write."""


@pytest.fixture
def app(one_of_each, monkeypatch):
    """Opens the app on the audit of a track."""
    use_store(one_of_each.root, monkeypatch)

    def opened(track):
        at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
        at.query_params["run"] = f"{track}-run"
        return at.run()

    return opened


@pytest.mark.parametrize("track", tracks())
def test_every_page_is_calm_has_one_title_and_names_nothing_of_the_program(app, track):
    """A page of other kinds of audit says what it is about and draws nothing."""
    at = app(track)
    for page in PAGES:
        at.switch_page(f"pages/{page}.py").run()
        assert_calm(at)
        assert (page, len(at.title), at.query_params["run"]) == (page, 1, f"{track}-run")
        said = words_of(at).replace("\\", "")
        assert (page, set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", said)) - CODE) == (page, set())
        elsewhere = page not in own_pages(tracks()[track])
        assert (page, "This page is about" in said) == (page, elsewhere)
        if elsewhere:
            owner = next(one for one in tracks().values() if page in one.screens.pages)
            assert f"This page is about {owner.nouns.about}" in said and charts_of(at) == []
            assert f"The chosen audit is about {tracks()[track].nouns.about}" in said


def test_switching_between_kinds_of_audit_keeps_calm(app):
    """Choose another audit as a reader does: in the gallery. Its own slider stands there, whatever
    was chosen in the one before."""
    first, *others = tracks()
    at = app(first)
    for track in (*others, first):
        for key in ("method", "axis"):
            box = at.selectbox(key=key)
            assert_calm(box.select_index(len(box.options) - 1).run())
        at.button(key="switch_audit").click().run()
        at.button(key=f"choose_{track}-run").click().run()
        assert_calm(at)
        assert at.query_params["run"] == f"{track}-run"
        assert tracks()[track].level.key in [slider.key for slider in at.select_slider]
        assert len(re.findall('class="pa-card"', html_of(at))) == 3
