"""Steps of training side by side: one batch again and again, kinds of steps in turn, and the memory
a process takes."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from benchmarks.report import Measure, parser, show
from engine.models.load_image_classifier import Classifier, fresh_classifier
from engine.training.fit import Batch, Batches, fit
from engine.training.losses import Targets
from engine.training.recipe import Recipe

ROOT = Path(__file__).resolve().parents[1]
BATCH = 64
RECIPE = Recipe(epochs=1, rate=1e-4, batch=BATCH, schedule="constant")
NOTHING = "nothing"
"""The mode of a process that loads its model and takes no step."""


@dataclass(frozen=True, kw_only=True)
class OneBatch(Batches):
    """The same batch again and again: what is timed is the step, not the reading of images."""

    batch: Batch
    laps: int

    @property
    def per_epoch(self) -> int:
        return self.laps

    def epoch(self, number: int, first: int = 0) -> Iterator[Batch]:
        return (self.batch for _ in range(self.laps))

    def forever(self, step: int = 0) -> Iterator[Batch]:
        while True:
            yield self.batch


def some_world(arch: str, size: int, steps: int) -> tuple[Classifier, OneBatch, Targets]:
    """A new model of two classes and a batch of noise for it, `steps` times an epoch."""
    classifier = fresh_classifier(arch, 2, size, seed=0)
    pixels = np.random.default_rng(0).integers(0, 256, (BATCH, size, size, 3), dtype=np.uint8)
    rows = torch.arange(BATCH, device=classifier.device)
    labels = functional.one_hot(rows % 2, 2).float()
    targets = Targets(labels, torch.ones(BATCH, device=classifier.device))
    batch = Batch(rows, classifier.prepared(pixels))
    read = pixels.__getitem__
    feed = OneBatch(np.arange(BATCH), read, classifier.prepared, BATCH, 0, batch=batch, laps=steps)
    return classifier, feed, targets


def plain_steps(classifier: Classifier, batches: OneBatch, targets: Targets) -> Callable[[], Any]:
    """An epoch of ordinary training."""
    last = classifier.architecture.classifier(classifier.model)
    return lambda: fit(classifier.model, batches, targets, RECIPE, last)


def times_in_turn(
    runs: Mapping[str, Callable[[], Any]], rounds: int, steps: int
) -> dict[str, np.ndarray]:
    """Seconds of a step of each kind, [rounds], taken in turn; a round before them is not
    counted."""
    times: dict[str, list[float]] = {mode: [] for mode in runs}
    for lap in range(-1, rounds):
        for mode, run in runs.items():
            start = time.perf_counter()
            run()
            if lap >= 0:
                times[mode].append((time.perf_counter() - start) / steps)
    return {mode: np.array(each) for mode, each in times.items()}


def ratio(times: np.ndarray, plain: np.ndarray) -> float:
    """The median over rounds of what a step costs over a plain one."""
    return round(float(np.median(times / plain)), 3)


def run(
    doc: str | None,
    modes: Sequence[str],
    steps_of: Callable[[str, str, int], Callable[[], Any]],
    models: Sequence[tuple[str, int]],
    rows: Callable[[str, int], Sequence[Measure]],
    more: Callable[[], Sequence[Measure]],
) -> int:
    """Rows of every model and `more`; or one mode in a process of its own, for its memory."""
    words = parser(doc)
    words.add_argument("--mode", choices=(NOTHING, *modes), help="prints its peak memory in MB")
    words.add_argument("--quick", action="store_true", help="rows of the smallest model only")
    asked = words.parse_args()
    if asked.mode:
        steps = steps_of("plain" if asked.mode == NOTHING else asked.mode, *models[-1])
        if asked.mode != NOTHING:
            steps()
        print(peak_memory())
        return 0
    chosen = models[:1] if asked.quick else models
    measures = [measure for arch, size in chosen for measure in rows(arch, size)]
    return show(measures if asked.quick else [*measures, *more()], asked.json)


def added_memory(module: str, modes: Sequence[str]) -> dict[str, float]:
    """MB at the peak that steps of each mode add to a process which only loads the model; one
    process per mode."""
    peaks = {mode: float(_run(module, mode)) for mode in (NOTHING, *modes)}
    return {mode: peaks[mode] - peaks[NOTHING] for mode in modes}


def _run(module: str, mode: str) -> str:
    command = [sys.executable, "-m", module, "--mode", mode]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def peak_memory() -> float:
    """MB of this process so far: on CUDA what torch allocated at most, else the resident size."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e6
    status = Path("/proc/self/status")
    if status.exists():  # a child's ru_maxrss starts at its parent's on Linux, this does not
        return float(re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())[0]) / 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
