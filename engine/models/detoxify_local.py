"""Loads a local Detoxify checkpoint with the real detoxify package, offline, after checking what it
is.

Detoxify unpickles its checkpoint and takes the place of config and vocabulary from inside it. So
the file is first held against its SHA-256 pin, then read with torch's weights-only reader (tensors
and plain values, no code), and only a copy with the absolute place of the model folder, written by
this process, is handed to Detoxify.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.errors import Fault, RequestError
from engine.core.files import sha256_of
from engine.models import runtime  # noqa: F401  (guards the transformers import)
from engine.models.judge_card import read_judge_card

import torch  # isort: skip

if TYPE_CHECKING:
    from detoxify import Detoxify

_FORMAT = (
    'A judge is a folder: judge.json {"checkpoint": FILE, "sha256": HASH}, that file, the model'
    " folder it names."
)


def load_detoxify_checkpoint(folder: Path) -> Detoxify:
    """A ready Detoxify on the CPU from a folder with judge.json, a checkpoint and a folder of
    config and vocabulary.

    `config["arch"]["args"]["model_type"]` of the checkpoint names the model folder relative to
    `folder`. Raises RequestError when something is missing, the hash differs, or the checkpoint is
    not plain weights.
    """
    checkpoint = _pinned(folder)
    loaded = _plain(checkpoint)
    try:
        place = folder / loaded["config"]["arch"]["args"]["model_type"]
        loaded["config"]["arch"]["args"]["model_type"] = str(place.resolve())
    except (KeyError, TypeError) as error:
        raise _fault(folder, f"its checkpoint is not in Detoxify's format ({error}).") from error
    if not (place / "config.json").is_file():
        raise _fault(folder, f"the model folder {place} has no config.json.")
    from detoxify import Detoxify
    from transformers.utils import logging

    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory(prefix="judge-") as holder:
        copy = Path(holder) / "judge.ckpt"
        torch.save(loaded, copy)
        judge = Detoxify(checkpoint=str(copy))
    judge.model.eval().requires_grad_(False)
    return judge


def _pinned(folder: Path) -> Path:
    """The checkpoint file, after its hash was held against the pin."""
    try:
        pin = read_judge_card(folder)
        checkpoint = folder / pin["checkpoint"]
        found = sha256_of(checkpoint)
        wanted = pin["sha256"]
    except (OSError, KeyError, RequestError) as error:
        raise _fault(
            folder, f"judge.json or the checkpoint it names cannot be read ({error})."
        ) from error
    if found != wanted:
        raise _fault(
            folder, f"{checkpoint.name} has SHA-256 {found}, pinned is {wanted}; it was not loaded."
        )
    return checkpoint


def _plain(checkpoint: Path) -> dict[str, Any]:
    try:
        return torch.load(checkpoint, map_location="cpu", weights_only=True)
    except (
        Exception
    ) as error:  # torch raises many kinds for damaged or executable pickles; all mean: do not load
        raise _fault(
            checkpoint.parent, f"{checkpoint.name} is damaged or holds more than plain weights."
        ) from error


def _fault(folder: Path, what: str) -> RequestError:
    return RequestError(Fault(f"judge {folder}", what, _FORMAT))
