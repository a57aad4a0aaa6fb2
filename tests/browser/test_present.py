"""The stage in a real browser: arrow keys turn it at once, Escape leaves; a first visit is led
in."""

import re

import pytest

from benchmarks.screens import misfits
from tests.browser.test_main_path import RUN, settled

pytestmark = pytest.mark.browser


def at_step(page, number):
    page.locator(".pa-step", has_text=f"{number} of 5").wait_for()


def test_arrow_keys_turn_the_steps_without_a_click(page, address):
    page.goto(f"{address}/present{RUN}&step=2")
    settled(page, "The cut")
    at_step(page, 2)
    for key, number in (("ArrowRight", 3), ("PageDown", 4), ("ArrowLeft", 3)):
        page.keyboard.press(key)
        at_step(page, number)
    settled(page, "Who pays")
    assert "step=3" in page.url
    assert (
        page.locator('[data-testid="stSidebar"]').is_hidden()
        and page.locator(".st-key-subject").is_hidden()
    )
    page.keyboard.press("Escape")
    page.wait_for_url(re.compile(r"/\?run="))


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_every_slide_fits_windows_of_three_sizes(chromium, address, theme):
    context = chromium.new_context(color_scheme=theme, reduced_motion="reduce")
    page = context.new_page()
    found = {}
    for step in range(1, 6):
        page.goto(f"{address}/present{RUN}&step={step}")
        found[step] = misfits(page)
    context.close()
    assert not any(found.values()), found


def test_slides_print_as_one_page_each(page, address):
    page.goto(f"{address}/present{RUN}&step=all")
    settled(page, "What we recommend")
    page.wait_for_load_state("networkidle")
    printed = page.pdf(prefer_css_page_size=True)
    sizes = re.findall(rb"/MediaBox \[0 0 ([0-9.]+) ([0-9.]+)\]", printed)
    assert len(sizes) == 5
    assert all(abs(float(wide) / float(high) - 16 / 9) < 0.01 for wide, high in sizes)


def test_a_first_visit_is_one_click_from_an_audit(page, address):
    page.goto(address)
    settled(page, "who pays")
    assert "run=" not in page.url
    opens = page.get_by_role("button", name="Open this audit")
    box = opens.last.bounding_box()
    assert box["y"] + box["height"] < 900, "all cards fit the first screen"
    opens.first.click()
    skip = page.get_by_role("button", name="Skip the tour")
    skip.click()
    skip.wait_for(state="detached")  # a chart may stand there before the page is drawn anew
    page.locator(".js-plotly-plot").first.wait_for()
    assert "run=" in page.url
