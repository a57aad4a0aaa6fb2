"""Steps of training side by side: one batch again and again, kinds of steps in turn, and the memory
a process takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    taken: dict[str, list[float]] = {kind: [] for kind in runs}
    for _ in range(1 + rounds):
        for kind, do in runs.items():
            taken[kind].append(timed(do)[1] / steps)
    return {kind: np.array(each[1:]) for kind, each in taken.items()}


def ratio(times: np.ndarray, plain: np.ndarray) -> float:
    """The median over rounds of what a step costs over a plain one."""
    return round(float(np.median(times / plain)), 3)


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Kinds of steps beside plain training. of(kind, arch, size): does so many `steps` of one kind,
    on a model of its own. kinds: what each is called, and how many plain steps one may take;
    "plain" is not among them. heavy: those whose memory is measured, of the largest model."""

    module: str
    models: Sequence[tuple[str, int]]
    kinds: Mapping[str, tuple[str, float | None]]
    of: Callable[[str, str, int], Callable[[], Any]]
    steps: int
    rounds: int
    heavy: Sequence[str]

    def times(self, arch: str, size: int) -> Iterator[Measure]:
        """A step of each kind over a plain one of the same model."""
        runs = {kind: self.of(kind, arch, size) for kind in ("plain", *self.kinds)}
        plain, *others = times_in_turn(runs, self.rounds, self.steps).values()
        name = f"{arch} at {size} px, batch of {BATCH}"
        speed = round(BATCH / np.median(plain))
        yield Measure(f"{name}: plain training, examples per second", speed, "1/s")
        for each, (said, bar) in zip(others, self.kinds.values(), strict=True):
            yield Measure(f"{name}: {said} over a plain step", ratio(each, plain), "x", bar)

    def memory(self) -> Iterator[Measure]:
        """MB at the peak that steps add to a process which only loads the model, those of each kind
        over plain ones; one process per kind."""
        nothing, plain, *others = (
            self._peak(kind, act)
            for kind, act in (("plain", "pass"), *((one, "do()") for one in ("plain", *self.heavy)))
        )
        name, added = f"{self.models[-1][0]} at {self.models[-1][1]} px", plain - nothing
        yield Measure(f"{name}: peak memory that plain training adds", round(added), "MB")
        for peak, kind in zip(others, self.heavy, strict=True):
            over = round((peak - nothing) / added, 3)
            said = self.kinds[kind][0]
            yield Measure(f"{name}: {said}, peak memory over plain training's", over, "x")

    def _peak(self, kind: str, act: str) -> float:
        begun = f"from benchmarks.{self.module} import COMPARED as one; from benchmarks import"
        begun += f" training_steps; do = one.of({kind!r}, *one.models[-1])"
        return in_a_process(f"{begun}; {act}; print(training_steps.peak_memory())")

    def run(
        self,
        doc: str | None,
        of_model: Callable[[str, int], Iterable[Measure]] = lambda arch, size: (),
        of_all: Callable[[], Iterable[Measure]] = lambda: (),
    ) -> int:
        """Rows of every model, of memory, and more."""
        words = parser(doc)
        words.add_argument("--quick", action="store_true", help="rows of the smallest model only")
        asked = words.parse_args()
        found: list[Measure] = []
        for one in self.models[:1] if asked.quick else self.models:
            found += [*self.times(*one), *of_model(*one)]
        return show(found if asked.quick else [*found, *self.memory(), *of_all()], asked.json)


def peak_memory() -> float:
    """MB of this process so far: on CUDA what torch allocated at most, else the resident size."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e6
    return memory("VmHWM") / 1.024e6
