"""Steps of training side by side: one batch again and again, kinds of steps in turn, and the memory
a process takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from benchmarks.report import Measure, in_a_process, memory, parser, show, timed
from engine.models.load_image_classifier import Classifier, fresh_classifier
from engine.training.fit import Batch, Batches, fit
from engine.training.losses import Targets
from engine.training.recipe import Recipe

BATCH = 64
RECIPE = Recipe(epochs=1, rate=1e-4, batch=BATCH, schedule="constant")


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
            _, seconds = timed(run)
            if lap >= 0:
                times[mode].append(seconds / steps)
    return {mode: np.array(each) for mode, each in times.items()}


def ratio(times: np.ndarray, plain: np.ndarray) -> float:
    """The median over rounds of what a step costs over a plain one."""
    return round(float(np.median(times / plain)), 3)


def run(
    doc: str | None,
    models: Sequence[tuple[str, int]],
    rows: Callable[[str, int], Sequence[Measure]],
    more: Callable[[], Sequence[Measure]],
) -> int:
    """Rows of every model and `more`."""
    words = parser(doc)
    words.add_argument("--quick", action="store_true", help="rows of the smallest model only")
    asked = words.parse_args()
    chosen = models[:1] if asked.quick else models
    measures = [measure for arch, size in chosen for measure in rows(arch, size)]
    return show(measures if asked.quick else [*measures, *more()], asked.json)


def added_memory(module: str, modes: Sequence[str]) -> dict[str, float]:
    """MB at the peak that steps of each mode add to a process which only loads the model; one
    process per mode."""

    def peak(mode: str, act: str) -> float:
        begun = f"from benchmarks import {module} as one, training_steps; steps = one.steps_of"
        return in_a_process(
            f"{begun}({mode!r}, *one.MODELS[-1]); {act}; print(training_steps.peak_memory())"
        )

    nothing = peak("plain", "pass")
    return {mode: peak(mode, "steps()") - nothing for mode in modes}


def peak_memory() -> float:
    """MB of this process so far: on CUDA what torch allocated at most, else the resident size."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e6
    return memory("VmHWM") / 1.024e6
