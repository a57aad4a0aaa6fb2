"""Image classifiers: torchvision's models, folders of transformers, heads of vision transformers;
random weights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from benchmarks.report import Measure
from engine.core.errors import PruneAuditError
from engine.models.load_image_classifier import (
    Classifier,
    fresh_classifier,
    load_classifier,
    save_classifier,
)
from engine.models.vision import architecture_for
from engine.surgery.filters.graph import (
    cut_filters,
    filter_graph,
    masked_filters,
    prove_filter_mask_works,
    replayed,
)
from engine.surgery.record import FilterRecord, groups_of, read_filter_mask, write_mask
from tests.classifiers.worlds import enliven
from tests.tiny_images import FAMILIES, saved_by_transformers

LEAST, BAR = 25, 1e-4
SMALLEST = (
    *(
        "resnet20",
        "resnet10",
        "resnet18",
        "resnet34",
        "resnet50",
        "resnext50_32x4d",
        "alexnet",
        "vgg11",
        "vgg11_bn",
    ),
    *("squeezenet1_0", "squeezenet1_1", "densenet121", "googlenet", "inception_v3", "mobilenet_v2"),
    *("mobilenet_v3_small", "mobilenet_v3_large", "mnasnet0_5", "mnasnet1_0", "shufflenet_v2_x0_5"),
    *(
        "shufflenet_v2_x1_0",
        "efficientnet_b0",
        "regnet_x_400mf",
        "regnet_y_400mf",
        "convnext_tiny",
        "vit_b_32",
    ),
)
"""One or two of every family of torchvision."""
KEPT = 0.9
HUB = "transformers "


def measures() -> Iterator[Measure]:
    accepted = 0
    with TemporaryDirectory() as place:
        for name in (*SMALLEST, *(f"{HUB}{family}" for family in FAMILIES)):
            rows = list(_rows(name, Path(place) / name))
            accepted += len(rows) > 1
            yield from rows
    yield Measure("image architectures accepted", accepted, "architectures", LEAST, at_least=True)


def _rows(name: str, folder: Path) -> Iterator[Measure]:
    """One architecture: accepted, and masked against cut, replayed, and mask.json applied to a
    fresh load."""
    try:
        whole = _loaded(name, folder)
        graph = filter_graph(whole)
        prove_filter_mask_works(whole, graph)
    except PruneAuditError as error:
        yield Measure(f"{name}: accepted ({error})", 0.0, "of 1", 1.0, at_least=True)
        return
    yield Measure(f"{name}: accepted", 1.0, "of 1", 1.0, at_least=True)
    draw = np.random.default_rng(0)
    keep = draw.random(graph.total) < KEPT
    keep[[group.start for group in graph.groups]] = True
    keep[[group.start + group.width - 1 for group in graph.groups if group.width > 1]] = False
    mask = graph.mask(keep)
    images = whole.prepared(draw.integers(0, 256, (4, whole.size, whole.size, 3), dtype=np.uint8))
    small, history = cut_filters(whole, mask)
    with torch.no_grad():
        with masked_filters(whole, graph, mask):
            masked = whole.model(images)
        moved = (whole.model(images) - masked).abs().max() / masked.abs().max()
        yield Measure(f"{name}: mask moves logits by", moved, "of 1", 1e-5, at_least=True)
        for what, other in _others(whole, small, mask, history, name, folder):
            share = (other.model(images) - masked).abs().max() / masked.abs().max()
            yield Measure(
                f"{name}: masked against {what}, largest relative difference", share, "of 1", BAR
            )


def _others(
    whole, small, mask, history, name: str, folder: Path
) -> Iterator[tuple[str, Classifier]]:
    yield "cut", small
    yield "replayed", replayed(whole, json.loads(json.dumps(history)), mask)
    record = FilterRecord(
        whole.name,
        whole.arch,
        whole.weight_hash,
        whole.classes,
        whole.size,
        groups_of(mask),
        history,
    )
    read = read_filter_mask(write_mask(folder / "mask.json", record))
    yield (
        "mask.json applied to a fresh load",
        replayed(load_classifier(folder, device="cpu"), read.history, read.mask),
    )


def _loaded(name: str, folder: Path) -> Classifier:
    """The architecture with random weights, from a folder of its own."""
    if name.startswith(HUB):
        saved_by_transformers(name.removeprefix(HUB), folder)
    else:
        least = max(32, architecture_for(name).min_size)
        new = fresh_classifier(name, ("cat", "dog", "owl"), least, device="cpu")
        enliven(new.model, 0)
        save_classifier(new, folder)
    return load_classifier(folder, device="cpu")
