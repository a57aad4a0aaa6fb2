"""How long until the demo audit is on screen, and until every chart shows the next step of the
slider. In Chromium.

The browser itself takes the times: a redraw ends when the answer and all charts that depend on the
slider have changed and nothing has changed for a while after (that while is not counted).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.app_server import browser, find_chromium, started
from benchmarks.report import Measure, parser, show
from engine.store.runs import EMBEDDED, Store

FIRST_BAR = 5.0
REDRAW_BAR = 0.5
QUIET_MS = 700
WARM_UP_MS = 6000
_WATCH = """
() => {
  window.seen = {last: 0};
  const main = document.querySelector('[data-testid="stMain"]');
  new MutationObserver((changes) => {
    const drawn = changes.some((change) => {
      const at = change.target.nodeType === 1 ? change.target : change.target.parentElement;
      return at && at.closest(
        '.js-plotly-plot, .pa-lead, .pa-cards, .pa-answer, [data-testid="stHtml"]');
    });
    if (drawn) window.seen.last = performance.now();
  }).observe(main, {subtree: true, childList: true, characterData: true, attributes: true});
  window.addEventListener('keydown', () => {
    window.seen.start = performance.now(); window.seen.last = 0;
  }, true);
}
"""
_QUIET = (
    "() => window.seen.last > window.seen.start && performance.now() - window.seen.last >"
    f" {QUIET_MS}"
)
_ON_SCREEN = """
() => document.querySelector('.pa-lead') && document.querySelector('.pa-card')
      && document.querySelector('.js-plotly-plot .main-svg')
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; exit code 1 when a bar is missed, 2 where there is no browser."""
    options = parser(__doc__)
    options.add_argument(
        "--store", type=Path, help="store with a run to look at (default: only the embedded demo)"
    )
    options.add_argument("--moves", type=int, default=12, help="how often the slider moves")
    asked = options.parse_args(arguments)
    chromium = find_chromium()
    if chromium is None:
        print("No Chromium was found. Install the package `chromium`.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        store = asked.store or Path(folder) / "store"
        with browser(chromium) as found, started(store, Path(folder) / "log.txt") as address:
            measures = measure(found, f"{address}/?run={first_run(store)}", asked.moves)
    return show(measures, asked.json)


def first_run(store: Path) -> str:
    """The audit to look at: the newest of the store, else the first embedded one."""
    found = [*Store(store).list(), *Store(EMBEDDED, read_only=True).list()]
    return found[0].id


def measure(found: Any, address: str, moves: int) -> list[Measure]:
    """Both numbers, from one page."""
    page = found.new_page(viewport={"width": 1440, "height": 900})
    began = time.monotonic()
    page.goto(address, wait_until="commit")
    page.wait_for_function(_ON_SCREEN, timeout=60_000, polling=20)
    first = time.monotonic() - began
    page.wait_for_timeout(WARM_UP_MS)
    times = redraws(page, moves)
    return [
        Measure("app answers to demo audit on screen", round(first, 3), "s", FIRST_BAR),
        Measure("slider redraw, median", round(statistics.median(times), 3), "s", REDRAW_BAR),
        Measure("slider redraw, slowest", round(max(times), 3), "s", REDRAW_BAR),
        Measure("slider moves measured", len(times), "moves"),
    ]


def redraws(page: Any, moves: int) -> list[float]:
    """Seconds from the key press to the last change on screen, once per move to and fro along the
    slider."""
    page.evaluate(_WATCH)
    slider = page.get_by_role("slider").first
    times, direction = [], "ArrowLeft"
    for _ in range(moves):
        slider.focus()
        at, low, high = slider.evaluate("one => [one.value, one.min, one.max]")
        if at == (low if direction == "ArrowLeft" else high):  # at the end: turn round
            direction = "ArrowRight" if direction == "ArrowLeft" else "ArrowLeft"
        page.keyboard.press(direction)
        page.wait_for_function(_QUIET, timeout=30_000, polling=50)
        times.append(page.evaluate("() => (window.seen.last - window.seen.start) / 1000"))
    return times


if __name__ == "__main__":
    sys.exit(main())
