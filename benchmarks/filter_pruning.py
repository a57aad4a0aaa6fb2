"""What pruning filters costs and saves: steps of AutoBot and Taylor, memory, measured latency, a whole quick audit."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from benchmarks.report import Measure, parser, show
from engine.metrics.latency import paired_latency
from engine.models.load_classifier import Classifier, fresh_classifier
from engine.surgery.filter_cut import cut_filters
from engine.surgery.filter_graph import FilterGraph, filter_graph
from engine.surgery.flop_budget import meet_target
from engine.training.batches import Batch
from engine.training.bottlenecks import learn_bottlenecks
from engine.training.fit import fit
from engine.training.losses import Targets
from engine.training.recipe import Recipe
from engine.training.taylor import TaylorPruning

ROOT = Path(__file__).resolve().parents[1]
BATCH, STEPS, ROUNDS = 64, 6, 7
AUTOBOT_BAR, TAYLOR_BAR = 1.3, 1.5
MODELS = (("resnet10-w16", 32), ("resnet56", 32), ("resnet18", 64))
SPEEDUPS = (2.0, 4.0, 8.0, 16.0)
MODES = ("plain", "autobot", "taylor")


@dataclass(frozen=True)
class OneBatch:
    """The same batch again and again: what is timed is the step, not the reading of images."""

    batch: Batch
    seed: int = 0
    per_epoch: int = STEPS

    @property
    def positions(self) -> np.ndarray:
        return np.arange(len(self.batch.rows))

    def epoch(self, number: int) -> Iterator[Batch]:
        return (self.batch for _ in range(self.per_epoch))

    def forever(self) -> Iterator[Batch]:
        while True:
            yield self.batch


def main() -> int:
    """Everything, or one mode in a process of its own (for its memory)."""
    words = parser(__doc__)
    words.add_argument("--mode", choices=("nothing", *MODES), help="one kind of step; prints the peak memory in MB")
    words.add_argument("--without-audit", action="store_true")
    asked = words.parse_args()
    if asked.mode:
        print(_peak(asked.mode))
        return 0
    measures = [measure for arch, size in MODELS for measure in (*steps(arch, size), *latencies(arch, size))]
    measures += memory()
    if not asked.without_audit:
        measures.append(whole_audit())
    return show(measures, asked.json)


def steps(arch: str, size: int) -> list[Measure]:
    """Time of one step, AutoBot's and Taylor's over a plain training step of the same model, in turn."""
    runs = {mode: _steps_of(mode, arch, size) for mode in MODES}
    times: dict[str, list[float]] = {mode: [] for mode in MODES}
    for lap in range(-1, ROUNDS):
        for mode, run in runs.items():
            start = time.perf_counter()
            run()
            if lap >= 0:
                times[mode].append((time.perf_counter() - start) / STEPS)
    plain = np.array(times["plain"])
    name = f"{arch} at {size} px, batch of {BATCH}"
    return [
        Measure(f"{name}: plain training step", round(1e3 * float(np.median(plain)), 2), "ms"),
        Measure(f"{name}: AutoBot step over it", _ratio(times["autobot"], plain), "x", AUTOBOT_BAR),
        Measure(f"{name}: Taylor step over it", _ratio(times["taylor"], plain), "x", TAYLOR_BAR),
    ]


def _ratio(times: list[float], plain: np.ndarray) -> float:
    return round(float(np.median(np.array(times) / plain)), 3)


def _steps_of(mode: str, arch: str, size: int) -> Callable[[], Any]:
    """STEPS steps of one kind, on a model of its own."""
    classifier, graph, batches, targets = _world(arch, size)
    if mode == "plain":
        recipe = Recipe(epochs=1, rate=1e-4, batch=BATCH, schedule="constant")
        last = classifier.architecture.classifier(classifier.model)
        return lambda: fit(classifier.model, batches, targets, recipe, last)
    if mode == "autobot":
        goal = graph.flops() / 4
        return lambda: learn_bottlenecks(classifier, graph, batches, targets, goal, 0.85, 2.7, STEPS)
    return lambda: list(
        TaylorPruning(classifier, graph, batches, targets, 1e-4, STEPS, 1).run([graph.flops() * 0.9999])
    )


def _world(arch: str, size: int) -> tuple[Classifier, FilterGraph, Any, Targets]:
    classifier = fresh_classifier(arch, 2, size, seed=0)
    pixels = np.random.default_rng(0).integers(0, 256, (BATCH, size, size, 3), dtype=np.uint8)
    batch = Batch(torch.arange(BATCH, device=classifier.device), classifier.prepared(pixels))
    labels = functional.one_hot(torch.arange(BATCH, device=classifier.device) % 2, 2).float()
    targets = Targets(labels, torch.ones(BATCH, device=classifier.device))
    return classifier, filter_graph(classifier), OneBatch(batch), targets


def latencies(arch: str, size: int) -> list[Measure]:
    """Measured speedup of really cut models, filters taken at random, beside the theoretical one."""
    classifier = fresh_classifier(arch, 2, size, seed=0)
    graph = filter_graph(classifier)
    scores = np.random.default_rng(0).random(graph.total)
    pixels = np.zeros((8, size, size, 3), dtype=np.uint8)
    found = []
    for speedup in SPEEDUPS:
        small, _ = cut_filters(classifier, graph.mask(meet_target(graph, scores, graph.flops() / speedup).keep))
        own, dense = small.prepared(pixels), classifier.prepared(pixels)
        times = paired_latency(
            lambda small=small, own=own: small.model(own), lambda dense=dense: classifier.model(dense), 15,
            classifier.device,
        )  # fmt: skip
        ratio = round(float(np.median(times[1] / times[0])), 3)
        found.append(
            Measure(f"{arch} at {size} px: measured speedup of 8 images at theoretical {speedup:g}x", ratio, "x")
        )
    return found


def memory() -> list[Measure]:
    """Peak memory that steps add to a process which only loads the model: AutoBot's and Taylor's over plain ones."""
    peaks = {mode: float(_run("--mode", mode)) for mode in ("nothing", *MODES)}
    added = {mode: peaks[mode] - peaks["nothing"] for mode in MODES}
    name = f"{MODELS[-1][0]} at {MODELS[-1][1]} px"
    return [
        Measure(f"{name}: peak memory that plain training adds", round(added["plain"]), "MB"),
        Measure(f"{name}: AutoBot's over it", round(added["autobot"] / added["plain"], 3), "x"),
        Measure(f"{name}: Taylor's over it", round(added["taylor"] / added["plain"], 3), "x"),
    ]


def _run(*words: str) -> str:
    command = [sys.executable, "-m", "benchmarks.filter_pruning", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def _peak(mode: str) -> float:
    """MB: on CUDA what torch allocated at most, else the resident size of the process."""
    if mode == "nothing":
        _world(*MODELS[-1])
    else:
        _steps_of(mode, *MODELS[-1])()
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e6
    status = Path("/proc/self/status")
    if status.exists():  # a child's ru_maxrss starts at its parent's on Linux, this does not
        return float(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) / 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def whole_audit() -> Measure:
    """Seconds of `experiment celeba --quick` on avatars, into a fresh store."""
    with tempfile.TemporaryDirectory() as store:
        start = time.perf_counter()
        command = [sys.executable, "-m", "engine", "experiment", "celeba", "--quick", "--store", store, "--json"]
        subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
        return Measure("experiment celeba --quick on avatars, all of it", round(time.perf_counter() - start), "s")


if __name__ == "__main__":
    sys.exit(main())
