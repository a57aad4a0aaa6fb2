"""Where an image classifier comes from: an embedded or other model folder, a weight file, or
torchvision's weights."""

from __future__ import annotations

import hashlib
import math
import os
import re
import urllib.request
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from engine.core.errors import Fault, RequestError, unknown
from engine.core.types import Values
from engine.models import catalog, runtime
from engine.models.checkpoint import IS_CUT
from engine.models.completeness import loaded
from engine.models.config_file import CONFIG, LARGEST, named_architecture, said_outputs
from engine.models.file_fields import refusals, unread
from engine.models.image_processor import processor_of
from engine.models.notes import other_weights
from engine.models.state_dicts import Read, State, fitting_architectures, plain_state, read_state
from engine.models.vision import architecture_for, architectures, is_known
from engine.models.vision.hub_folders import families, made_known
from engine.models.weights import SINGLE, weights_in
from engine.store.user_json import read_object

SCHEMA = 1
CARD, WEIGHTS = "model.json", "model.safetensors"
"""The two files of a model folder."""
IMAGENET = "imagenet"
"""As `weights`: torchvision's published ones, downloaded once into its hub folder."""
_LARGEST = 16_000_000  # bytes of a card
_PATIENCE = 8  # seconds for the host of published weights to answer
_AS_SAVED = "Give a folder as save_classifier writes it."


@dataclass(frozen=True)
class Source:
    """A name that was resolved. `arch` is "" where unknown, `place` a model folder or weight file.

    Weights come from `file`, or are torchvision's where `published`; neither means that there are
    none to be had. `card` holds what model.json says, values of the right kinds only.
    """

    name: str
    arch: str = ""
    place: Path | None = None
    file: Path | None = None
    published: bool = False
    is_hub: bool = False
    card: Values = field(default_factory=dict)


def resolve(name: str, weights: str | None) -> tuple[Source, list[Fault]]:
    """Where the weights are and which architecture was named; what is wrong with the names and with
    model.json.

    A bare name is looked up in assets/ only as a folder of that name, never beyond.
    """
    faults = []
    if weights is not None:
        known = name if is_known(name) else ""
        if not known:
            faults.append(unknown("architecture", name, architectures()))
        if weights == IMAGENET:
            return Source(f"{name} (ImageNet)", known, published=True), faults
        path = Path(weights)
        path = path.expanduser() if weights.startswith("~/") else path
        return Source(name, known, path, path), faults
    place = catalog.resolve(name) if name else None
    if isinstance(place, Path) and os.path.isdir(place):  # False of a name too long
        return _folder(place)
    if isinstance(place, Path) and os.path.isfile(place):
        return Source(place.stem, "", place, place), faults
    return Source(name), [_no_such(name)]


def weights_of(source: Source) -> Read:
    """The tensors, {} where there are none to be had, faults, and notes on what is not read.
    Downloads only where `published`."""
    if source.is_hub and source.place and source.arch:
        return _hub_weights(source.place, source.arch, source.card["outputs"])
    if source.published and source.arch:
        return *_published(source.arch), ()
    if source.file is None:
        return {}, [], ()
    state, faults, notes = read_state(source.file)
    if source.place not in (None, source.file):
        notes += tuple(filter(None, [other_weights(source.place, [source.file])]))
    return state, faults, notes


def recognised(
    source: Source, state: State, faults: list[Fault]
) -> tuple[Source, list[Fault], tuple[str, ...]]:
    """The source with the architecture that its tensors fit, where none was named, and a note that
    says so.

    Where an unknown one was named, its fault is told which one the tensors fit instead.
    """
    if source.arch or not state:
        return source, faults, ()
    fitting = fitting_architectures(state)
    fits = " and ".join(fitting)
    if any(fault.where == "architecture" for fault in faults):
        hint = f" The file fits {fits}." if fitting else ""
        told = [
            replace(one, fix=one.fix + hint) if one.where == "architecture" else one
            for one in faults
        ]
        return source, told, ()
    if len(fitting) == 1:
        note = f"Its tensors are those of {fits}; nobody named the architecture."
        return replace(source, arch=fits), faults, (note,)
    what = f"fits {fits or 'none'} of the known architectures."
    fix = f"Name its architecture. Known: {', '.join(architectures())}."
    return source, [*faults, Fault(source.name, what, fix)], ()


def _no_such(name: str) -> Fault:
    where = f"image classifier {name}"
    if is_known(name):
        what = "is an architecture, and no weights are given."
        fix = f'Give a weight file, or "{IMAGENET}" for the published ones where there are any.'
        return Fault(where, what, fix)
    if Path(name).is_absolute():
        fix = "Give a model folder, a weight file with its architecture, or a name."
        return Fault(where, "There is no such file or folder.", fix)
    embedded = [entry.name for entry in catalog.list_classifiers()]
    also = "Or give a model folder, or a weight file with its architecture."
    return unknown("image classifier", name, [*embedded, *architectures()], also)


def _folder(folder: Path) -> tuple[Source, list[Fault]]:
    """A model folder after a look at its model.json."""
    if (folder / CONFIG).is_file() and not (folder / CARD).is_file():
        own, card, faults = _hub_card(folder)
        return Source(folder.absolute().name, own, folder, card=card, is_hub=True), faults
    if (folder / "mask.json").is_file() and not (folder / WEIGHTS).is_file():
        fix = "Audit the base model. What the cut one gets right says evaluate --model FOLDER."
        return Source(folder.absolute().name), [Fault(str(folder), IS_CUT, fix)]
    card, faults = _card(folder)
    if "config" in card:
        try:
            made_known(card["config"])
        except RequestError as error:
            where = f"{folder.name}/{CARD}"
            faults += [replace(one, where=where) for one in error.faults]
            return Source(str(folder)), faults
    own = card.get("architecture", "")
    if own and not is_known(own):
        faults.append(unknown(f"{CARD}: architecture", own, architectures()))
        own = ""
    file = folder / WEIGHTS if card else None
    return Source(folder.absolute().name, own, folder, file, card=card), faults


def _card(folder: Path) -> tuple[Values, list[Fault]]:
    """model.json, values of the right kinds only, and a fault for each other one."""
    where = f"{folder.name}/{CARD}"
    if not (folder / CARD).is_file():
        return {}, [Fault(str(folder), f"has no {CARD} that can be read.", _AS_SAVED)]
    card, faults = _object(folder / CARD, _LARGEST, _AS_SAVED)
    if faults:
        return {}, faults[:1]
    if card.get("schema") != SCHEMA:
        also = "A newer program may have written it."
        return {}, [unknown(f"{where}: schema", card.get("schema"), (SCHEMA,), also)]
    kinds = {
        "architecture": (lambda value: isinstance(value, str) and bool(value), "a name"),
        "classes": (_are_texts, "a list of texts"),
        "size": (lambda value: type(value) is int, "a whole number of pixels"),
        "mean": (lambda value: _is_colour(value, -math.inf), "three numbers"),
        "std": (lambda value: _is_colour(value, 0.0), "three numbers above zero"),
    }
    good = {key: card[key] for key, (is_right, _) in kinds.items() if is_right(card.get(key))}
    faults = [
        Fault(where, f"{key!r} is {card.get(key)!r}, not {allowed}.", _AS_SAVED)
        for key, (_, allowed) in kinds.items()
        if key not in good
    ]
    found = {key: tuple(one) if isinstance(one, list) else one for key, one in good.items()}
    for key, kind in (("target", str), ("weight_hash", str), ("config", dict)):
        if isinstance(card.get(key), kind):
            found[key] = card[key]
    if isinstance(card.get("processor"), dict):
        found["processor"], more = processor_of(card["processor"], None, f"{where}: processor")
        faults += more
    return found, faults


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


def _is_colour(value: Any, above: float) -> bool:
    """Whether it is a list of three finite numbers, each greater than `above`."""
    numbers = value if isinstance(value, list) else []
    good = [one for one in numbers if type(one) in (int, float) and above < one < math.inf]
    return len(numbers) == len(good) == 3


def _published(arch: str) -> tuple[State, list[Fault]]:
    """ImageNet weights from torchvision's hub folder, downloaded by it where they are not there
    yet; no code of the file is run.

    The host is asked for a sign of life first, because the download itself would wait for it
    without end.
    """
    architecture = architecture_for(arch)
    weights = architecture.published(arch)
    if weights is None:
        having = [name for name, one in architectures().items() if one.published(name) is not None]
        what = f"there are no ImageNet weights of {arch}."
        return {}, [Fault("weights", what, f"Known for {', '.join(having)}.")]
    file = Path(torch.hub.get_dir()) / "checkpoints" / weights.url.rsplit("/", 1)[-1]
    by_hand = f"Download {weights.url} elsewhere and give the path of that file as weights."
    try:
        if not file.is_file():
            asked = urllib.request.Request(weights.url, method="HEAD")
            urllib.request.urlopen(asked, timeout=_PATIENCE).close()
        elif not _is_pinned(file):
            what = "does not have the hash in its name, so it is not what torchvision published."
            return {}, [Fault(str(file), what, f"Delete it and try again. {by_hand}")]
        found = weights.get_state_dict(
            progress=False, check_hash=True, weights_only=True, map_location="cpu"
        )
    except Exception as error:  # network libraries and torch raise many kinds
        if runtime.is_out_of_memory(error):
            raise
        why = f"{type(error).__name__}: {error}"
        what = f"the published weights of {arch} could not be downloaded ({why})."
        return {}, [Fault("weights", what, by_hand)]
    return plain_state(file.name, architecture.without_extras(found))


def _is_pinned(file: Path) -> bool:
    """Whether its SHA-256 begins as its name says, resnet18-f37072fd.pth with f37072fd."""
    pin = re.search(r"-([0-9a-f]{8,})\.", file.name)
    with file.open("rb") as stream:
        return pin is None or hashlib.file_digest(stream, "sha256").hexdigest().startswith(pin[1])


# A folder as transformers saves it: config.json, safetensors, preprocessor_config.json.

PREPROCESSOR, PROCESSOR = "preprocessor_config.json", "processor_config.json"
_AGAIN = "Download or copy the folder again."


def _hub_card(folder: Path) -> tuple[str, Values, list[Fault]]:
    """The architecture's name ("" where it cannot be used), what model.json would say, and all
    faults."""
    config, faults = _object(folder / CONFIG)
    if faults:
        return "", {}, faults
    where = f"{folder.name}/{CONFIG}"
    if refused := _not_of_transformers(where, config):
        return "", {}, [refused]
    try:
        arch = made_known(config)
    except RequestError as error:
        return "", {}, [replace(one, where=where) for one in error.faults]
    card, faults = _images(folder, arch, config["model_type"])
    said, more = said_outputs(config, where)
    more += [*said.class_faults(where, "image"), *refusals(CONFIG, config, where)]
    if config.get("quantization_config"):
        fix = "Give the model as it was before it was quantised."
        more.append(Fault(where, "is of quantised weights.", fix))
    names = {"classes": said.names} if said.names else {}
    return "" if more else arch, {**card, "outputs": said.count or 2, **names}, faults + more


def _not_of_transformers(where: str, config: Values) -> Fault | None:
    """Why transformers itself has no image classifier of a config.json."""
    if "architecture" in config:
        name = str(config["architecture"])[:80]
        what = f"describes {name!r} of the package timm, as timm itself saves it."
        fix = (
            f"Install timm, then give timm/{name} as the model and the folder's {SINGLE} as its"
            " weights."
        )
        return Fault(where, what, fix)
    if "auto_map" in config:
        what = "asks for code of its own (auto_map), which is never run."
        return Fault(where, what, "Give a model that transformers knows itself.")
    family, known, named = config.get("model_type"), families(), named_architecture(config)
    if isinstance(family, str) and family in known and "ImageClassification" in named:
        return None
    what = (
        f"is {named or 'no model'} of family {family!r}, not an image classifier that"
        " transformers knows."
    )
    return Fault(where, what, f"Known families: {', '.join(sorted(known))}.")


def _images(folder: Path, arch: str, family: str) -> tuple[Values, list[Fault]]:
    """What the processor beside the weights says of images, if there is one, as a card has it."""
    file, said, faults = _processor_file(folder)
    if not said or faults:
        return {}, faults
    where = f"{folder.name}/{file}"
    found, faults = processor_of(said, family, where)
    if found is None:
        return {}, faults
    own = architecture_for(arch)
    if own.is_fixed and found.side != own.default_size:
        what = f"makes pictures of {found.side} pixels a side, the model takes {own.default_size}."
        return {}, [Fault(where, what, "Set its size and crop_size to the model's.")]
    card = dict(zip(("mean", "std"), found.colours, strict=True))
    names = ", ".join(unread(PREPROCESSOR, said))
    note = f"Nobody here knows these fields of {file}, so they are not obeyed: {names}."
    notes = (note,) if names else ()
    return {**card, "size": found.side, "processor": found, "notes": notes}, []


def _processor_file(folder: Path) -> tuple[str, Values, list[Fault]]:
    """The file that says how images are prepared, and what it says, {} where there is none. As
    transformers does it looks into a processor's own file first."""
    if (folder / PROCESSOR).is_file():
        said, faults = _object(folder / PROCESSOR)
        if faults or isinstance(said.get("image_processor"), dict):
            return PROCESSOR, said.get("image_processor", {}), faults
    if not (folder / PREPROCESSOR).is_file():
        return PREPROCESSOR, {}, []
    return PREPROCESSOR, *_object(folder / PREPROCESSOR)


def _hub_weights(folder: Path, arch: str, n_classes: int) -> Read:
    """The tensors under the names of transformers' class, faults, and a note on files of weights
    that are not read. Safetensors only; headers and numbers are checked first."""
    files, shapes, faults = weights_in(folder)
    architecture = architecture_for(arch)
    shape = architecture.build(arch, n_classes)
    head = f"{architecture.classifier(shape)}.weight"
    own, rows = shape.state_dict()[head].shape[0], shapes.get(head, [n_classes])[0]
    if not faults and own == n_classes != rows:
        what = f"names {n_classes} outputs, the last layer of its weights ({head}) has {rows}."
        fix = "Set id2label and num_labels to the outputs that it has."
        faults.append(Fault(f"{folder.name}/{CONFIG}", what, fix))
    if faults:
        return {}, faults, ()
    try:
        model, _ = loaded(
            type(shape),
            folder,
            str(folder),
            files,
            lambda match: match,
            config=shape.config,
            ignore_mismatched_sizes=True,
        )
    except RequestError as error:
        return {}, [replace(one, fix=_AGAIN) for one in error.faults], ()
    notes = tuple(filter(None, [other_weights(folder, files)]))
    return *plain_state(folder.name, model.state_dict()), notes


def _object(path: Path, largest: int = LARGEST, fix: str = _AGAIN) -> tuple[Values, list[Fault]]:
    """A document of JSON, or what is wrong with it."""
    try:
        return read_object(path, largest, fix, finite=False), []
    except RequestError as error:
        return {}, [replace(one, where=f"{path.parent.name}/{path.name}") for one in error.faults]
