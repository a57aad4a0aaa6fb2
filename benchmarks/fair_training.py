"""What fair training costs: a step of BiFP over a plain training step, its memory, examples per
second; one table."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.training_steps import BATCH, RECIPE, Compared, plain_steps, some_world
from engine.surgery.filters.graph import filter_graph
from engine.tracks.fair_training.masked import (
    kept_of,
    masked_filters_of,
    masked_weights_of,
)
from engine.tracks.fair_training.methods import FairJob
from engine.tracks.fair_training.trainer import MaskLearning, Trainer

STEPS, SPARSITY = 12, 0.672


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
        check_every=10**9,  # no look at validation images: they are not part of a step
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


COMPARED = Compared(
    module="fair_training",
    models=(("resnet10-w16", 32), ("resnet20", 32), ("resnet18", 32), ("resnet18", 64)),
    kinds={
        "fair": ("step with the fairness term, whole model", None),
        "bifp-str": ("BiFP-str step", 2.5),
        "bifp-uns": ("BiFP-uns step", 2.5),
    },
    of=steps_of,
    steps=STEPS,
    rounds=4,
    heavy=("bifp-str", "bifp-uns"),
)
"""A step of BiFP is one update of the weights and one of the mask, each with a batch of its own."""

if __name__ == "__main__":
    sys.exit(COMPARED.run(__doc__))
