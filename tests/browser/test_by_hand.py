"""From the first screen to a measured set of one's own heads, its mask taken and applied; then a
level of the slider.

On the embedded demo, with a resident engine of its own. Takes a minute or two.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks import app_server
from engine.core.files import PROJECT
from engine.resident import client
from engine.store.runs import Store
from engine.surgery.record import read_mask
from tests.places import demo_of

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PREDICTED = "Predicted, not measured"


@pytest.fixture(scope="module")
def own_store(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("own"))
    yield store
    client.stop(store)


@pytest.fixture(scope="module")
def app(own_store, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PRUNEAUDIT_ENGINE", raising=False)
        with app_server.started(
            own_store.root, tmp_path_factory.mktemp("log") / "log.txt"
        ) as found:
            yield found


@pytest.fixture(params=[1440, 400])
def sized(page, request):
    page.set_viewport_size({"width": request.param, "height": 1200})
    page.set_default_timeout(120_000)
    return page


def settled(page):
    page.get_by_role("heading", level=1).first.wait_for()
    page.wait_for_function(
        "() => document.querySelector('[data-testid=stApp]').dataset.testScriptState !== 'running'"
    )
    page.wait_for_timeout(500)


def run_id() -> str:
    return demo_of("language_models")


def test_a_set_of_ones_own_is_measured_kept_and_its_mask_applied(sized, app, tmp_path):
    page, off = sized, {1440: "0.3,2.5", 400: "1.1,4.6"}[sized.viewport_size["width"]]
    page.goto(f"{app}/bench?run={run_id()}&off={off}")
    settled(page)
    page.get_by_text(PREDICTED).first.wait_for()
    page.get_by_role("button", name="Measure on validation prompts").click()
    page.get_by_role("heading", name="Does it do what was predicted?").wait_for()
    page.get_by_role("button", name="Measure on test prompts").click()
    page.get_by_text("a variant like any other").wait_for()
    settled(page)
    assert page.get_by_text(PREDICTED).count() == 0
    page.get_by_role("button", name="Export its mask").click()
    settled(page)
    with page.expect_download() as taken:
        page.get_by_role("button", name="Download mask").click()
    mask = tmp_path / "mask.json"
    taken.value.save_as(mask)
    assert [f"{layer}.{head}" for layer, head in read_mask(mask).mask.cut] == off.split(",")
    command = [
        sys.executable,
        "-m",
        "engine",
        "apply",
        str(mask),
        "--model",
        "demo-gpt2",
        "--to",
        str(tmp_path / "cut"),
    ]
    assert subprocess.run(command, cwd=PROJECT, check=False).returncode == 0


def test_a_level_between_finished_ones_is_measured_in_place(page, app):
    page.set_default_timeout(120_000)
    page.goto(f"{app}/?run={run_id()}&sparsity=12.5%20%25")
    settled(page)
    page.get_by_text(PREDICTED).first.wait_for()
    page.get_by_role("button", name="Measure 12.5").click()
    page.get_by_text(PREDICTED).first.wait_for(state="detached")
    settled(page)
    assert "6 of 48 heads" in page.locator(".pa-lead").inner_text()


def test_filters_are_switched_off_measured_and_kept(page, app):
    run = demo_of("image_classifiers")
    page.set_default_timeout(120_000)
    page.goto(f"{app}/bench?run={run}&off=conv1.0-3_7,layer4.0.conv1.5-20")
    settled(page)
    page.get_by_text("No prediction here").wait_for()
    page.get_by_role("button", name="Measure on validation images").click()
    page.get_by_role("heading", name="What came out where it was tried?").wait_for()
    page.get_by_role("button", name="Measure on test images").click()
    page.get_by_text("a variant like any other").wait_for()
    page.get_by_role("button", name="Trade-off").click()
    page.get_by_text("by hand: ").first.wait_for()
    assert "trade_off" in page.url
