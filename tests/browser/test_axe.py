"""Screens for everybody: axe-core finds nothing serious, and the keyboard sees where it is."""

import pytest

from benchmarks import axe, screens

pytestmark = pytest.mark.browser
RUN = "?run=synthetic-run"


STOP = """() => {
  const here = document.activeElement, field = here.closest('[data-baseweb=input]');
  const box = here.closest('[data-baseweb=select], label') || here;
  const ring = one => one && getComputedStyle(one).outlineStyle === 'solid'
    && parseFloat(getComputedStyle(one).outlineWidth) >= 2;
  return {said: here.getAttribute('aria-label') || here.innerText, end: here === document.body,
    tool: !!here.closest('.modebar'), seen: here.matches('.stMain') || field !== null
      || [here, box, box.firstElementChild].some(ring)};
}"""
"""What the keyboard is at: its words, whether it is a chart's tool, and whether a ring shows it. A
field of text shows its own border and a caret."""


def opened(page, address, name):
    page.goto(f"{address}/{name}{RUN}")
    screens.settle(page)


@pytest.mark.parametrize(
    ("name", "theme"), [("", "light"), ("export", "light"), ("new_audit", "dark")]
)
def test_axe_finds_nothing_serious_and_charts_are_dark_enough(page, address, name, theme):
    page.emulate_media(color_scheme=theme)
    opened(page, address, name)
    assert axe.faults(page) == []
    assert page.evaluate(screens.COUNTED)["pale"] == []


def test_axe_would_find_what_is_wrong(page, address):
    """What passes above passes because it is right, not because nothing was looked at."""
    opened(page, address, "export")
    page.evaluate(
        """() => { const main = document.querySelector('[data-testid=stMainBlockContainer]');
      main.insertAdjacentHTML('beforeend',
        '<h5>Too low</h5><p style="color: #ddd">Pale</p><img src="data:,">'); }"""
    )
    assert {fault.rule for fault in axe.faults(page)} == {
        "heading-order",
        "color-contrast",
        "image-alt",
    }


@pytest.mark.slow
def test_every_stop_of_the_keyboard_shows_where_it_is_and_charts_hold_it_up_once_at_most(
    page, address
):
    page.emulate_media(color_scheme="dark")
    opened(page, address, "heads")
    assert axe.faults(page) == []
    stops = list(walked(page))
    assert stops[0]["said"].startswith("Skip to main content")
    assert [stop["said"] for stop in stops if not stop["seen"]] == []
    charts = page.locator(".js-plotly-plot").count()
    assert sum(stop["tool"] for stop in stops) <= charts


def walked(page):
    """Every stop of the Tab key: what is said, whether a ring or a border shows it, whether it is a
    chart's tool."""
    for _ in range(120):
        page.keyboard.press("Tab")
        stop = page.evaluate(STOP)
        if stop["end"]:
            return
        yield stop


@pytest.mark.slow
def test_escape_closes_the_choice_of_models(page, address):
    opened(page, address, "export")
    page.get_by_role("button", name="Switch").click()
    page.get_by_role("dialog").wait_for()
    assert axe.faults(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
