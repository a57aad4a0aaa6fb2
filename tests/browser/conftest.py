"""A started app on made-up runs, and a Chromium; skipped where either is missing."""

import pytest

from benchmarks import app_server
from tests.made_up import make

pytest.importorskip("playwright", reason="Playwright is not installed")


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    make("language_models", folder, "synthetic-run")
    make(
        "language_models",
        folder,
        "null-run",
        null_bias=True,
        title="Null run",
        created="2025-01-02T00:00:00+00:00",
    )
    return folder


@pytest.fixture(scope="session")
def address(store, tmp_path_factory):
    with app_server.started(store, tmp_path_factory.mktemp("log") / "log.txt") as found:
        yield found


@pytest.fixture(scope="session")
def chromium():
    path = app_server.find_chromium()
    if path is None:
        pytest.skip("no Chromium is installed")
    with app_server.browser(path, ["--host-resolver-rules=MAP evil.test 127.0.0.1"]) as found:
        yield found


@pytest.fixture
def page(chromium):
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True)
    found = context.new_page()
    found.set_default_timeout(30_000)
    yield found
    context.close()
