"""axe-core in a page: what it finds serious or critical, less what lies inside Streamlit and cannot be changed.

axe-core's script comes with the pinned package axe-playwright-python; it runs in the page and fetches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any

IMPACTS = ("serious", "critical")
CONTRAST = "color-contrast"


@dataclass(frozen=True)
class Fault:
    """One element that breaks one rule."""

    rule: str
    element: str
    """Its selector."""
    why: str


@dataclass(frozen=True)
class Exempt:
    """What is not counted: elements within `selector`, for one rule, and why nothing can be done about it here."""

    rule: str
    selector: str
    why: str


EXEMPT: tuple[Exempt, ...] = ()

RUN = """
async ({impacts, exempt}) => {
  const found = await axe.run(document, {resultTypes: ['violations']});
  const within = (target, selector) => target.length === 1 && typeof target[0] === 'string'
    && document.querySelector(target[0])?.closest(selector);
  const isExempt = (rule, target) => exempt.some(one => one.rule === rule && within(target, one.selector));
  return found.violations.filter(rule => impacts.includes(rule.impact)).flatMap(rule => rule.nodes
    .filter(node => !isExempt(rule.id, node.target))
    .map(node => ({rule: rule.id, element: node.target.join(' '), why: node.any[0]?.message || rule.help})));
}
"""


@cache
def script() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


def faults(page: Any, exempt: Sequence[Exempt] = EXEMPT, impacts: Sequence[str] = IMPACTS) -> list[Fault]:
    """Every serious or critical fault of the page as it stands (a Playwright page)."""
    page.evaluate(script())
    asked = {"impacts": list(impacts), "exempt": [asdict(one) for one in exempt]}
    return [Fault(**found) for found in page.evaluate(RUN, asked)]
