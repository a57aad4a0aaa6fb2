"""What fair training costs: a step of BiFP over a plain training step, its memory, examples per second; one table."""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from benchmarks.report import Measure, parser, show
from engine.models.load_classifier import fresh_classifier
from engine.scores.fair_base import FairJob
from engine.surgery.filter_graph import filter_graph
from engine.training.batches import Batch
from engine.training.fair.masked import kept_of, masked_filters_of, masked_weights_of
from engine.training.fair.trainer import MaskLearning, Trainer
from engine.training.fit import fit
from engine.training.losses import Targets
from engine.training.recipe import Recipe

ROOT = Path(__file__).resolve().parents[1]
BATCH, STEPS, ROUNDS = 64, 4, 7
SPARSITY = 0.672
STEP_BAR = 2.5
MODELS = (("resnet10-w16", 32), ("resnet20", 32), ("resnet18", 32))
RECIPE = Recipe(epochs=1, rate=1e-4, batch=BATCH, schedule="constant")
MODES = ("plain", "fair", "bifp-str", "bifp-uns")
SAID = {"fair": "step with the fairness term, whole model", "bifp-str": "BiFP-str step", "bifp-uns": "BiFP-uns step"}


@dataclass(frozen=True)
class OneBatch:
    """The same batch again and again: what is timed is the step, not the reading of images."""

    batch: Batch
    seed: int = 0
    per_epoch: int = STEPS
    count: int = BATCH

    def epoch(self, number: int) -> Iterator[Batch]:
        return (self.batch for _ in range(self.per_epoch))

    def forever(self, step: int = 0) -> Iterator[Batch]:
        while True:
            yield self.batch


def main() -> int:
    """Everything, or one mode in a process of its own (for its memory)."""
    words = parser(__doc__)
    words.add_argument("--mode", choices=("nothing", *MODES), help="one kind of step; prints the peak memory in MB")
    words.add_argument("--quick", action="store_true", help="the smallest model only, without memory")
    asked: argparse.Namespace = words.parse_args()
    if asked.mode:
        print(_peak(asked.mode))
        return 0
    models = MODELS[:1] if asked.quick else MODELS
    measures = [measure for arch, size in models for measure in steps(arch, size)]
    return show(measures if asked.quick else [*measures, *memory()], asked.json)


def steps(arch: str, size: int) -> list[Measure]:
    """A step of each kind over a plain one of the same model, in turn. BiFP's is one update of the weights and one of
    the mask, each with a batch of its own."""
    runs = {mode: _steps_of(mode, arch, size) for mode in MODES}
    times: dict[str, list[float]] = {mode: [] for mode in MODES}
    for lap in range(-1, ROUNDS):
        for mode, run in runs.items():
            start = time.perf_counter()
            run()
            if lap >= 0:
                times[mode].append((time.perf_counter() - start) / STEPS)
    name = f"{arch} at {size} px, batch of {BATCH}"
    found = [_speed(f"{name}: plain training", times["plain"], 1)]
    for mode, said in SAID.items():
        ratio = float(np.median(np.array(times[mode]) / np.array(times["plain"])))
        bar = STEP_BAR if mode.startswith("bifp") else None
        found.append(Measure(f"{name}: {said} over a plain step", round(ratio, 3), "x", bar))
    return [*found, _speed(f"{name}: BiFP-str", times["bifp-str"], 2)]


def _speed(name: str, times: list[float], batches: int) -> Measure:
    return Measure(f"{name}, examples per second", round(batches * BATCH / float(np.median(times))), "1/s")


def _steps_of(mode: str, arch: str, size: int) -> Callable[[], Any]:
    """STEPS steps of one kind, on a model of its own."""
    classifier = fresh_classifier(arch, 2, size, seed=0)
    pixels = np.random.default_rng(0).integers(0, 256, (BATCH, size, size, 3), dtype=np.uint8)
    rows = torch.arange(BATCH, device=classifier.device)
    feed = OneBatch(Batch(rows, classifier.prepared(pixels)))
    labels = functional.one_hot(rows % 2, 2).float()
    targets = Targets(labels, torch.ones(BATCH, device=classifier.device))
    if mode == "plain":
        last = classifier.architecture.classifier(classifier.model)
        return lambda: fit(classifier.model, feed, targets, RECIPE, last)
    graph, groups = filter_graph(classifier), (np.arange(BATCH) // 2) % 2
    job = FairJob(classifier, graph, feed, targets, groups, np.full((BATCH, 2), 0.5, np.float32), (SPARSITY,), 1.0,
                  STEPS, RECIPE, 0, check_every=10**9, look=_nothing)  # fmt: skip
    masked = masked_weights_of(classifier.model) if mode == "bifp-uns" else masked_filters_of(classifier.model, graph)
    trainer = Trainer(job, masked)
    if mode == "fair":
        return lambda: trainer.run("fair", STEPS, 1.0)
    count = kept_of(masked.total, SPARSITY)
    trainer.keep_best(np.random.default_rng(0).random(masked.total), count)
    learning = MaskLearning(count, 1.0, settle=0.0)
    return lambda: trainer.run("both", STEPS, 1.0, learning)


def _nothing(model: Any) -> Mapping[str, float]:
    """No look at validation images: they are not part of a step."""
    return {}


def memory() -> list[Measure]:
    """Peak memory that steps add to a process which only loads the model, BiFP's over plain ones."""
    peaks = {mode: float(_run("--mode", mode)) for mode in ("nothing", "plain", "bifp-str", "bifp-uns")}
    added = {mode: peak - peaks["nothing"] for mode, peak in peaks.items()}
    name = f"{MODELS[-1][0]} at {MODELS[-1][1]} px"
    ratios = [
        Measure(f"{name}: {SAID[mode]}, peak memory over plain training's", round(added[mode] / added["plain"], 3), "x")
        for mode in ("bifp-str", "bifp-uns")
    ]
    return [Measure(f"{name}: peak memory that plain training adds", round(added["plain"]), "MB"), *ratios]


def _run(*words: str) -> str:
    command = [sys.executable, "-m", "benchmarks.fair_training", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def _peak(mode: str) -> float:
    """MB: on CUDA what torch allocated at most, else the resident size of the process."""
    run = _steps_of("plain" if mode == "nothing" else mode, *MODELS[-1])
    if mode != "nothing":
        run()
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e6
    status = Path("/proc/self/status")
    if status.exists():  # a child's ru_maxrss starts at its parent's on Linux, this does not
        return float(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) / 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


if __name__ == "__main__":
    sys.exit(main())
