"""What the tests of all pages share: opening one, reading it, and what must hold of every page with
every run."""

from __future__ import annotations

import json
import re

from streamlit.testing.v1 import AppTest

from engine.report.tracks import Track, tracks
from tests.places import ROOT

PAGES = sorted(path.stem for path in (ROOT / "pages").glob("[!_]*.py"))


def use_store(folder, monkeypatch):
    from engine.store import runs
    from pages.shared import cache

    monkeypatch.setenv("PRUNEAUDIT_STORE", str(folder))
    monkeypatch.setattr(runs, "EMBEDDED", folder / "no-embedded-run")
    cache.runs.clear()
    return folder


def opened(page: str, run: str | None, **parameters: str) -> AppTest:
    at = AppTest.from_file(str(ROOT / "pages" / f"{page}.py"), default_timeout=60)
    for name, value in {**({"run": run} if run else {}), **parameters}.items():
        at.query_params[name] = value
    return at.run()


def html_of(at: AppTest) -> str:
    """All HTML of the page but the frame's own script, which tests/test_architecture.py keeps in
    one place."""
    return "\n".join(
        element.proto.body
        for element in at.get("html")
        if not element.proto.unsafe_allow_javascript
    )


def words_of(at: AppTest) -> str:
    """Everything a person reads, except charts and tables."""
    plain = [
        item.value
        for kind in ("title", "header", "subheader", "markdown", "caption", "text")
        for item in at.get(kind)
    ]
    labels = [
        item.label
        for kind in ("selectbox", "button", "toggle", "select_slider")
        for item in at.get(kind)
    ]
    return "\n".join(
        [*plain, *labels, re.sub(r"<style>.*?</style>|<[^>]+>", " ", html_of(at), flags=re.S)]
    )


def charts_of(at: AppTest) -> list[dict]:
    return [json.loads(chart.proto.spec) for chart in at.get("plotly_chart")]


def assert_calm(at: AppTest) -> None:
    assert [item.value for item in at.exception] == []
    assert [item.value for item in at.error] == []


def click(at: AppTest, button: str) -> AppTest:
    """The page once the first button was pressed whose label begins so."""
    return next(one for one in at.button if one.label.startswith(button)).click().run()


def measured_by(at: AppTest, button: str) -> AppTest:
    """The page once what this button asks for was measured."""
    from pages.shared.jobs import WORKS

    click(at, button)
    assert all(work.over.wait(120) for work in WORKS.values())
    at = at.run()
    assert_calm(at)
    return at


def own_pages(track: Track) -> list[str]:
    """Pages of this kind of audit, and those that no kind names."""
    others = {page for one in tracks().values() for page in one.screens.pages} - set(
        track.screens.pages
    )
    return [page for page in PAGES if page not in others]
