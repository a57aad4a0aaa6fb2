"""Going from page to page: one history entry each, links however spelled, results that open, audits
that go."""

import contextlib
import shutil
from urllib.parse import parse_qs, urlsplit

import pytest

from engine.audit import jobs
from engine.audit.jobs import JobState
from engine.audit.tracks import request_from, tracks
from engine.store.runs import Store
from tests.browser.test_main_path import pick, settled

pytestmark = pytest.mark.browser
RUN = "?run=synthetic-run"
SECOND = "run=null-run"


def asked(page):
    return {name: values[-1] for name, values in parse_qs(urlsplit(page.url).query).items()}


def chosen(page):
    """What is chosen on every page: Trade-off names its variant too."""
    return {name: value for name, value in asked(page).items() if name != "variant"}


def path(page):
    return urlsplit(page.url).path


def named(page, name):
    return page.get_by_role("combobox", name=name).input_value()


@contextlib.contextmanager
def job(store, status, **more):
    """A job of the user's store as it stands; gone at the end."""
    track = next(iter(tracks().values()))
    request = request_from(
        {**track.part("quick").request("a-model-that-is-nowhere"), "track": track.name}
    )
    kept = Store(store)
    job_id = jobs.job_id_of(request)
    folder = jobs._prepare(kept, job_id, request)
    jobs._write(
        folder,
        JobState(job_id, "A <b>made-up</b> job", status, started="a", updated=jobs._now(), **more),
    )
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def test_a_page_is_one_step_back_and_comes_back_as_it_was(page, address):
    page.goto(f"{address}/{RUN}")
    settled(page)
    pick(page, "Method", "Bias only")
    page.get_by_role("slider").first.focus()
    page.keyboard.press("ArrowLeft")
    settled(page)
    before, length = asked(page), page.evaluate("history.length")
    assert before["method"] == "Bias only" and "sparsity" in before
    page.get_by_role("link", name="Trade-off").click()
    settled(page, "cost")
    assert (
        page.evaluate("history.length") == length + 1
        and chosen(page) == before
        and path(page) == "/trade_off"
    )
    pick(page, "Axis", "Religion")
    page.go_back()
    settled(page, "who pays")
    assert path(page) == "/" and asked(page) == before and named(page, "Method") == "Bias only"
    assert named(page, "Axis") != "Religion"
    page.go_forward()
    settled(page, "cost")
    assert chosen(page) == {**before, "axis": "Religion"} and named(page, "Axis") == "Religion"


def test_a_variant_of_the_trade_off_opens_in_the_summary(page, address):
    page.goto(f"{address}/trade_off{RUN}&method=Perplexity+only&axis=Religion")
    settled(page, "cost")
    pick(page, "Variant", "Bias only, 5 % cut")
    page.get_by_role("button", name="Open in the summary").click()
    page.wait_for_url(lambda url: urlsplit(url).path == "/" and "sparsity=5" in url)
    settled(page, "who pays")
    assert asked(page) | {"sparsity": "5 %", "method": "Bias only", "axis": "Religion"} == asked(
        page
    )
    assert named(page, "Method") == "Bias only"


@pytest.mark.slow
def test_a_tab_is_a_link_and_is_reached_by_keyboard(page, address):
    page.goto(f"{address}/heads{RUN}&tab=one_head")
    settled(page)
    assert page.get_by_role("tab", name="One head").get_attribute("aria-selected") == "true"
    page.locator(".js-plotly-plot").first.wait_for()
    assert page.locator(".js-plotly-plot").count() == 1, "only what the open tab shows is drawn"
    page.get_by_role("tab", name="One head").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url("**tab=across_axes**")
    page.reload()
    settled(page)
    assert page.get_by_role("tab", name="Across axes").get_attribute("aria-selected") == "true"


@pytest.mark.slow
def test_a_choice_of_another_audit_does_not_stay_in_the_address(page, address, store):
    from tests.made_up import another

    other = another("language_models", store, "another-kind")
    try:
        page.goto(f"{address}/trade_off{RUN}&method=Bias+only&axis=Religion")
        settled(page)
        page.get_by_role("button", name="Switch").click()
        card = page.locator('[data-testid="stColumn"]').filter(has_text=other.meta["title"])
        card.get_by_role("button", name="Open").first.click()
        page.get_by_role("dialog").wait_for(state="detached")
        page.wait_for_url(lambda url: urlsplit(url).path == "/")
        settled(page)
        assert asked(page) == {"run": "another-kind"}
    finally:
        shutil.rmtree(other.path)


def open_result(page):
    page.get_by_role("button", name="Open result").click()
    page.wait_for_url(lambda url: urlsplit(url).path == "/" and SECOND in url)
    settled(page, "who pays")


def test_the_result_of_a_finished_job_opens(page, address, store):
    with job(store, "done", run_id="null-run"):
        page.goto(f"{address}/jobs{RUN}")
        settled(page, "Jobs")
        assert page.locator("b", has_text="made-up").count() == 0
        open_result(page)
        page.get_by_role("slider").first.wait_for()


@pytest.mark.slow
def test_a_running_job_is_seen_on_every_page_and_its_result_opens(page, address, store):
    import fcntl

    with job(store, "running", done=3, total=10, what="dense") as folder:
        with (folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            page.goto(f"{address}/heads{RUN}")
            settled(page)
            page.locator(".pa-live", has_text="running 30 %").wait_for()
            page.get_by_role("link", name="Jobs (1)").wait_for()
            state = JobState(
                folder.name, "A job", "done", started="a", updated=jobs._now(), run_id="null-run"
            )
            jobs._write(folder, state)
        open_result(page)
        assert page.locator(".pa-live").count() == 0


@pytest.mark.slow
def test_resuming_is_said_at_once(page, address, store):
    with job(store, "interrupted"):
        page.goto(f"{address}/jobs{RUN}")
        settled(page, "Jobs")
        page.get_by_role("button", name="Resume").click()
        page.get_by_text("Resuming: waiting for the engine").wait_for(timeout=5000)
        page.get_by_test_id("stAlert").filter(has_text="a-model-that-is-nowhere").first.wait_for()
        page.get_by_text("Resuming: waiting for the engine").wait_for(state="detached")
        assert page.get_by_role("button", name="Resume").is_enabled()


@pytest.mark.slow
def test_a_fault_of_the_export_leaves_the_rest_of_the_page(page, address):
    page.goto(f"{address}/export{RUN}")
    settled(page, "Export")
    page.get_by_role("textbox", name="Folder to write into").fill("/proc/nowhere")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Write checkpoint").click()
    page.get_by_test_id("stAlert").first.wait_for()
    settled(page, "Export")
    for name in ("Download mask", "Download tables", "Draw charts", "Download report"):
        assert page.get_by_role("button", name=name, exact=True).count() == 1, name
