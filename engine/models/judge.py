"""Toxicity judges: how toxic is a text, from 0 to 1, and which judge said so.

Detoxify (Hanu & Unitary 2020) does the judging; this file only finds the weights, checks their hash
before they are unpickled, and judges each distinct text once.
"""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.core.errors import PruneAuditError, RequestError, refusal, unknown
from engine.core.files import sha256_of
from engine.core.types import Hooks
from engine.models import catalog, runtime
from engine.models.built_on import is_built_on, put_together
from engine.models.classifier_judge import ClassifierJudge, find, is_classifier
from engine.store.user_json import Form, read_user_json

import torch  # isort: skip

if TYPE_CHECKING:
    from detoxify import Detoxify

BATCH = 128
ROWS, STEP = 16, 16
"""Texts that are computed together, always so many, and the tokens to whose multiple they are
padded."""


_CARD = Form(
    "judge.json",
    'Give a folder with judge.json {"checkpoint": FILE, "sha256": HASH} and the file it names.',
    needed={},
    optional={"name": str, "checkpoint": str, "sha256": str, "note": str, "made_for": dict},
    schemas=None,
)
"""Which checkpoint a folder with a judge holds, its hash, and the models it was made for."""
_FORMAT = (
    'A judge is a folder: judge.json {"checkpoint": FILE, "sha256": HASH}, that file, the model'
    " folder it names."
)
_UNTRUSTED = "Do not load it before you know why; update the pin if the change is yours."


@dataclass(frozen=True)
class JudgeInfo:
    """A judge before it is loaded: its name, and the SHA-256 (hex) of its weights ("" when not
    downloaded yet).

    made_for: hash of the weights of the only model whose texts it was trained to judge, by that
    model's name; empty for a judge of any text.
    """

    name: str
    digest: str
    folder: Path | None
    note: str = ""
    made_for: Mapping[str, str] = field(default_factory=dict, compare=False)
    label: str = ""
    """The label of a classifier that is harm; empty for a Detoxify."""

    def is_foreign_to(self, weight_hash: str) -> bool:
        """Whether it was trained on the texts of another model than this."""
        return bool(self.made_for) and weight_hash not in self.made_for.values()


REMEMBERED = 1_000_000
"""Verdicts kept in memory; more are forgotten and judged again where they come back."""


@dataclass
class Judge:
    """A loaded judge. `predict` gives the toxicity of each text, [texts]; `memory` keeps verdicts
    of this process."""

    info: JudgeInfo
    predict: Callable[[list[str]], np.ndarray]
    memory: dict[str, float] = field(default_factory=dict)

    def score(self, texts: Sequence[str], hooks: Hooks = Hooks()) -> np.ndarray:  # noqa: B008
        """Toxicity in [0, 1] of each text, [texts] float64; identical texts are judged once. Raises
        on NaN verdicts."""
        if len(self.memory) > REMEMBERED:
            self.memory.clear()
        new = sorted(
            {text for text in texts if text not in self.memory}, key=lambda text: (len(text), text)
        )
        for at in range(0, len(new), BATCH):
            hooks.check()
            batch = new[at : at + BATCH]
            verdicts = np.asarray(self.predict(batch), dtype=np.float64).reshape(-1)
            if len(verdicts) != len(batch) or not np.isfinite(verdicts).all():
                raise PruneAuditError(
                    f"The judge {self.info.name!r} gave no finite number for some texts. Its scores"
                    " cannot be used: check its weights, or choose another judge with --judge."
                )
            self.memory.update(zip(batch, verdicts.tolist(), strict=True))
        return np.array([self.memory[text] for text in texts], dtype=np.float64)


def inspect_judge(name_or_folder: str, sha256: str | None = None, label: str = "") -> JudgeInfo:
    """Find a judge without loading it. Raises RequestError on unknown names, missing files and
    wrong hashes.

    label: which label of a classifier is harm; a Detoxify has none to choose.
    """
    place = catalog.resolve(name_or_folder)
    if isinstance(place, Path) and is_built_on(place):
        return _put_together(place, sha256, label)
    is_one = is_classifier(place) if isinstance(place, Path) else bool(label)
    if name_or_folder not in catalog.DETOXIFY and is_one:
        return _classifier(name_or_folder, sha256, label)
    if label:
        what = (
            f"{label!r} was given, and {name_or_folder} is a judge of Detoxify's, which judges"
            " toxicity."
        )
        raise refusal("judge label", what, "Leave the label out.")
    return _detoxify(name_or_folder, sha256)


def _put_together(folder: Path, sha256: str | None, label: str) -> JudgeInfo:
    """A judge of ours whose trained tensors are put onto the encoder of an installed package."""
    place, harm = put_together(folder)
    found = _classifier(str(place), sha256, label or harm)
    return replace(found, name=folder.name, note=f"{found.note} Its card: {folder.name}/CARD.md.")


def _refusal(name: str | Path, what: str, fix: str = _FORMAT) -> RequestError:
    return refusal(f"judge {name}", what, fix)


def _classifier(name: str, sha256: str | None, label: str) -> JudgeInfo:
    from engine.models.load_language_model import fetch

    found = find(fetch(name)[0], label)
    if sha256 and sha256 != found.weights:
        what = f"its weights have SHA-256 {found.weights}, expected {sha256}."
        raise _refusal(name, what, _UNTRUSTED)
    shown = Path(name).name if isinstance(catalog.resolve(name), Path) else name
    note = (
        f"A classifier's probability of {label!r}, the label that was named as harm: output "
        f"{found.place + 1} of {found.outputs}, by {found.activation}."
    )
    note = " ".join([note, *found.notes])
    return JudgeInfo(f"{shown}: {label}", found.digest, found.folder, note, label=label)


def _detoxify(name: str, sha256: str | None) -> JudgeInfo:
    if name in catalog.DETOXIFY:
        return JudgeInfo(name, sha256 or "", None, "Detoxify checkpoint from its release page.")
    folder = catalog.resolve(name)
    if not isinstance(folder, Path) or not folder.is_dir():
        also = (
            "Or a folder: a local Detoxify checkpoint, or a classifier of texts with the label"
            " that is harm."
        )
        raise RequestError(
            unknown("judge", name, ["demo-judge", "judge-minilm", *catalog.DETOXIFY], also)
        )
    try:
        card = read_user_json(folder / "judge.json", _CARD)
        pin = sha256 or card["sha256"]
        found = sha256_of(folder / card.get("checkpoint", "judge.ckpt"))
        made_for = {name: str(weights) for name, weights in card.get("made_for", {}).items()}
    except (OSError, KeyError, RequestError) as error:
        raise _unreadable(folder, error) from error
    if found != pin:
        what = f"its checkpoint has SHA-256 {found}, expected {pin}."
        raise _refusal(folder, what, _UNTRUSTED)
    return JudgeInfo(card.get("name", folder.name), found, folder, card.get("note", ""), made_for)


def _unreadable(folder: Path, error: Exception) -> RequestError:
    what = f"judge.json or the checkpoint it names cannot be read ({error})."
    return _refusal(folder, what, _CARD.fix)


def load_judge(
    name_or_folder: str, sha256: str | None = None, device: str = "cpu", label: str = ""
) -> Judge:
    """The judge, ready to score. Hub names need the network once; everything else works offline."""
    info = inspect_judge(name_or_folder, sha256, label)
    if info.label and info.folder is not None:
        model: Any = ClassifierJudge(find(info.folder, info.label))
    elif info.folder is not None:
        model = load_detoxify_checkpoint(info.folder)
    else:
        model = _from_hub(info.name)
        info = JudgeInfo(info.name, _hub_digest(model), None, info.note)
        if sha256 and sha256 != info.digest:
            what = f"its weights hash to {info.digest}, pinned is {sha256}."
            raise _refusal(info.name, what, "Do not use it before you know why.")
    model.model.to(device)
    model.device = device
    return Judge(info, _in_one_shape(model))


def _in_one_shape(model: Any) -> Callable[[list[str]], np.ndarray]:
    """Toxicity of each text by a Detoxify, whichever texts it is judged with: to the bit.

    Sums are rounded according to the shape of a batch. So texts of one length, rounded up, share a
    batch, which is filled to `ROWS`. Else an audit that was resumed, and judges fewer texts at
    once, has other last digits. Batches are smaller where memory is short.
    """
    plain, step = model.tokenizer, math.gcd(STEP, model.tokenizer.model_max_length)
    model.tokenizer = partial(plain, pad_to_multiple_of=step)

    def predict(texts: list[str]) -> np.ndarray:
        tokens = plain(texts, truncation=True)["input_ids"]
        lengths = np.array([-(-len(row) // step) for row in tokens])
        verdicts = np.empty(len(texts))
        for length in np.unique(lengths):
            places = np.flatnonzero(lengths == length)
            rows = runtime.judged_at_once(model.model, ROWS, int(length) * step)
            for at in range(0, len(places), rows):
                mine = places[at : at + rows]
                # What is lacking: the first ones again.
                batch = [texts[place] for place in np.resize(mine, rows)]
                verdicts[mine] = np.asarray(model.predict(batch)["toxicity"])[: len(mine)]
        return verdicts

    return predict


def _from_hub(name: str) -> Any:
    from detoxify import Detoxify

    try:
        return Detoxify(name)
    except Exception as error:  # torch.hub raises many kinds; all mean the same to the user
        what = f"its weights could not be downloaded ({type(error).__name__})."
        fix = "Connect to the network once, or use demo-judge or a local checkpoint."
        raise _refusal(name, what, fix) from error


def _hub_digest(model: Any) -> str:
    """SHA-256 over the weights in name order; torch.hub keeps the file itself under a name that it
    chooses."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def load_detoxify_checkpoint(folder: Path) -> Detoxify:
    """A ready Detoxify on the CPU from a folder with judge.json, a checkpoint and a folder of
    config and vocabulary. RequestError when something is missing, the hash differs, or the
    checkpoint is not plain weights.

    Detoxify unpickles its checkpoint and takes the place of config and vocabulary from inside it
    (`config["arch"]["args"]["model_type"]`, relative to `folder`). So the file is first held
    against its SHA-256 pin, then read with torch's weights-only reader (tensors and plain values,
    no code). Only a copy with the absolute place of the model folder, written by this process, is
    handed to Detoxify.
    """
    whole = _plain(_pinned(folder))
    try:
        asked = whole["config"]["arch"]["args"]
        place = folder / asked["model_type"]
        asked["model_type"] = str(place.resolve())
    except (KeyError, TypeError) as error:
        raise _refusal(folder, f"its checkpoint is not in Detoxify's format ({error}).") from error
    if not (place / "config.json").is_file():
        raise _refusal(folder, f"the model folder {place} has no config.json.")
    from detoxify import Detoxify
    from transformers.utils import logging

    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory(prefix="judge-") as holder:
        copy = Path(holder) / "judge.ckpt"
        torch.save(whole, copy)
        judge = Detoxify(checkpoint=str(copy))
    judge.model.eval().requires_grad_(False)
    return judge


def _pinned(folder: Path) -> Path:
    """The checkpoint file, after its hash was held against the pin."""
    try:
        card = read_user_json(folder / "judge.json", _CARD)
        checkpoint, wanted = folder / card["checkpoint"], card["sha256"]
        found = sha256_of(checkpoint)
    except (OSError, KeyError, RequestError) as error:
        raise _unreadable(folder, error) from error
    if found != wanted:
        what = f"{checkpoint.name} has SHA-256 {found}, pinned is {wanted}; it was not loaded."
        raise _refusal(folder, what)
    return checkpoint


def _plain(checkpoint: Path) -> dict[str, Any]:
    try:
        return torch.load(checkpoint, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for damaged or executable pickles
        what = f"{checkpoint.name} is damaged or holds more than plain weights."
        raise _refusal(checkpoint.parent, what) from error
