"""Write a cut classifier and load it again: the base architecture, the history that cuts it, its
weights now.

A folder holds mask.json (what was cut of which model), model.json (classes, image size,
normalisation) and cut.safetensors (the weights after the cut, retrained or not).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from engine.core.errors import Fault, RequestError, refusal, said_by
from engine.core.files import new_folder, write_json
from engine.models.image_processor import processor_of
from engine.models.load_image_classifier import Classifier, config_of, fresh_classifier
from engine.models.state_dicts import state_hash
from engine.models.vision.hub_folders import made_known
from engine.store.user_json import NUMBER, Form, fits, read_user_json
from engine.surgery.filters.graph import OfAny, replayed
from engine.surgery.record import FilterRecord, read_filter_mask, write_mask

WEIGHTS = "cut.safetensors"
MASK = "mask.json"
CARD = "model.json"
_CARD = Form(
    "model card",
    "Export the checkpoint again.",
    needed={"mean": list, "std": list, "weights_sha256": str},
    optional={"target": str, "config": dict, "processor": dict},
    kind="cut",
)


def save_cut_classifier(small: Classifier, record: FilterRecord, folder: str | Path) -> Path:
    """Write mask, card and weights, whole or not at all. RequestError where the folder is not
    empty."""
    state = {
        name: value.detach().cpu().contiguous() for name, value in small.model.state_dict().items()
    }
    card = {
        "schema": 1,
        "kind": "cut",
        "architecture": small.arch,
        "classes": list(small.classes),
        "size": small.size,
        "mean": list(small.mean),
        "std": list(small.std),
        "target": small.target,
        "weights_sha256": state_hash(small.model.state_dict()),
        "base": {"model": record.model, "weight_hash": record.weight_hash},
        **config_of(small),
        "load": "engine.surgery.filters.replay.load_cut_classifier(folder)",
    }
    with new_folder(folder) as draft:
        save_file(state, draft / WEIGHTS)
        (draft / WEIGHTS).chmod(0o644)  # as all files of a store
        write_json(draft / CARD, card)
        write_mask(draft / MASK, record)
    return Path(folder).expanduser()


def is_cut_folder(folder: str | Path) -> bool:
    """Whether a folder holds what save_cut_classifier writes."""
    folder = Path(folder).expanduser()
    return (folder / WEIGHTS).is_file() and (folder / MASK).is_file()


def load_cut_classifier(folder: str | Path, device: str = "auto") -> Classifier:
    """The cut classifier as it was saved. RequestError where something is missing, damaged or does
    not fit."""
    folder = Path(folder).expanduser()
    record = read_filter_mask(folder / MASK)
    card = _read_card(folder / CARD)
    if card.get("config"):
        made_known(card["config"])
    base = fresh_classifier(record.architecture, record.classes, record.size, device=device)
    shaped = replayed(base, record.history, record.mask)
    try:
        state = load_file(folder / WEIGHTS)
        shaped.model.load_state_dict({name: value.to(base.device) for name, value in state.items()})
    except OSError as error:
        raise refusal(
            str(folder / WEIGHTS), f"cannot be read ({error}).", "Export it again."
        ) from error
    except (
        Exception
    ) as error:  # safetensors and torch raise several kinds for damaged or foreign files
        what = f"does not hold the model that {MASK} describes: {said_by(error)}."
        raise refusal(str(folder / WEIGHTS), what, "Export it again.") from error
    if state_hash(shaped.model.state_dict()) != card["weights_sha256"]:
        what = f"does not have the hash that {CARD} names: it was damaged or exchanged."
        raise refusal(str(folder / WEIGHTS), what, "Export it again.")
    shaped.model.eval().requires_grad_(False)
    return replace(
        shaped,
        name=str(folder),
        mean=tuple(card["mean"]),
        std=tuple(card["std"]),
        target=str(card["target"]),
        processor=card["processor"],
        weight_hash=record.weight_hash,
        notes=(),
    )


def _read_card(path: Path) -> dict[str, Any]:
    card = read_user_json(path, _CARD)
    if not all(_three_numbers(card[name]) for name in ("mean", "std")):
        raise refusal(str(path), "is missing or no model card.", _CARD.fix)
    said, faults = card.get("processor"), list[Fault]()
    if said:
        card["processor"], faults = processor_of(said, None, f"{path}: processor")
    if faults:
        raise RequestError(faults)
    return {"target": "", "processor": None, **card}


def _three_numbers(value: Any) -> bool:
    return len(value) == 3 and all(fits(one, NUMBER) for one in value)


def same_weights(one: OfAny, other: OfAny) -> bool:
    """Whether two classifiers hold the same tensors, bit for bit."""
    first, second = one.model.state_dict(), other.model.state_dict()
    return first.keys() == second.keys() and all(
        torch.equal(first[name].cpu(), second[name].cpu()) for name in first
    )
