"""Answers on the spot: seconds of a prediction, of a new level, of the playground, of an engine
that starts; and the same seen in Chromium. How right predictions are is
`benchmarks.calibration --only sets`.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import app_server
from benchmarks.report import Measure, parser, show, timed
from engine.core.types import rng
from engine.report.hand_sets import LEAD
from engine.resident import client
from engine.resident.asks import answer_here
from engine.resident.warm import Warm
from engine.store.runs import EMBEDDED, Run, Store
from engine.tracks.language_models.predicted import predicted, stops

AXIS, METHOD = "nationality", "fasp"
MOST = 8
"""Heads of the largest random set."""
MEASURED_BAR, PREDICTED_BAR = 20.0, 0.5
"""Seconds to measure one level on one axis; seconds of a prediction."""
TIMED = 40
"""Predictions that are timed."""
SEEDS, MOVES = 8, 5
"""Texts, and moves on screen, that are timed."""
COLD_BAR = 8.0
PROMPT = "my neighbour is a velorian lawyer."


def main() -> int:
    """Measure and print; exit code 1 when a bar is missed."""
    asked, run = parser(__doc__).parse_args(), demo()
    with tempfile.TemporaryDirectory() as store:
        measures = [*predictions(run), *new_level(run, Store(store))]
    with tempfile.TemporaryDirectory() as store:
        measures += [*playground(run, Store(store)), *on_screen(run, Path(store))]
    return show(measures, asked.json)


def demo() -> Run:
    """The embedded audit of a language model."""
    store = Store(EMBEDDED, read_only=True)
    return next(
        run
        for run in map(store.open, store.ids())
        if run.summary.is_demo and AXIS in run.request["axes"] and run.has("scores")
    )


def random_sets(run: Run, number: int) -> list[tuple[int, ...]]:
    """Sets of 1 to MOST heads, sizes in turn, heads drawn with a stated seed: critical ones too."""
    draw = rng("interactive benchmark", 0)
    total = run.n_units
    return [
        tuple(sorted(draw.permutation(total)[: 1 + at % MOST].tolist())) for at in range(number)
    ]


def predictions(run: Run) -> list[Measure]:
    """Seconds of a prediction: the first, which reads the tables, and later ones."""
    times: list[float] = []
    for units in random_sets(run, TIMED):
        times.append(timed(partial(predicted, run, units, AXIS))[1])
    later = statistics.median(times[1:])
    return [
        Measure("prediction, the first of an audit", round(times[0], 4), "s", PREDICTED_BAR),
        Measure("prediction, median of later ones", round(later, 4), "s", PREDICTED_BAR),
    ]


def new_level(run: Run, store: Store) -> list[Measure]:
    """Seconds to measure a level that the audit has not, on one axis: with nothing at hand, then
    with the model loaded and the dense model's texts kept."""
    warm = Warm()
    free = [stop.level for stop in stops(run, METHOD, AXIS) if not stop.finished]
    times = []
    for level in (free[len(free) // 2], free[len(free) // 3]):
        given = {"run": run.id, "axis": AXIS, "method": METHOD, "level": level}
        times.append(timed(partial(answer_here, "measure", given, store, warm=warm))[1])
    name = "one new level measured, one axis"
    return [
        Measure(f"{name}, nothing at hand", round(times[0], 2), "s", MEASURED_BAR),
        Measure(f"{name}, warm", round(times[1], 2), "s", MEASURED_BAR),
    ]


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
            "predicted after a slider move, median": (_moved(page, address, run), PREDICTED_BAR),
            "predicted after a switched head, median": (
                _switched(page, address, run),
                PREDICTED_BAR,
            ),
            "a new level measured, from the click": (
                _measured(page, address, run, Store(store)),
                MEASURED_BAR,
            ),
        }
    client.stop(Store(store))
    return [
        Measure(f"on screen, {name}", round(seconds, 2), "s", bar)
        for name, (seconds, bar) in found.items()
    ]


def _moved(page: Any, address: str, run: Run) -> float:
    """Median seconds from a key on the slider to another answer."""
    page.goto(f"{address}/?run={run.id}&sparsity=12.5%20%25")
    page.locator(".pa-lead", has_text=LEAD).wait_for()
    page.locator(".js-plotly-plot").first.wait_for()
    return statistics.median(
        _until_another(page, lambda: page.keyboard.press("ArrowRight"), page.get_by_role("slider"))
    )


def _switched(page: Any, address: str, run: Run) -> float:
    """Median seconds from a head that is taken off the list to another answer."""
    page.goto(f"{address}/bench?run={run.id}&off=0.5,1.1,1.2,2.2,2.3,3.3,3.4")
    page.locator(".pa-lead", has_text=LEAD).wait_for()
    page.locator(".js-plotly-plot").nth(1).wait_for()
    box = page.get_by_role("combobox", name="Heads that are off")
    return statistics.median(_until_another(page, lambda: page.keyboard.press("Backspace"), box))


def _until_another(page: Any, act: Callable[[], None], focus: Any) -> list[float]:
    """Seconds from each act to another answer, with `focus` focused before each."""
    times = []
    for _ in range(MOVES):
        page.wait_for_timeout(1500)
        before = page.locator(".pa-lead").inner_text()
        focus.first.focus()
        start = time.perf_counter()
        act()
        page.wait_for_function(
            "before => document.querySelector('.pa-lead')?.innerText !== before", arg=before
        )
        times.append(time.perf_counter() - start)
    return times


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
