"""What a person does: open, choose, move the slider, uncover an example, take the mask. In a real
browser."""

import json
import re

import pytest

pytestmark = pytest.mark.browser
RUN = "?run=synthetic-run"


def settled(page, title=""):
    """Wait until the page with this title is drawn and the app has stopped running."""
    page.get_by_role("heading", level=1, name=title).first.wait_for()
    page.wait_for_function(
        "() => document.querySelector('[data-testid=stApp]').dataset.testScriptState !== 'running'"
    )
    page.wait_for_timeout(400)


def pick(page, label, option):
    """As a person does: bring the list into view, then open it. One that the page scrolls away from
    closes itself."""
    box = page.get_by_role("combobox", name=label)
    box.scroll_into_view_if_needed()
    page.wait_for_timeout(200)
    box.click()
    page.get_by_role("option", name=option, exact=True).click()
    settled(page)


def test_a_cold_deep_link_is_framed(page, address):
    """First of all, so that the server is fresh: app.py has not run yet. Nothing is fetched from
    elsewhere, and nothing in vain."""
    elsewhere, vain = [], []
    page.on("response", lambda answer: vain.append(answer.url) if answer.status >= 400 else None)
    page.on(
        "request",
        lambda request: (
            elsewhere.append(request.url) if _is_elsewhere(request.url, address) else None
        ),
    )
    page.goto(f"{address}/heads{RUN}")
    settled(page, "Which heads add to the bias")
    page.locator(".js-plotly-plot").nth(2).wait_for()
    names = page.locator('[data-testid="stSidebarNav"] a').all_inner_texts()
    assert [name.strip().splitlines()[-1] for name in names][:4] == [
        "Summary",
        "Trade-off",
        "Examples",
        "Heads",
    ]
    assert elsewhere == [] and vain == []


def _is_elsewhere(url, address):
    return not url.startswith((address, address.replace("http", "ws"), "data:", "blob:"))


def test_a_chart_is_saved_by_one_click_and_a_view_is_a_link(page, address, tmp_path):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{address}/trade_off{RUN}")
    settled(page, "What does less bias cost")
    page.locator(".js-plotly-plot").first.hover(timeout=120_000)  # a busy machine draws late
    for kind, start in (("png", b"\x89PNG"), ("svg", b"<svg"), ("csv", b"variant,")):
        with page.expect_download() as found:
            page.locator(".pa-tools").first.get_by_text(kind.upper()).click()
        name = found.value.suggested_filename
        assert re.fullmatch(rf"[a-z0-9.-]+_syntheti_pareto_.+_.+_[0-9.]+\.{kind}", name), name
        found.value.save_as(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("Copied").wait_for()
    assert page.evaluate("() => navigator.clipboard.readText()") == page.url


def test_main_path(page, address, tmp_path):
    page.goto(f"{address}/{RUN}")
    settled(page, "who pays")
    page.locator(".pa-card").nth(2).wait_for()  # a busy machine shows the heading first
    assert page.locator(".pa-card").count() == 3
    pick(page, "Axis", "Religion")
    pick(page, "Method", "Bias only")
    before = page.locator(".pa-lead").inner_text()
    page.get_by_role("slider").first.focus()
    for heads in (5, 4, 3):  # every number of heads is a step; the run measured 6 and 3 of them
        page.keyboard.press("ArrowLeft")
        page.locator(".pa-lead", has_text=f"{heads} of 32 heads").wait_for()
    assert page.locator(".pa-lead").inner_text() != before
    settled(page)
    assert "axis=Religion" in page.url
    assert "method=Bias" in page.url
    assert re.search(r"sparsity=10", page.url)

    page.get_by_role("link", name="Examples").click()
    settled(page, "What does the model write")
    pick(page, "Sorted by", "Biggest rises and falls")
    page.locator(".pa-veil").nth(19).wait_for(state="attached")
    assert "axis=Religion" in page.url, "the choice goes along"
    veiled = page.locator(".pa-veil").count()
    assert veiled == 20
    assert "sea" not in page.locator(".pa-generated").first.inner_text()
    page.get_by_text("Show", exact=True).first.click()
    page.wait_for_function(
        "n => document.querySelectorAll('.pa-veil').length === n", arg=veiled - 2
    )

    page.get_by_role("link", name="Export").click()
    settled(page, "Export")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download mask").click()
    waiting.value.save_as(tmp_path / "mask.json")
    mask = json.loads((tmp_path / "mask.json").read_text())
    assert len(mask["units"]) == 3
    assert mask["method"] == "bias_only"


def names_of_charts(page):
    """What a screen reader calls the charts, once each is called by its answer."""
    page.wait_for_function("""() => {
        const charts = [...document.querySelectorAll('[data-testid=stPlotlyChart]')];
        return charts.length
            && charts.every(chart => chart.getAttribute('aria-label')?.endsWith('.'));
    }""")
    return [chart.get_attribute("aria-label") for chart in page.get_by_role("figure").all()]


def test_every_chart_is_called_by_its_answer(page, address):
    page.goto(f"{address}/trade_off{RUN}")
    settled(page, "cost")
    before = names_of_charts(page)
    said = [
        text.replace("\u00a0", " ").strip() for text in page.locator(".pa-answer").all_inner_texts()
    ]
    assert before and set(before) & set(said) and not any(name.endswith("?") for name in before)
    page.goto(f"{address}/{RUN}")
    settled(page, "who pays")
    first = names_of_charts(page)
    page.get_by_role("slider").first.focus()
    page.keyboard.press("ArrowLeft")
    page.locator(".pa-lead", has_text="5 of 32 heads").wait_for()
    settled(page)
    assert names_of_charts(page) != first, "another choice, another answer"


def test_a_click_on_a_head_shows_its_numbers(page, address):
    page.goto(f"{address}/heads{RUN}")
    settled(page)
    page.wait_for_function(
        "() => document.querySelectorAll('.js-plotly-plot .nsewdrag').length >= 3"
    )  # none moves now
    cell = page.locator(".js-plotly-plot").first.locator(".scatterlayer .point").last
    cell.wait_for()
    before = page.get_by_role("combobox", name="Head").input_value()
    wide = (
        "() => document.querySelector('.js-plotly-plot .nsewdrag').getBoundingClientRect().width"
        " > 430"
    )
    page.wait_for_function(wide)  # it is drawn narrow at first
    page.locator(".js-plotly-plot").first.locator(".nsewdrag").first.click(
        position={"x": 420, "y": 30}
    )
    page.wait_for_function(
        "old => document.querySelector('[aria-label*=\"Head\"][role=combobox]').value !== old",
        arg=before,
    )
    assert "head=" in page.url


def test_no_page_reaches_outside_or_overflows_a_phone(chromium, address):
    context = chromium.new_context(viewport={"width": 400, "height": 800})
    page = context.new_page()
    outside, errors = [], []
    page.on(
        "request",
        lambda request: (
            outside.append(request.url) if _is_elsewhere(request.url, address) else None
        ),
    )
    page.on("pageerror", lambda error: errors.append(str(error)))
    for name in [
        "summary",
        "heads",
        "trade_off",
        "examples",
        "compare",
        "export",
        "audits",
        "new_audit",
    ]:
        page.goto(f"{address}/{name}{RUN}")
        settled(page)
        assert name != "summary" or page.get_by_role("dialog").count() == 0, "found by its name"
        wide = page.evaluate(
            "() => { const m = document.querySelector('[data-testid=stMain]'); "
            "return m.scrollWidth - m.clientWidth }"
        )
        assert wide <= 0, name
    context.close()
    assert outside == []
    assert errors == []
