"""Tiny classifiers with lively weights, and digits of 16 pixels: image audits that finish in
seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from engine.core.types import FilterMask
from engine.models.load_image_classifier import Classifier, save_classifier
from engine.models.vision import architecture_for
from engine.models.vision.base import Architecture
from engine.surgery.filters.graph import FilterGraph, FilterGroup, cut_filters, filter_graph
from engine.surgery.heads import replay
from engine.training.fit import Batches
from engine.training.losses import Targets

SMALL = "resnet10-w16"
CPU = torch.device("cpu")


def hooks_of(model: nn.Module) -> int:
    """How many hooks its modules have."""
    return sum(len(one._forward_hooks) + len(one._forward_pre_hooks) for one in model.modules())


def state(model: nn.Module) -> dict[str, Tensor]:
    """A copy of its tensors by name."""
    return {name: value.clone() for name, value in model.state_dict().items()}


class TwoConvs(nn.Module):
    """8 x 8 pixels: conv1 (3 -> 3, no batch norm), conv2 (3 -> 4, batch norm), mean over places,
    linear layer."""

    def __init__(self, n_classes: int = 2, dropout: float = 0.0) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 3, 3, padding=1)
        self.conv2 = nn.Conv2d(3, 4, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(4)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(4, n_classes)

    def forward(self, images: Tensor) -> Tensor:
        found = torch.relu(self.conv1(images))
        found = torch.relu(self.bn2(self.conv2(found)))
        return self.fc(self.dropout(found.mean(dim=(2, 3))))


class Tied(nn.Module):
    """A residual sum ties conv1 and conv3; conv2 lies in between. No batch norm, so everything is
    linear but ReLU."""

    def __init__(self, n_classes: int = 2) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 3, 1)
        self.conv2 = nn.Conv2d(3, 2, 1)
        self.conv3 = nn.Conv2d(2, 3, 1)
        self.fc = nn.Linear(3, n_classes)

    def forward(self, images: Tensor) -> Tensor:
        first = torch.relu(self.conv1(images))
        return self.fc((first + self.conv3(torch.relu(self.conv2(first)))).mean(dim=(2, 3)))


class TinyArchitecture(Architecture):
    """Of no family; not found by anybody."""

    names = ("two-convs",)
    default_size = 8
    min_size = 8

    def build(self, name: str, n_classes: int) -> nn.Module:
        return TwoConvs(n_classes)


def tiny(
    model: nn.Module | None = None, size: int = 8, n_classes: int = 2, seed: int = 0
) -> Classifier:
    """A classifier around a tiny model of the tests."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = enliven(model or TwoConvs(n_classes), seed)
    names = tuple(map(str, range(n_classes)))
    model.eval().requires_grad_(False)
    half = (0.5, 0.5, 0.5)
    own: dict[str, Any] = {"architecture": TinyArchitecture(), "model": model, "device": CPU}
    return Classifier("tiny", "two-convs", names, size, half, half, "0" * 64, **own)


def lively(name: str, size: int, n_classes: int = 3, seed: int = 0) -> Classifier:
    """An architecture with seeded weights whose batch norms do something, so that nothing is zero
    by accident."""
    architecture = architecture_for(name)
    with torch.device("meta"):
        model = architecture.build(name, n_classes)
        if (
            name == "vgg16"
        ):  # its linear layers hold 120 million weights; small ones read the same 25,088 features
            model.classifier = nn.Sequential(
                nn.Linear(512 * 7 * 7, 8), nn.ReLU(), nn.Linear(8, n_classes)
            )
    model = enliven(model, seed).eval().requires_grad_(False)
    names = tuple(map(str, range(n_classes)))
    own: dict[str, Any] = {"architecture": architecture, "model": model, "device": CPU}
    return Classifier(name, name, names, size, architecture.mean, architecture.std, "0" * 64, **own)


def enliven(model: nn.Module, seed: int) -> nn.Module:
    """Fill parameters and batch norm statistics with seeded numbers."""
    draw = torch.Generator().manual_seed(seed)
    for module in model.modules():
        for label, old in list(module.named_parameters(recurse=False)) + list(
            module.named_buffers(recurse=False)
        ):
            if not old.is_floating_point():
                if old.is_meta:
                    module.register_buffer(label, torch.zeros(old.shape, dtype=old.dtype))
                continue
            if old.dim() > 1:
                new = torch.randn(old.shape, generator=draw) * (2.0 / old[0].numel()) ** 0.5
            elif label in ("running_var", "weight"):
                new = 0.5 + torch.rand(old.shape, generator=draw)
            else:
                new = torch.rand(old.shape, generator=draw) - 0.5
            if isinstance(old, nn.Parameter):
                module.register_parameter(label, nn.Parameter(new))
            else:
                module.register_buffer(label, new)
    return model


def some_pixels(n: int, size: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, size, size, 3), dtype=np.uint8)


class Cut(NamedTuple):
    """A model, which of its filters go, what is left of it, and how that came about."""

    whole: Classifier
    graph: FilterGraph
    mask: FilterMask
    small: Classifier
    history: list[Any]


def some_cut(whole: Classifier | None = None) -> Cut:
    """Some filters of a model, of the small one where none is given."""
    whole = whole or lively(SMALL, 16)
    graph = filter_graph(whole)
    mask = graph.mask(some_mask(graph))
    return Cut(whole, graph, mask, *cut_filters(whole, mask))


def some_mask(graph: FilterGraph, share: float = 0.6, seed: int = 0) -> np.ndarray:
    """About `share` of all filters stay, at random places; one filter of every group does."""
    draw = np.random.default_rng(seed)
    keep = draw.random(graph.total) < share
    for group in graph.groups:
        keep[group.start + draw.integers(group.width)] = True
    return keep


def graph_by_hand(
    widths: Sequence[int], price: Sequence[float], fixed_in: int = 1, fixed_out: int = 1
) -> FilterGraph:
    """A chain: layer l reads group l-1 and feeds group l; one layer more than groups."""
    total, starts = sum(widths), np.cumsum([0, *widths])
    inputs, outputs = np.zeros((len(widths) + 1, total)), np.zeros((len(widths) + 1, total))
    for place, width in enumerate(widths):
        span = slice(starts[place], starts[place] + width)
        outputs[place, span] = inputs[place + 1, span] = 1.0
    groups = tuple(
        FilterGroup(f"conv{place}", width, int(starts[place]), (f"conv{place}",), ())
        for place, width in enumerate(widths)
    )
    into, out = np.zeros(len(widths) + 1), np.zeros(len(widths) + 1)
    into[0], out[-1] = fixed_in, fixed_out
    layers = tuple(f"layer{place}" for place in range(len(widths) + 1))
    return FilterGraph(groups, layers, np.asarray(price, dtype=float), inputs, outputs, into, out)


def some_batches(
    classifier: Classifier,
    n: int,
    size: int,
    seed: int = 0,
    mirror: bool = False,
    pixels: np.ndarray | None = None,
) -> Batches:
    """Batches over n random images (or the given ones)."""
    held = some_pixels(n, classifier.size, seed=5) if pixels is None else pixels
    return Batches(np.arange(n), lambda rows: held[rows], classifier.prepared, size, seed, mirror)


def some_targets(n: int, n_classes: int = 2, seed: int = 0) -> Targets:
    """Soft labels and uneven weights."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.softmax(2 * torch.randn(n, n_classes, generator=draw), dim=1)
    return Targets(labels, 0.5 + torch.rand(n, generator=draw))


class InMemoryKeep:
    """Keeps copies of every state it is given."""

    def __init__(self) -> None:
        self.state: dict[str, Any] | None = None
        self.saved = 0

    def load(self) -> dict[str, Any] | None:
        return copied(self.state)

    def save(self, state: dict[str, Any]) -> None:
        self.state, self.saved = copied(state), self.saved + 1

    def clear(self) -> None:
        self.state = None


def copied(state: Any) -> Any:
    """Through bytes, as a file does."""
    import io

    if state is None:
        return None
    memory = io.BytesIO()
    torch.save(state, memory)
    memory.seek(0)
    return torch.load(memory, weights_only=True)


def one_off(weight: Tensor) -> None:
    """A middling weight, 1 % off: no more than what other hardware may move."""
    flat = weight.data.view(-1)
    flat[flat.abs().argsort()[len(flat) // 2]] *= 1.01


def spoil_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut model loads otherwise than it was saved."""
    real = replay._fill

    def spoiled(model: nn.Module, path: Path) -> None:
        real(model, path)
        one_off(
            next(
                value
                for label, value in model.named_parameters()
                if ".1." in label and value.dim() > 1
            )
        )

    monkeypatch.setattr(replay, "_fill", spoiled)


def stop_after(checks: int) -> Callable[[], None]:
    """A check that asks to stop at the call after so many."""
    from engine.core.errors import Cancelled

    left = {"now": checks}

    def check() -> None:
        left["now"] -= 1
        if left["now"] < 0:
            raise Cancelled("stop")

    return check


def saved_model(
    folder: Path, n_classes: int = 10, size: int = 16, seed: int = 0, **fields: Any
) -> Path:
    """A model folder for digits."""
    from engine.models.load_image_classifier import fresh_classifier

    new = fresh_classifier(SMALL, n_classes, size, seed, device="cpu")
    return save_classifier(replace(new, target="digit", **fields), folder)
