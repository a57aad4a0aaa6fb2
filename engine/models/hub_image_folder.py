"""A folder with an image classifier as transformers saves it: config.json, safetensors, preprocessor_config.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.core.errors import Fault
from engine.core.files import is_special
from engine.models.state_dicts import State, plain_state
from engine.models.vision import hub_folders
from engine.models.weights import tensors_in, weight_files

CONFIG, PREPROCESSOR = "config.json", "preprocessor_config.json"
_AGAIN = "Download or copy the folder again."


def is_hub_folder(folder: Path) -> bool:
    """Whether it has a config.json, as transformers writes."""
    return (folder / CONFIG).is_file()


def read_card(folder: Path) -> tuple[str, dict[str, Any], list[Fault]]:
    """The architecture's name ("" where it cannot be used), what model.json would say, and all faults."""
    config, faults = _object(folder / CONFIG)
    if faults:
        return "", {}, faults
    family, known = config.get("model_type"), hub_folders.families()
    if "auto_map" in config:
        what = "asks for code of its own (auto_map), which is never run."
        return "", {}, [Fault(f"{folder.name}/{CONFIG}", what, "Give a model that transformers knows itself.")]
    named = config.get("architectures") or [""]
    if family not in known or "ImageClassification" not in str(named[0]):
        what = (
            f"is {str(named[0]) or 'no model'} of family {family!r}, not an image classifier that transformers knows."
        )
        return "", {}, [Fault(f"{folder.name}/{CONFIG}", what, f"Known families: {', '.join(sorted(known))}.")]
    try:
        arch = hub_folders.made_known(config)
    except Exception as error:  # whatever transformers finds wrong in a config
        first = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        return "", {}, [Fault(f"{folder.name}/{CONFIG}", f"cannot be built: {first}", "Give another model.")]
    card, faults = _images(folder, arch)
    labels = config.get("id2label")
    if isinstance(labels, dict) and len(set(labels.values())) == len(labels):
        card["classes"] = tuple(str(labels[key]) for key in sorted(labels, key=int))
    return arch, card, faults


def _images(folder: Path, arch: str) -> tuple[dict[str, Any], list[Fault]]:
    """Size, mean and deviation of the images, from preprocessor_config.json."""
    if not (folder / PREPROCESSOR).is_file():
        return {}, []
    said, faults = _object(folder / PREPROCESSOR)
    card: dict[str, Any] = {}
    if said.get("do_normalize", True):
        for name, key in (("mean", "image_mean"), ("std", "image_std")):
            if isinstance(said.get(key), list) and len(said[key]) == 3:
                card[name] = tuple(float(one) for one in said[key])
    else:
        card |= {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}
    asked = said.get("crop_size") if said.get("do_center_crop") else said.get("size")
    side = asked.get("height", asked.get("shortest_edge")) if isinstance(asked, Mapping) else asked
    if isinstance(side, int) and side > 0 and not hub_folders.hub_architecture(arch).is_fixed:
        card["size"] = side
    if abs(float(said.get("rescale_factor", 1 / 255)) - 1 / 255) > 1e-6:
        what = f"rescales pixels by {said['rescale_factor']}, not by 1/255."
        faults.append(Fault(f"{folder.name}/{PREPROCESSOR}", what, "Give a model of pixels between 0 and 1."))
    return card, faults


def read_weights(folder: Path, arch: str, n_classes: int) -> tuple[State, list[Fault]]:
    """The tensors under the names of transformers' class. Safetensors only; headers and numbers are checked first."""
    files, faults = weight_files(folder)
    for path in files:
        faults += tensors_in(path)[1]
    if faults:
        return {}, faults
    from transformers.utils import logging

    logging.disable_progress_bar()
    architecture = hub_folders.hub_architecture(arch)
    shape = architecture.build(arch, n_classes)
    found, told = type(shape).from_pretrained(
        folder, config=shape.config, use_safetensors=True, local_files_only=True, trust_remote_code=False,
        output_loading_info=True, ignore_mismatched_sizes=True,
    )  # fmt: skip
    faults = [
        Fault(str(folder), f"{what}: {', '.join(sorted(map(str, told[key]))[:3])}.", _AGAIN)
        for key, what in (("missing_keys", "lacks tensors"), ("unexpected_keys", "has tensors its config lacks"),
                          ("mismatched_keys", "has tensors of other shapes than its config says"))
        if told.get(key)
    ]  # fmt: skip
    return ({}, faults) if faults else plain_state(folder.name, found.state_dict())


def _object(path: Path) -> tuple[dict[str, Any], list[Fault]]:
    where = f"{path.parent.name}/{path.name}"
    try:
        if is_special(path):
            raise OSError("no file")
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        return {}, [Fault(where, "cannot be read.", _AGAIN)]
    except (ValueError, RecursionError):
        found = None
    return (found, []) if isinstance(found, dict) else ({}, [Fault(where, "is no JSON object.", _AGAIN)])
