"""Answers on the spot: how fast and how right. Predicted against measured over random sets of heads of the demo model,
seconds of a warm prediction, and seconds from asking for a new level to its numbers with the model loaded."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.report import Measure, parser, show
from engine.audit.executors import Local
from engine.core.seeds import rng
from engine.core.types import Hooks
from engine.report.charts import lookup
from engine.resident.asks import answer_here
from engine.resident.warm import Warm
from engine.store.runs import EMBEDDED, Run, Store
from engine.tracks.language_models.any_level import stops
from engine.tracks.language_models.bias import bias
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.hand_sets import plan_of
from engine.tracks.language_models.opening import open_audit
from engine.tracks.language_models.predicted import predicted
from engine.tracks.language_models.tables import Measured

AXIS, METHOD = "nationality", "fasp"
MOST = 8
"""Heads of the largest random set."""
HELD_BAR, MEASURED_BAR, PREDICTED_BAR = 0.9, 20.0, 0.5
"""Share of 95 % intervals that hold; seconds to measure one level on one axis; seconds of a prediction."""
TIMED = 40
"""Predictions that are timed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; exit code 1 when a bar is missed."""
    options = parser(__doc__)
    options.add_argument("--sets", type=int, default=20, help="how many random sets are measured")
    asked = options.parse_args(arguments)
    run = demo()
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        measures = [*predictions(run), *held(run, Store(one), asked.sets), *new_level(run, Store(other))]
    return show(measures, asked.json)


def demo() -> Run:
    """The embedded audit of a language model."""
    store = Store(EMBEDDED, read_only=True)
    return next(
        run for run in map(store.open, store.ids()) if AXIS in run.meta["request"]["axes"] and run.has("scores")
    )


def random_sets(run: Run, number: int) -> list[tuple[int, ...]]:
    """Sets of 1 to MOST heads, sizes in turn, heads drawn with a stated seed: critical ones too."""
    draw = rng("interactive benchmark", 0)
    total = lookup.total_heads(run)
    return [tuple(sorted(draw.permutation(total)[: 1 + at % MOST].tolist())) for at in range(number)]


def predictions(run: Run) -> list[Measure]:
    """Seconds of a prediction: the first, which reads the tables, and later ones."""
    times = []
    for units in random_sets(run, TIMED):
        start = time.perf_counter()
        predicted(run, units, AXIS)
        times.append(time.perf_counter() - start)
    return [
        Measure("prediction, the first of an audit", round(times[0], 4), "s", PREDICTED_BAR),
        Measure("prediction, median of later ones", round(statistics.median(times[1:]), 4), "s", PREDICTED_BAR),
    ]


def held(run: Run, store: Store, number: int) -> list[Measure]:
    """Share of predicted intervals (95 %) that hold the measured change of bias, on all test prompts and seeds."""
    audit = open_audit(plan_of(run), store, Hooks(), Local())
    measured, reading = Measured(audit.context, audit.request, audit.progress), audit.request.reading
    sets = random_sets(run, number)
    audit.finish("random sets", [
        Shard("verdicts", cut, AXIS, "test", seed) for cut in [(), *sets] for seed in audit.request.seed_list
    ])  # fmt: skip
    dense = bias(measured.toxicity(((), "test", AXIS)), reading)
    inside, error, width = [], [], []
    for cut in sets:
        change = bias(measured.toxicity((cut, "test", AXIS)), reading) - dense
        guess = predicted(run, cut, AXIS).change
        inside.append(guess.low <= change <= guess.high)
        error.append(change - guess.value)
        width.append(guess.high - guess.low)
    name = f"predicted change of bias, {number} random sets of 1 to {MOST} heads"
    return [
        Measure(f"{name}: share of intervals that hold the measured one", float(np.mean(inside)), "", HELD_BAR, True),
        Measure(f"{name}: mean width of an interval", float(np.mean(width)), "bias"),
        Measure(f"{name}: measured minus predicted, root mean square", float(np.sqrt(np.mean(np.square(error)))),
                "bias"),
    ]  # fmt: skip


def new_level(run: Run, store: Store) -> list[Measure]:
    """Seconds to measure a level that the audit has not, on one axis: with nothing at hand, then with the model loaded
    and the dense model's texts kept."""
    warm = Warm()
    free = [stop.level for stop in stops(run, METHOD, AXIS) if not stop.finished]
    times = []
    for level in (free[len(free) // 2], free[len(free) // 3]):
        start = time.perf_counter()
        answer_here("measure", {"run": run.id, "axis": AXIS, "method": METHOD, "level": level}, store, warm=warm)
        times.append(time.perf_counter() - start)
    name = "one new level measured, one axis"
    return [
        Measure(f"{name}, nothing at hand", round(times[0], 2), "s", MEASURED_BAR),
        Measure(f"{name}, warm", round(times[1], 2), "s", MEASURED_BAR),
    ]


if __name__ == "__main__":
    sys.exit(main())
