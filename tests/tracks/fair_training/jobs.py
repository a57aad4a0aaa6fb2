"""Single fair trainings that take a second: a tiny ResNet, 24 images of 16 pixels, five
iterations."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from engine.models.load_image_classifier import Classifier
from engine.models.vision.resnets import NarrowResNet
from engine.surgery.filters.graph import FilterGraph, filter_graph
from engine.tracks.fair_training.methods import (
    ACCURACY,
    FairJob,
    FairMethod,
    Trained,
    fair_method,
    fair_methods,
)
from engine.training.fit import probabilities
from engine.training.losses import Targets
from engine.training.recipe import Nowhere, Recipe
from tests.classifiers.worlds import InMemoryKeep, some_batches, some_pixels, tiny

N, SIZE, BATCH, ITERATIONS = 24, 16, 8, 5
SPARSITIES = (0.3, 0.6)


def each() -> list[Any]:
    """Every method that is found; of those that share their code, only the first in every run of
    the tests."""
    first = {(type(one), one.units): name for name, one in reversed(fair_methods().items())}
    return [
        pytest.param(name, marks=[] if name in first.values() else [pytest.mark.slow])
        for name in fair_methods()
    ]


class Keeps:
    """One InMemoryKeep per phase, by name."""

    def __init__(self) -> None:
        self.phases: dict[str, InMemoryKeep] = {}

    def __call__(self, phase: str) -> InMemoryKeep:
        return self.phases.setdefault(phase, InMemoryKeep())

    @property
    def held(self) -> list[str]:
        """Phases of which something is kept."""
        return [name for name, keep in self.phases.items() if keep.state is not None]


def small_model(seed: int = 0) -> Classifier:
    """A ResNet-10, 8 channels wide at its start, of two classes with lively weights."""
    return tiny(NarrowResNet(8, 2), SIZE, seed=seed)


@cache
def small_graph() -> FilterGraph:
    return filter_graph(small_model())


@cache
def world() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images, labels and groups: class 1 is brighter, a third is in group 1, the last image in
    none."""
    labels, groups = np.arange(N) % 2, (np.arange(N) % 3 == 0).astype(int)
    groups[-1] = -1
    pixels = some_pixels(N, SIZE, seed=5) // 2 + (100 * labels[:, None, None, None]).astype(
        np.uint8
    )
    return pixels.astype(np.uint8), labels, groups


def looked(model: nn.Module) -> Mapping[str, float]:
    """Something that depends on the model, in the types that measuring gives."""
    with torch.no_grad():
        answers = model(small_model().prepared(world()[0][:6])).softmax(dim=1).numpy()
    return {
        "accuracy": np.float32(answers[0, 0]),
        "gap": 0.25,
        "degradation": 0.0,
        "val_loss": answers[1, 0],
    }


def fair_job(
    method: FairMethod | str,
    strength: float = 1.0,
    seed: int = 0,
    classifier: Classifier | None = None,
    sparsities: tuple[float, ...] | None = None,
    keep: Callable[[str], Any] = lambda phase: Nowhere(),
    **more: Any,
) -> FairJob:
    """What a method trains on, with a copy of the model of its own."""
    method = fair_method(method) if isinstance(method, str) else method
    classifier = classifier or small_model()
    pixels, labels, groups = world()
    hot = functional.one_hot(torch.as_tensor(labels), 2).float()
    if sparsities is None:
        sparsities = (
            (0.0,)
            if method.units == "none"
            else SPARSITIES
            if method.one_descent
            else SPARSITIES[1:]
        )
    quick = {"batches": 2, "share": 0.4}
    settings = {item.name: quick[item.name] for item in method.settings if item.name in quick}
    return FairJob(
        classifier,
        small_graph(),
        some_batches(classifier, N, BATCH, seed, True, pixels),
        Targets(hot, torch.ones(N)),
        groups,
        before(),
        sparsities,
        strength if method.fair else 0.0,
        more.pop("iterations", ITERATIONS),
        Recipe(rate=3e-3, batch=BATCH),
        seed,
        notion=more.pop("notion", ACCURACY),
        check_every=more.pop("check_every", 3),
        widths=more.pop("widths", widths() if method.widths_of else None),
        settings={**settings, **more.pop("settings", {})},
        look=more.pop("look", looked),
        keep=keep,
        **more,
    )


@cache
def widths() -> np.ndarray:
    """How many filters of each group another method left: half of them, and one more of the
    first."""
    found = np.array([group.width // 2 for group in small_graph().groups])
    return found + (np.arange(len(found)) == 0)


@cache
def before() -> np.ndarray:
    """The starting model's probabilities of all images."""
    model, pixels = small_model(), world()[0]
    return probabilities(
        model.model, np.arange(N), lambda rows: pixels[rows], model.prepared
    ).numpy()


def trained(name: str, **more: Any) -> list[Trained]:
    return list(fair_method(name).train(fair_job(name, **more)))


def plain_curve(one: Trained) -> list[dict[str, Any]]:
    """The curve without what a clock says."""
    return [{name: value for name, value in row.items() if name != "seconds"} for row in one.curve]


def same_weights(one: Trained, other: Trained) -> bool:
    """The same mask and the same weights, to the bit."""
    return np.array_equal(one.keep, other.keep) and all(
        torch.equal(value, other.weights[name]) for name, value in one.weights.items()
    )


def same_numbers(one: Trained, other: Trained) -> bool:
    """Equal to the bit but for the seconds; NaN equals NaN."""
    return (
        same_weights(one, other)
        and one.sparsity == other.sparsity
        and np.array_equal(one.scores, other.scores)
        and set(one.weights) == set(other.weights)
        and repr(plain_curve(one)) == repr(plain_curve(other))
        and {**one.spent, "seconds": 0} == {**other.spent, "seconds": 0}
    )
