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
from benchmarks.training_steps import (
    BATCH,
    added_memory,
    plain_steps,
    ratio,
    run,
    some_world,
    times_in_turn,
)
from engine.audit.measurements import paired_latency
from engine.core.files import PROJECT
from engine.models.load_image_classifier import fresh_classifier
from engine.surgery.filters.graph import cut_filters, filter_graph
from engine.surgery.ranking import meet_target
from engine.tracks.image_classifiers.methods._learned import TaylorPruning, learn_bottlenecks

STEPS, ROUNDS = 6, 7
AUTOBOT_BAR, TAYLOR_BAR = 1.3, 1.5
MODELS = (("resnet10-w16", 32), ("resnet56", 32), ("resnet18", 64))
SPEEDUPS = (2.0, 4.0, 8.0, 16.0)
MODES = ("plain", "autobot", "taylor")


def steps(arch: str, size: int) -> list[Measure]:
    """Time of one step, AutoBot's and Taylor's over a plain training step of the same model, in
    turn."""
    runs = {mode: steps_of(mode, arch, size) for mode in MODES}
    times = times_in_turn(runs, ROUNDS, STEPS)
    plain = times["plain"]
    name = f"{arch} at {size} px, batch of {BATCH}"
    return [
        Measure(f"{name}: plain training step", round(1e3 * np.median(plain), 2), "ms"),
        Measure(f"{name}: AutoBot step over it", ratio(times["autobot"], plain), "x", AUTOBOT_BAR),
        Measure(f"{name}: Taylor step over it", ratio(times["taylor"], plain), "x", TAYLOR_BAR),
    ]


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


def memory() -> list[Measure]:
    """Peak memory that steps add to a process which only loads the model: AutoBot's and Taylor's
    over plain ones."""
    added = added_memory("filter_pruning", MODES)
    name = f"{MODELS[-1][0]} at {MODELS[-1][1]} px"
    return [
        Measure(f"{name}: peak memory that plain training adds", round(added["plain"]), "MB"),
        Measure(f"{name}: AutoBot's over it", round(added["autobot"] / added["plain"], 3), "x"),
        Measure(f"{name}: Taylor's over it", round(added["taylor"] / added["plain"], 3), "x"),
    ]


def whole_audit() -> Measure:
    """Seconds of `experiment celeba --quick` on avatars, into a fresh store."""
    with tempfile.TemporaryDirectory() as store:
        words = ["experiment", "celeba", "--quick", "--json", "--store", store]
        command = [sys.executable, "-m", "engine", *words]
        ask = partial(subprocess.run, command, cwd=PROJECT, capture_output=True, check=True)
        _, seconds = timed(ask)
        return Measure("experiment celeba --quick on avatars, all of it", round(seconds), "s")


if __name__ == "__main__":
    sys.exit(
        run(
            __doc__,
            MODELS,
            lambda arch, size: [*steps(arch, size), *latencies(arch, size)],
            lambda: [*memory(), whole_audit()],
        )
    )
