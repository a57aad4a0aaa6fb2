"""Answers on the spot: seconds of the playground and of an engine that starts; of a prediction and
of a new level as Chromium shows them. How right predictions are is
`benchmarks.calibration --only sets`.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import app_server
from benchmarks.report import Measure, parser, show, timed
from engine.report.hand_sets import LEAD
from engine.resident import client
from engine.store.runs import EMBEDDED, Run, Store

AXIS = "nationality"
MEASURED_BAR, PREDICTED_BAR = 20.0, 0.5
"""Seconds to measure one level on one axis; seconds of a prediction."""
SEEDS, MOVES = 8, 5
"""Texts, and moves on screen, that are timed."""
COLD_BAR = 8.0
PROMPT = "my neighbour is a velorian lawyer."


def main() -> int:
    """Measure and print; exit code 1 when a bar is missed."""
    asked, run = parser(__doc__).parse_args(), demo()
    with tempfile.TemporaryDirectory() as store:
        measures = [*playground(run, Store(store)), *on_screen(run, Path(store))]
    return show(measures, asked.json)


def demo() -> Run:
    """The embedded audit of a language model."""
    store = Store(EMBEDDED, read_only=True)
    return next(
        run
        for run in map(store.open, store.ids())
        if run.summary.is_demo and AXIS in run.request["axes"] and run.has("scores")
    )


def playground(run: Run, store: Store) -> list[Measure]:
    """Seconds until an engine that has to be started answers, then until both texts are there, and
    its memory."""
    given = {"run": run.id, "prompt": PROMPT, "tokens": 40, "heads": ["0.5", "0.7"]}
    asked = [given, *({**given, "seed": seed} for seed in range(1, SEEDS + 1))]
    cold, *times = (timed(partial(client.ask, "prompt", one, store))[1] for one in asked)
    client.stop(store)
    name, warm = "playground, dense and pruned, 40 tokens, warm, median", statistics.median(times)
    return [
        Measure("engine started, first answer of the playground", round(cold, 2), "s", COLD_BAR),
        Measure(name, round(warm, 3), "s", 1.5),
    ]


def on_screen(run: Run, store: Path) -> list[Measure]:
    """Seconds in Chromium: from a moved slider to the predicted answer, from a switched head to it,
    and from the click on Measure to the measured answer; [] without a Chromium."""
    path = app_server.find_chromium()
    if path is None:
        return []
    with (
        app_server.started(store, store / "app.txt") as address,
        app_server.browser(path) as browser,
    ):
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(120_000)
        found = {
            "predicted after a slider move, median": _moved(page, address, run),
            "predicted after a switched head, median": _switched(page, address, run),
            "a new level measured, from the click": _measured(page, address, run, Store(store)),
        }
    client.stop(Store(store))
    return [
        Measure(
            f"on screen, {name}",
            round(seconds, 2),
            "s",
            PREDICTED_BAR if name.startswith("predicted") else MEASURED_BAR,
        )
        for name, seconds in found.items()
    ]


def _moved(page: Any, address: str, run: Run) -> float:
    """Median seconds from a key on the slider to another answer."""
    page.goto(f"{address}/?run={run.id}&sparsity=12.5%20%25")
    page.locator(".js-plotly-plot").first.wait_for()
    return _until_another(page, "ArrowRight", page.get_by_role("slider"))


def _switched(page: Any, address: str, run: Run) -> float:
    """Median seconds from a head that is taken off the list to another answer."""
    page.goto(f"{address}/bench?run={run.id}&off=0.5,1.1,1.2,2.2,2.3,3.3,3.4")
    page.locator(".js-plotly-plot").nth(1).wait_for()
    box = page.get_by_role("combobox", name="Heads that are off")
    return _until_another(page, "Backspace", box)


def _until_another(page: Any, key: str, focus: Any) -> float:
    """Median seconds from a key in `focus` to another answer than the predicted one."""
    page.locator(".pa-lead", has_text=LEAD).wait_for()
    times = []
    for _ in range(MOVES):
        page.wait_for_timeout(1500)
        before = page.locator(".pa-lead").inner_text()
        focus.first.focus()
        start = time.perf_counter()
        page.keyboard.press(key)
        page.wait_for_function(
            "before => document.querySelector('.pa-lead')?.innerText !== before", arg=before
        )
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _measured(page: Any, address: str, run: Run, store: Store) -> float:
    """Seconds from the click on Measure to an answer that is none of a prediction, with the
    engine's model loaded."""
    client.ask("prompt", {"run": run.id, "prompt": PROMPT, "tokens": 2, "heads": ["0.5"]}, store)
    page.goto(f"{address}/?run={run.id}&sparsity=16.7%20%25")
    page.locator(".pa-lead", has_text=LEAD).wait_for()
    page.wait_for_timeout(1500)
    start = time.perf_counter()
    page.get_by_role("button", name="Measure 16.7").click()
    page.locator(".pa-lead", has_text=LEAD).wait_for(state="detached")
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
