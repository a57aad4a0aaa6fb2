"""What the tests of all pages share: opening one, reading it, and what must hold of every page with
every run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from streamlit.testing.v1 import AppTest

from tests.places import ROOT

PAGES = sorted(path.stem for path in (ROOT / "pages").glob("[!_]*.py"))
IDENTIFIER = r"\b[a-z]+(?:_[a-z]+)+\b"


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


def assert_page_alone(page: str, run: str, names: Iterable[str]) -> None:
    """Calm, one title, and none of the users' `names` reaches the page or a chart unescaped."""
    at = opened(page, run=run)
    assert_calm(at)
    assert len(at.title) == 1
    html, names = html_of(at), list(names)
    for name in names:
        assert not any(
            name in item.value
            for kind in ("markdown", "caption", "header", "subheader")
            for item in at.get(kind)
        )
    markup = [name for name in names if "<" in name]
    assert not any(name in html for name in markup), "names of users are escaped"
    assert "<script" not in html and "\u202e" not in html
    for chart in charts_of(at):
        assert not any(name in json.dumps(chart, ensure_ascii=False) for name in markup)


def assert_page_through_the_app(page: str, run: str) -> None:
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    at.query_params["run"] = run
    at.run()
    at.switch_page(f"pages/{page}.py").run()
    assert_calm(at)
    assert len(at.title) == 1
    assert at.query_params["run"] == run


def switch_to(at: AppTest, run: str) -> None:
    """Choose another audit as a reader does: in the gallery."""
    at.button(key="switch_audit").click().run()
    if not at.button(key=f"choose_{run}").disabled:
        at.button(key=f"choose_{run}").click().run()
    assert at.query_params["run"] == run


def identifiers_of(page: str, run: str) -> set[str]:
    """Names of the program that a person would read."""
    return set(re.findall(IDENTIFIER, words_of(opened(page, run=run))))


def assert_another_page(page: str, run: str, about: str, own: str = "") -> None:
    """The page says that it is about something else than the run, and shows no chart."""
    at = opened(page, run=run)
    assert_calm(at)
    assert f"This page is about {about}" in words_of(at) and own in words_of(at)
    assert charts_of(at) == []
