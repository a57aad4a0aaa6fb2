"""axe-core in a page: what it finds serious or critical, less what lies inside Streamlit and cannot
be changed.

axe-core's script comes with the pinned package axe-playwright-python; it runs in the page and
fetches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

IMPACTS = ["serious", "critical"]
ALSO = ["heading-order"]
"""Rules that count though axe calls them moderate: who reads by headings gets lost."""
CONTRAST = "color-contrast"


@dataclass(frozen=True)
class Fault:
    """One element that breaks one rule."""

    rule: str
    element: str
    """Its selector."""
    why: str


EXEMPT = dict.fromkeys(("list", "listitem"), "[data-testid=stSidebarNavItems]")
"""Rule -> within which elements it does not count. Streamlit puts the sections of its navigation as
<div> between <ul> and <li>, and has no setting for it."""

RUN = """
async ({impacts, also, exempt}) => {
  const found = await axe.run(document, {resultTypes: ['violations']});
  const within = (target, selector) => target.length === 1 && typeof target[0] === 'string'
    && document.querySelector(target[0])?.closest(selector);
  const isExempt = (rule, target) => exempt[rule] && within(target, exempt[rule]);
  const counts = rule => impacts.includes(rule.impact) || also.includes(rule.id);
  return found.violations.filter(counts).flatMap(rule => rule.nodes
    .filter(node => !isExempt(rule.id, node.target))
    .map(node => ({rule: rule.id, element: node.target.join(' '),
                   why: node.any[0]?.message || rule.help})));
}
"""


@cache
def script() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


def faults(page: Any) -> list[Fault]:
    """Every serious or critical fault, and headings out of order, of the page as it stands (a
    Playwright page)."""
    page.evaluate(script())
    asked = {"impacts": IMPACTS, "also": ALSO, "exempt": EXEMPT}
    with whole(page):
        return [Fault(**found) for found in page.evaluate(RUN, asked)]


@contextmanager
def whole(page: Any) -> Iterator[None]:
    """The window as tall as the content: axe passes over the contrast of what is scrolled out of
    sight."""
    usual = page.viewport_size
    height = page.evaluate(
        "() => document.querySelector('[data-testid=stMainBlockContainer]').scrollHeight"
    )
    page.set_viewport_size({**usual, "height": max(usual["height"], height + 200)})
    page.wait_for_timeout(300)
    try:
        yield
    finally:
        page.set_viewport_size(usual)
