"""What pruning filters costs and saves: steps of AutoBot and Taylor, memory, measured latency, a
whole quick audit."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.report import Measure, timed
from benchmarks.training_steps import Compared, plain_steps, ratio, some_world
from engine.audit.measurements import paired_latency
from engine.core.files import PROJECT
from engine.models.load_image_classifier import fresh_classifier
from engine.surgery.filters.graph import cut_filters, filter_graph
from engine.surgery.ranking import meet_target
from engine.tracks.image_classifiers.methods._learned import TaylorPruning, learn_bottlenecks

STEPS, SPEEDUPS = 6, (2.0, 4.0, 8.0, 16.0)


def steps_of(mode: str, arch: str, size: int) -> Callable[[], Any]:
    """STEPS steps of one kind, on a model of its own."""
    classifier, batches, targets = some_world(arch, size, STEPS)
    if mode == "plain":
        return plain_steps(classifier, batches, targets)
    graph = filter_graph(classifier)
    if mode == "autobot":
        goal = graph.flops() / 4
        return lambda: learn_bottlenecks(
            classifier, graph, batches, targets, goal, 0.85, 2.7, STEPS
        )
    return lambda: list(
        TaylorPruning(classifier, graph, batches, targets, 1e-4, STEPS, 1).run(
            [graph.flops() * 0.9999]
        )
    )


def latencies(arch: str, size: int) -> list[Measure]:
    """Measured speedup of really cut models, filters taken at random, beside the theoretical
    one."""
    classifier = fresh_classifier(arch, 2, size, seed=0)
    graph = filter_graph(classifier)
    scores = np.random.default_rng(0).random(graph.total)
    pixels = np.zeros((8, size, size, 3), dtype=np.uint8)
    found = []
    for speedup in SPEEDUPS:
        small, _ = cut_filters(
            classifier, graph.mask(meet_target(graph, scores, graph.flops() / speedup).keep)
        )
        own, dense = small.prepared(pixels), classifier.prepared(pixels)
        times = paired_latency(
            partial(small.model, own), partial(classifier.model, dense), 15, classifier.device
        )
        faster = ratio(times[1], times[0])
        found.append(
            Measure(
                f"{arch} at {size} px: measured speedup of 8 images at theoretical {speedup:g}x",
                faster,
                "x",
            )
        )
    return found


def whole_audit() -> list[Measure]:
    """Seconds of `experiment celeba --quick` on avatars, into a fresh store."""
    with tempfile.TemporaryDirectory() as store:
        words = ["experiment", "celeba", "--quick", "--json", "--store", store]
        command = [sys.executable, "-m", "engine", *words]
        ask = partial(subprocess.run, command, cwd=PROJECT, capture_output=True, check=True)
        _, seconds = timed(ask)
        return [Measure("experiment celeba --quick on avatars, all of it", round(seconds), "s")]


COMPARED = Compared(
    module="filter_pruning",
    models=(("resnet10-w16", 32), ("resnet56", 32), ("resnet18", 64)),
    kinds={"autobot": ("AutoBot step", 1.3), "taylor": ("Taylor step", 1.5)},
    of=steps_of,
    steps=STEPS,
    rounds=7,
    heavy=("autobot", "taylor"),
)

if __name__ == "__main__":
    sys.exit(COMPARED.run(__doc__, latencies, whole_audit))
