"""From the first screen to a measured set of one's own heads, its mask taken and applied.

On the embedded demo, with a resident engine of its own. Takes a minute or two.
"""

import subprocess
import sys

import pytest

from benchmarks import app_server
from engine.core.files import PROJECT
from engine.resident import client
from engine.store.runs import Store
from engine.surgery.record import read_mask
from tests.browser.test_main_path import settled
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


def test_a_set_of_ones_own_is_measured_kept_and_its_mask_applied(sized, app, tmp_path):
    page, off = sized, {1440: "0.3,2.5", 400: "1.1,4.6"}[sized.viewport_size["width"]]
    page.goto(f"{app}/bench?run={demo_of('language_models')}&off={off}")
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
