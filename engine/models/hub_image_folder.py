"""A folder with an image classifier as transformers saves it: config.json, safetensors,
preprocessor_config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.core.errors import Fault, RequestError, said_by
from engine.models import runtime
from engine.models.completeness import incomplete, match_in, quietly, unlike_files
from engine.models.config_file import LARGEST
from engine.models.file_fields import refusals, unread
from engine.models.image_processor import processor_of
from engine.models.notes import other_weights
from engine.models.said_outputs import said_outputs
from engine.models.state_dicts import State, plain_state
from engine.models.vision import architecture_for, hub_folders
from engine.models.weights import SINGLE, tensors_in, weight_files
from engine.store.brought import read_object

CONFIG, PREPROCESSOR, PROCESSOR = "config.json", "preprocessor_config.json", "processor_config.json"
_AGAIN = "Download or copy the folder again."


def is_hub_folder(folder: Path) -> bool:
    """Whether it has a config.json, as transformers writes."""
    return (folder / CONFIG).is_file()


def read_card(folder: Path) -> tuple[str, dict[str, Any], list[Fault]]:
    """The architecture's name ("" where it cannot be used), what model.json would say, and all
    faults."""
    config, faults = _object(folder / CONFIG)
    if faults:
        return "", {}, faults
    where = f"{folder.name}/{CONFIG}"
    if "architecture" in config:
        return "", {}, [_of_timm(where, config["architecture"])]
    family, known = config.get("model_type"), hub_folders.families()
    listed = config.get("architectures")
    named = str(listed[0]) if isinstance(listed, list) and listed else ""
    if "auto_map" in config:
        what = "asks for code of its own (auto_map), which is never run."
        return "", {}, [Fault(where, what, "Give a model that transformers knows itself.")]
    if not isinstance(family, str) or family not in known or "ImageClassification" not in named:
        what = (
            f"is {named or 'no model'} of family {family!r}, not an image classifier that"
            " transformers knows."
        )
        return "", {}, [Fault(where, what, f"Known families: {', '.join(sorted(known))}.")]
    try:
        arch = hub_folders.made_known(config)
    except RequestError as error:
        return "", {}, [replace(one, where=where) for one in error.faults]
    card, faults = _images(folder, arch, family)
    said, more = said_outputs(config, where)
    more += [*said.class_faults(where, "image"), *refusals(CONFIG, config, where)]
    if config.get("quantization_config"):
        more.append(
            Fault(
                where,
                "is of quantised weights.",
                "Give the model as it was before it was quantised.",
            )
        )
    names = {"classes": said.names} if said.names else {}
    return "" if more else arch, {**card, "outputs": said.count or 2, **names}, faults + more


def _of_timm(where: str, name: Any) -> Fault:
    fix = (
        f"Install timm, then give timm/{name} as the model and the folder's {SINGLE} as its"
        " weights."
    )
    return Fault(
        where, f"describes {str(name)[:80]!r} of the package timm, as timm itself saves it.", fix
    )


def _images(folder: Path, arch: str, family: str) -> tuple[dict[str, Any], list[Fault]]:
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
    names = ", ".join(unread(PREPROCESSOR, said))
    notes = (
        (f"Nobody here knows these fields of {file}, so they are not obeyed: {names}.",)
        if names
        else ()
    )
    mean, std = found.colours
    return {"mean": mean, "std": std, "size": found.side, "processor": found, "notes": notes}, []


def _processor_file(folder: Path) -> tuple[str, dict[str, Any], list[Fault]]:
    """The file that says how images are prepared, and what it says, {} where there is none. As
    transformers does it looks into a processor's own file first."""
    if (folder / PROCESSOR).is_file():
        said, faults = _object(folder / PROCESSOR)
        if faults or isinstance(said.get("image_processor"), dict):
            return PROCESSOR, said.get("image_processor", {}), faults
    return PREPROCESSOR, *(
        _object(folder / PREPROCESSOR) if (folder / PREPROCESSOR).is_file() else ({}, [])
    )


def read_weights(
    folder: Path, arch: str, n_classes: int
) -> tuple[State, list[Fault], tuple[str, ...]]:
    """The tensors under the names of transformers' class, faults, and a note on files of weights
    that are not read. Safetensors only; headers and numbers are checked first."""
    files, faults = weight_files(folder)
    shapes: dict[str, list[int]] = {}
    for path in files:
        found, wrong = tensors_in(path)
        shapes |= found
        faults += wrong
    architecture = architecture_for(arch)
    shape: Any = architecture.build(arch, n_classes)
    faults = faults or _row_faults(
        folder, shapes, f"{architecture.classifier(shape)}.weight", shape, n_classes
    )
    if faults:
        return {}, faults, ()
    try:
        with quietly():
            found, told = type(shape).from_pretrained(
                folder,
                config=shape.config,
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
            )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        if runtime.is_out_of_memory(error):
            raise
        return {}, [Fault(str(folder), f"cannot be loaded: {said_by(error)}.", _AGAIN)], ()
    faults = incomplete(str(folder), match_in(told)) or unlike_files(str(folder), found, files)
    if faults:
        return {}, faults, ()
    return *plain_state(folder.name, found.state_dict()), tuple(
        filter(None, [other_weights(folder, files)])
    )


def _row_faults(
    folder: Path, shapes: Mapping[str, list[int]], head: str, model: Any, n_classes: int
) -> list[Fault]:
    """A last layer in the file that has not as many rows as config.json names outputs. head: the
    tensor's name."""
    own, rows = model.state_dict()[head].shape[0], shapes.get(head, [n_classes])[0]
    if own != n_classes or rows == n_classes:
        return []
    what = f"names {n_classes} outputs, the last layer of its weights ({head}) has {rows}."
    return [
        Fault(
            f"{folder.name}/{CONFIG}",
            what,
            "Set id2label and num_labels to the outputs that it has.",
        )
    ]


def _object(path: Path) -> tuple[dict[str, Any], list[Fault]]:
    try:
        return read_object(path, LARGEST, _AGAIN, finite=False), []
    except RequestError as error:
        return {}, [replace(one, where=f"{path.parent.name}/{path.name}") for one in error.faults]
