"""What fair training costs: a step of BiFP over a plain training step, its memory, examples per
second; one table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.report import Measure
from benchmarks.training_steps import (
    BATCH,
    RECIPE,
    added_memory,
    plain_steps,
    ratio,
    run,
    some_world,
    times_in_turn,
)
from engine.surgery.filters.graph import filter_graph
from engine.tracks.fair_training.masked import (
    kept_of,
    masked_filters_of,
    masked_weights_of,
)
from engine.tracks.fair_training.methods import FairJob
from engine.tracks.fair_training.trainer import MaskLearning, Trainer

STEPS, ROUNDS = 12, 4
SPARSITY = 0.672
STEP_BAR = 2.5
MODELS = (("resnet10-w16", 32), ("resnet20", 32), ("resnet18", 32), ("resnet18", 64))
MODES = ("plain", "fair", "bifp-str", "bifp-uns")
SAID = {
    "fair": "step with the fairness term, whole model",
    "bifp-str": "BiFP-str step",
    "bifp-uns": "BiFP-uns step",
}


def steps(arch: str, size: int) -> list[Measure]:
    """A step of each kind over a plain one of the same model, in turn. BiFP's is one update of the
    weights and one of the mask, each with a batch of its own."""
    runs = {mode: steps_of(mode, arch, size) for mode in MODES}
    times = times_in_turn(runs, ROUNDS, STEPS)
    name = f"{arch} at {size} px, batch of {BATCH}"
    found = [_speed(f"{name}: plain training", times["plain"], 1)]
    for mode, said in SAID.items():
        bar = STEP_BAR if mode.startswith("bifp") else None
        found.append(
            Measure(
                f"{name}: {said} over a plain step", ratio(times[mode], times["plain"]), "x", bar
            )
        )
    return [*found, _speed(f"{name}: BiFP-str", times["bifp-str"], 2)]


def _speed(name: str, times: np.ndarray, batches: int) -> Measure:
    return Measure(f"{name}, examples per second", round(batches * BATCH / np.median(times)), "1/s")


def steps_of(mode: str, arch: str, size: int) -> Callable[[], Any]:
    """STEPS steps of one kind, on a model of its own."""
    classifier, feed, targets = some_world(arch, size, STEPS)
    if mode == "plain":
        return plain_steps(classifier, feed, targets)
    graph, groups = filter_graph(classifier), (np.arange(BATCH) // 2) % 2
    job = FairJob(
        classifier,
        graph,
        feed,
        targets,
        groups,
        np.full((BATCH, 2), 0.5, np.float32),
        (SPARSITY,),
        1.0,
        STEPS,
        RECIPE,
        0,
        check_every=10**9,
        look=_nothing,
    )
    masked = (
        masked_weights_of(classifier.model)
        if mode == "bifp-uns"
        else masked_filters_of(classifier.model, graph)
    )
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
    """Peak memory that steps add to a process which only loads the model, BiFP's over plain
    ones."""
    added = added_memory("fair_training", ("plain", "bifp-str", "bifp-uns"))
    name = f"{MODELS[-1][0]} at {MODELS[-1][1]} px"
    ratios = [
        Measure(
            f"{name}: {SAID[mode]}, peak memory over plain training's",
            round(added[mode] / added["plain"], 3),
            "x",
        )
        for mode in ("bifp-str", "bifp-uns")
    ]
    return [
        Measure(f"{name}: peak memory that plain training adds", round(added["plain"]), "MB"),
        *ratios,
    ]


if __name__ == "__main__":
    sys.exit(run(__doc__, MODELS, steps, memory))
