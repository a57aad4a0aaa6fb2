"""Load an image classifier by embedded name, folder, weight file or architecture, make a new one,
or save one."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from engine.core.errors import Fault, PruneAuditError, RequestError, unknown
from engine.core.files import write_json, write_whole
from engine.core.types import Values, key_of, rng
from engine.models import runtime
from engine.models.config_file import class_name_faults, class_order_faults
from engine.models.gguf_file import ENDING
from engine.models.image_classifier_sources import (
    CARD,
    IMAGENET,
    SCHEMA,
    WEIGHTS,
    Source,
    recognised,
    resolve,
    weights_of,
)
from engine.models.state_dicts import State, misfits, n_outputs, skeleton, state_hash
from engine.models.vision import Architecture, architecture_for, architectures, is_known

if TYPE_CHECKING:
    from engine.core.types import FilterMask
    from engine.models.image_processor import OwnProcessor

LARGEST = 1024
"""Images beyond this many pixels a side are refused: a slip of the pen, or more memory than there
is."""
LARGEST_MEAN = 2.0
"""Of pixels in [0, 1], whom some processors move by one first; beyond it a note asks."""
_HEAD_SCALE = 0.01
"""Standard deviation of a new last layer's weights, as torchvision sets it in VGG and
MobileNetV2."""

Classes = Sequence[str] | int
"""Class names in the order of the outputs, or only their number."""


@dataclass(frozen=True)
class ClassifierInfo:
    """A classifier without its weights. `weight_hash`: see state_dicts.state_hash. mean, std: of
    pixels in [0, 1].

    `place` is the model folder or weight file, None for downloaded or random weights. `target` is
    the column it predicts, "" where unknown. `notes` are sentences a screen must show. `processor`
    makes pictures of `size`, None for the middle square, bilinear.
    """

    name: str
    arch: str
    classes: tuple[str, ...]
    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    weight_hash: str
    place: Path | None = None
    target: str = ""
    notes: tuple[str, ...] = ()
    processor: OwnProcessor | None = None

    @property
    def n_parameters(self) -> int:
        """Numbers in the whole model; batch norm's running statistics do not count."""
        return skeleton(self.arch, len(self.classes)).n_parameters


@dataclass(frozen=True, eq=False, kw_only=True)
class Classifier(ClassifierInfo):
    """An image classifier ready to use: eval mode, no parameter gradients (training turns them on
    in a copy).

    `cut` is None for a whole model and the mask of a physically cut one; then `weight_hash` is the
    base model's.
    """

    architecture: Architecture
    model: nn.Module
    device: torch.device
    cut: FilterMask | None = None

    __eq__, __hash__ = object.__eq__, object.__hash__

    @property
    def n_parameters(self) -> int:
        """Numbers in the model as it is now; batch norm's running statistics do not count."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    def prepared(self, pixels: np.ndarray) -> Tensor:
        """pixels [n, height, width, 3] uint8 -> normalised [n, 3, height, width] float32 on the
        device.

        In memory the channels stay last, as pixels come: convolutions are faster so, on CUDA and on
        CPU. Not for cut models on CPU: oneDNN writes past its buffers when it trains odd numbers of
        channels in that order (torch 2.13; docs/LOG.md).
        """
        if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[-1] != 3:
            raise ValueError(
                f"images must be uint8 [n, height, width, 3], not {pixels.dtype} {pixels.shape}"
            )
        mean, std = (torch.tensor(three, device=self.device) for three in (self.mean, self.std))
        images = torch.tensor(pixels, device=self.device).float()  # a copy: pixels may be read-only
        images = images.div_(255).sub_(mean).div_(std).permute(0, 3, 1, 2)
        is_odd = self.cut is not None and self.device.type == "cpu"
        return images.contiguous() if is_odd else images


def inspect_classifier(
    name: str | Path,
    weights: str | Path | None = None,
    classes: Classes | None = None,
    size: int | None = None,
    seed: int = 0,
) -> ClassifierInfo:
    """Everything about a classifier but its weights. RequestError carries all faults. Downloads for
    "imagenet" only.

    name: an embedded name or model folder (then no weights), an architecture with `weights`, or
    a weight file alone, whose architecture is then recognised by its tensors. weights: a state
    dict's file (.safetensors, or .pt, .pth, .th, .bin of plain tensors) or "imagenet".
    classes: what to call the outputs, in their order (engine.classifiers.layout says which is
    which). Of "imagenet" the last layer is made anew, drawn by `seed`, for another number of
    classes. size: side of the images in pixels, else the model's.
    """
    return _examined(name, weights, classes, size, seed)[0]


def load_classifier(
    name: str | Path,
    weights: str | Path | None = None,
    classes: Classes | None = None,
    device: str = "auto",
    size: int | None = None,
    seed: int = 0,
) -> Classifier:
    """Inspect, then load. Never runs code of the file. Arguments and RequestError as for
    `inspect_classifier`."""
    place = runtime.pick_device(device)
    info, state = _examined(name, weights, classes, size, seed)
    # No memory and no random numbers for weights that are replaced at once.
    with torch.device("meta"):
        model = architecture_for(info.arch).build(info.arch, len(info.classes))
    named: Any = OrderedDict(state)
    # MNASNet asks which version of itself wrote the tensors.
    named._metadata = {"": {"version": model._version}}
    model.load_state_dict(named, assign=True)  # strict; batch norm sets the counters itself
    return _ready(info, model, place)


def fresh_classifier(
    arch: str,
    classes: Classes,
    size: int | None = None,
    seed: int = 0,
    weights: str | None = None,
    device: str = "auto",
) -> Classifier:
    """A new classifier with random weights, or ImageNet's (`weights="imagenet"`) with a new last
    layer, to be trained.

    The same weights for the same seed, on every device. RequestError carries all faults.
    """
    if weights == IMAGENET:
        return load_classifier(arch, IMAGENET, classes=classes, device=device, size=size, seed=seed)
    place = runtime.pick_device(device)
    more = "Or none, for random ones."
    faults = [] if weights is None else [unknown("weights", weights, (IMAGENET,), more)]
    return _ready(*_fresh(arch, classes, size, seed, faults), place)


@lru_cache(maxsize=8)
def fresh_info(arch: str, classes: Classes, size: int | None, seed: int) -> ClassifierInfo:
    """What a new classifier will be; its hash is that of its random weights."""
    return _fresh(arch, classes, size, seed, [])[0]


def _fresh(
    arch: str, classes: Classes, size: int | None, seed: int, faults: Sequence[Fault]
) -> tuple[ClassifierInfo, nn.Module]:
    """A new classifier on the CPU. RequestError with every fault, those that are known included."""
    names = _spelled(classes)
    found = list(faults)
    if not is_known(arch):
        found.append(unknown("architecture", arch, architectures()))
    found += _size_faults(size, arch) + class_name_faults(names)
    if found:
        raise RequestError(found)
    key = key_of("fresh classifier", arch, len(names), seed)
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they are
        torch.random.default_generator.manual_seed(key)
        model = architecture_for(arch).build(arch, len(names))
    note = f"Its weights are random (seed {seed}): it knows nothing before it is trained."
    digest = state_hash(model.state_dict())
    return _info(Source(arch, arch), names, size, digest, (note,)), model


def is_architecture(name: str) -> bool:
    """Whether a name is that of an architecture, which comes without weights."""
    try:
        return is_known(str(name))
    except RequestError:  # of a package that is not installed: loading it says so
        return True


def is_classifier_name(name: str) -> bool:
    """Whether a name can only mean an image classifier: an architecture, a folder with its card, or
    a weight file, which a GGUF file is not."""
    if is_architecture(name):
        return True
    source, faults = resolve(str(name).strip(), None)
    return not faults and source.file is not None and source.file.suffix.lower() != ENDING


def save_classifier(
    classifier: Classifier, folder: str | Path, about: Values | None = None
) -> Path:
    """Write model.json and model.safetensors; other files of the folder stay. `about`: how it was
    made, JSON-able.

    A cut classifier is refused: its shapes are no architecture's. Keep the whole one and the mask.
    """
    if classifier.cut is not None:
        raise PruneAuditError(
            f"{classifier.name} is cut: its shapes are no known architecture's. Keep the whole"
            " model and the mask."
        )
    folder = Path(folder)
    state = {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in classifier.model.state_dict().items()
    }
    card = {
        "schema": SCHEMA,
        "architecture": classifier.arch,
        "classes": list(classifier.classes),
        "size": classifier.size,
        "mean": list(classifier.mean),
        "std": list(classifier.std),
        "target": classifier.target,
        "weight_hash": state_hash(state),
        **({"about": dict(about)} if about else {}),
        **config_of(classifier),
    }
    write_whole(
        folder / WEIGHTS,
        lambda path: save_file(state, path, metadata={"format": "pt"}),
        "model folder",
    )
    write_json(folder / CARD, card)
    return folder


def config_of(classifier: Classifier) -> Values:
    """What a card must say besides, for a model that only its config.json and its processor
    describe."""
    found = {"config": getattr(classifier.architecture, "config", None)}
    if classifier.processor:
        found["processor"] = json.loads(classifier.processor.said)
    return {name: value for name, value in found.items() if value}


def _ready(info: ClassifierInfo, model: nn.Module, device: torch.device) -> Classifier:
    # fp32 means fp32: masked = cut, and evaluation, rest on it.
    torch.backends.cudnn.allow_tf32 = False
    model = model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    model = model.eval().requires_grad_(False)
    return Classifier(
        **vars(info), architecture=architecture_for(info.arch), model=model, device=device
    )


def _info(
    source: Source, classes: tuple[str, ...], size: int | None, digest: str, notes: tuple[str, ...]
) -> ClassifierInfo:
    """What model.json says, else the architecture's own."""
    own, card = architecture_for(source.arch), source.card
    processor, side = card.get("processor"), size or card.get("size", own.default_size)
    mean, std = card.get("mean", own.mean), card.get("std", own.std)
    said = ", ".join(f"{one:g}" for one in mean)
    more = list(notes)
    if source.place is not None and "mean" not in card:
        more.append(
            f"Nothing beside its weights says how images are normalised; the usual mean ({said})"
            " is assumed."
        )
        if size is None:
            more.append(
                f"Nor what size they have: the middle square of each is taken, at {side} x {side}"
                " pixels."
            )
    if max(map(abs, mean)) > LARGEST_MEAN:
        more.append(
            f"Pixels from 0 to 1 are normalised by a mean of {said}: was it one of pixels from 0"
            " to 255?"
        )
    if processor is not None and side != card["size"]:
        more.append(
            f"Its own processor makes images of {card['size']} pixels, {side} are asked for: the"
            " middle square of each is taken instead."
        )
        processor = None
    return ClassifierInfo(
        source.name,
        source.arch,
        classes,
        side,
        mean,
        std,
        digest,
        source.place,
        card.get("target", ""),
        (*more, *card.get("notes", ()), *filter(None, [own.note])),
        processor,
    )


def _examined(
    name: str | Path,
    weights: str | Path | None,
    classes: Classes | None,
    size: int | None,
    seed: int,
) -> tuple[ClassifierInfo, State]:
    """What was asked for, with its tensors. RequestError with every fault found."""
    source, faults = resolve(str(name).strip(), None if weights is None else str(weights))
    state, more, unread = weights_of(source)
    source, faults, notes = recognised(source, state, faults + more)
    notes += unread
    if source.arch:
        state = architecture_for(source.arch).without_extras(state)
    faults += _size_faults(source.card.get("size") if size is None else size, source.arch)
    heads = None
    if state and source.arch:
        faults += misfits(source.file.name if source.file else source.name, state, source.arch)
        state, heads, fresh = _with_head(source, state, classes, seed)
        notes += fresh
        if source.card.get("weight_hash") not in (None, state_hash(state)):
            fix = "Save the model again, or do not use it before you know why."
            faults.append(
                Fault(f"{source.name}/{WEIGHTS}", f"does not have the hash that {CARD} names.", fix)
            )
    own = _own_classes(source, heads)
    names = own if classes is None or (classes == len(own or ()) and own) else _spelled(classes)
    if names is None and heads is not None:
        names = _spelled(heads)
        notes += ("Its classes have numbers: nobody gave their names.",)
    if names is not None:
        faults += class_name_faults(names) or class_order_faults(
            names, own or (), heads or len(names), source.name
        )
    if faults:
        raise RequestError(faults)
    return _info(source, names or (), size, state_hash(state), notes), state


def _with_head(
    source: Source, state: State, classes: Classes | None, seed: int
) -> tuple[State, int | None, tuple[str, ...]]:
    """Tensors, number of classes, notes. ImageNet's last layer is made anew where other classes are
    asked for."""
    heads = n_outputs(state, source.arch)
    asked = None if classes is None else len(_spelled(classes))
    if not source.published or heads is None or asked in (None, heads):
        return state, heads, ()
    head = skeleton(source.arch, 2).head
    shape = (asked, *state[f"{head}.weight"].shape[1:])
    draw = rng("new head", source.arch, asked, seed).standard_normal(shape)
    new = {
        f"{head}.weight": torch.from_numpy(draw * _HEAD_SCALE).float(),
        f"{head}.bias": torch.zeros(asked),
    }
    note = f"Its last layer is new and random (seed {seed}): it must be trained before it tells"
    return {**state, **new}, asked, (f"{note} {asked} classes apart.",)


def _own_classes(source: Source, heads: int | None) -> tuple[str, ...] | None:
    """Class names that come with the weights: those of model.json, or ImageNet's."""
    if not source.published or not source.arch or heads is None:
        return source.card.get("classes")
    weights = architecture_for(source.arch).published(source.arch)
    names = _spelled(weights.meta["categories"]) if weights else ()
    return names if len(names) == heads else None


def _size_faults(size: int | None, arch: str) -> list[Fault]:
    if size is None or not is_known(arch):
        return []
    own = architecture_for(arch)
    if own.is_fixed:
        least, most, fix = (
            own.default_size,
            own.default_size,
            f"It takes {own.default_size} pixels only.",
        )
    else:
        least, most, fix = own.min_size, LARGEST, f"Give a size from {own.min_size} to {LARGEST}."
    if least <= size <= most:
        return []
    return [Fault("size", f"images of {size} pixels do not fit {arch}.", fix)]


def _spelled(classes: Classes) -> tuple[str, ...]:
    each = range(classes) if isinstance(classes, int | np.integer) else classes
    return tuple(str(one) for one in each)
