"""Toxicity judges: how toxic is a text, from 0 to 1, and which judge said so.

Detoxify (Hanu & Unitary 2020) does the judging; this file only finds the weights, checks their hash
before they are unpickled, and judges each distinct text once.
"""

from __future__ import annotations

import hashlib
import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from engine.core.errors import Fault, PruneAuditError, RequestError, refusal, unknown
from engine.core.files import sha256_of
from engine.core.types import Hooks, Values, digest_of
from engine.models import catalog, runtime
from engine.models.checkpoint import load_tokenizer, lora_faults, plain_config, tokenizer_missing
from engine.models.completeness import Match, incomplete, loaded, match_of
from engine.models.config_file import (
    CONFIG,
    REGRESSION,
    SEVERAL,
    SIGMOID,
    SOFTMAX,
    ConfiguredOutputs,
    config_or_nothing,
    hashes_beside,
    quantisation_of,
    said_outputs,
)
from engine.models.file_fields import refusals
from engine.models.notes import (
    TOKENIZER,
    is_built_on,
    other_weights,
    put_together,
    unused_tensors,
)
from engine.models.weights import weight_hash, weights_in
from engine.store.user_json import Form, read_user_json

if TYPE_CHECKING:
    from detoxify import Detoxify


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
    place: int = 0
    """Of that label among the outputs."""
    activation: str = SOFTMAX
    """What makes probabilities of the outputs: softmax (they exclude each other) or sigmoid (each
    for itself)."""

    def is_foreign_to(self, weight_hash: str) -> bool:
        """Whether it was trained on the texts of another model than this."""
        return bool(self.made_for) and weight_hash not in self.made_for.values()


# A judge made of any sequence classifier with safetensors weights: its probability of the label
# that is harm.
#
# Which label that is, is asked and never guessed: names such as "LABEL_1" say nothing, and
# "neutral" is harm to nobody.


ENDS = "ForSequenceClassification"


def _classifier(name: str, sha256: str | None, label: str) -> JudgeInfo:
    """The classifier in a folder, checked. RequestError with every fault; without a label it lists
    those there are."""
    from transformers import AutoModelForSequenceClassification

    from engine.models.load_language_model import fetch

    folder = fetch(name)[0]
    config, faults = plain_config(folder)
    files, shapes, more = weights_in(folder)
    faults += more + tokenizer_missing(folder)
    where = f"judge {folder}"
    said, wrong = said_outputs(config_or_nothing(folder), where)
    labels = []
    if config is not None:
        labels = list(said.labels or (config.id2label[at] for at in sorted(config.id2label)))
    if len(set(labels)) < len(labels):
        fix = "Give each output a name of its own in config.json."
        wrong.append(Fault(where, "names two outputs alike.", fix))
    faults += lora_faults(folder, shapes)
    for file in (CONFIG, TOKENIZER):
        # A judge obeys what says what makes probabilities.
        fields = config_or_nothing(folder, file)
        fields.pop("function_to_apply", None)
        faults += refusals(file, fields, file)
    if config is not None:
        wrong += _probability_faults(where, said, len(labels))
        faults += [*_label_faults(folder, config, labels, label), *wrong]
    match = Match()
    if not faults and not quantisation_of(folder):
        match = match_of(config, files, AutoModelForSequenceClassification)
        faults = incomplete(where, replace(match, unexpected=()))
    if faults:
        raise RequestError(list(dict.fromkeys(faults)))
    beside = [sha256_of(path) for path in sorted(folder.glob("*.json"))]
    if not (folder / "tokenizer.json").is_file():  # then others hold the vocabulary
        beside = hashes_beside(folder)
    weights, place = weight_hash(files), labels.index(label)
    if sha256 and sha256 != weights:
        what = f"its weights have SHA-256 {weights}, expected {sha256}."
        raise _refusal(name, what, _UNTRUSTED)
    default = SIGMOID if len(labels) == 1 or said.problem == SEVERAL else SOFTMAX
    named = [] if said.activation == default else [said.activation]
    shown = Path(name).name if isinstance(catalog.resolve(name), Path) else name
    notes = [
        f"A classifier's probability of {label!r}, the label that was named as harm: output "
        f"{place + 1} of {len(labels)}, by {said.activation}.",
        other_weights(folder, files),
        unused_tensors(match.unexpected),
    ]
    return JudgeInfo(
        f"{shown}: {label}",
        digest_of([weights, beside, label, *named]),
        folder,
        " ".join(filter(None, notes)),
        label=label,
        place=place,
        activation=said.activation,
    )


class ClassifierJudge:
    """A loaded classifier with the face of a Detoxify: `tokenizer`, `model`, `device`,
    `predict`."""

    def __init__(self, info: JudgeInfo, folder: Path) -> None:
        from transformers import AutoModelForSequenceClassification

        where = f"judge {folder}"
        model, _ = loaded(
            AutoModelForSequenceClassification,
            folder,
            where,
            None,
            lambda match: Match(match.missing),
            dtype=torch.float32,
        )
        self.tokenizer = load_tokenizer(folder, padding_side="right")
        self.tokenizer.model_max_length = _longest(model, self.tokenizer)
        model.config.pad_token_id = self.tokenizer.pad_token_id
        self.model, self.place, self.device = model.eval().requires_grad_(False), info.place, "cpu"
        self.activation = info.activation

    @torch.no_grad()
    def predict(self, texts: Sequence[str]) -> dict[str, list[float]]:
        """Probability of the harm label of each text, under Detoxify's name for it."""
        batch = self.tokenizer(list(texts), return_tensors="pt", truncation=True, padding=True)
        if not batch["input_ids"].shape[1]:
            # Tokenizers of decoders make no token of empty texts: each is the padding alone.
            padding = torch.full((len(texts), 1), self.model.config.pad_token_id, dtype=torch.long)
            batch.data = {"input_ids": padding, "attention_mask": torch.ones_like(padding)}
        logits = self.model(**batch.to(self.device)).logits.float()
        found = torch.sigmoid(logits) if self.activation == SIGMOID else torch.softmax(logits, -1)
        return {"toxicity": found[:, self.place].tolist()}


def _label_faults(folder: Path, config: Any, labels: Sequence[str], label: str) -> list[Fault]:
    where, kinds = f"judge {folder}", [str(one) for one in config.architectures or []]
    if not any(one.endswith(ENDS) for one in kinds):
        named = " and ".join(kinds) or "no architecture that is named"
        fix = f"Give one whose architecture ends in {ENDS}, or a Detoxify judge."
        return [Fault(where, f"holds {named}, and no classifier of texts.", fix)]
    if not label:
        what = (
            "is a classifier, and nobody said which of its labels is harm:"
            f" {', '.join(map(repr, labels[:20]))}."
        )
        return [Fault(where, what, "Name the label (--judge-label).")]
    return [] if label in labels else [unknown("judge label", label, labels)]


def _probability_faults(where: str, said: ConfiguredOutputs, outputs: int) -> list[Fault]:
    """Why nothing makes probabilities of the outputs."""
    fix = "Give a classifier whose outputs softmax or sigmoid makes probabilities."
    if said.problem == REGRESSION:
        what = "was trained for a regression: its output is no probability."
    elif said.activation not in (SIGMOID, SOFTMAX):
        what = f"says {said.activation!r} of its outputs, which makes no probabilities."
    elif outputs == 1 and said.activation == SOFTMAX:
        what = (
            "has one output and does not say what it is; transformers trains such a model as a"
            " regression."
        )
        fix = (
            f'If its sigmoid is a probability, set "problem_type": "{SEVERAL}" in its config.json.'
        )
    else:
        return []
    return [Fault(where, what, fix)]


def _longest(model: Any, tokenizer: Any) -> int:
    """Tokens that it can read: families that count positions from behind that of the padding have
    fewer than rows."""
    positions = int(getattr(model.config, "max_position_embeddings", 0) or 512)
    spent = [
        one.padding_idx + 1
        for name, one in model.named_modules()
        if name.endswith("position_embeddings") and getattr(one, "padding_idx", None) is not None
    ]
    return max(min(tokenizer.model_max_length, positions - max(spent, default=0), 512), 1)


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
    is_one = bool(label)
    if isinstance(place, Path):  # of transformers, and no judge of Detoxify's
        is_one = (place / CONFIG).is_file() and not (place / "judge.json").is_file()
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
    card, checkpoint, found = _pinned(folder, sha256)
    made_for = {name: str(weights) for name, weights in card.get("made_for", {}).items()}
    return JudgeInfo(card.get("name", folder.name), found, folder, card.get("note", ""), made_for)


def load_judge(
    name_or_folder: str, sha256: str | None = None, device: str = "cpu", label: str = ""
) -> Judge:
    """The judge, ready to score. Hub names need the network once; everything else works offline."""
    info = inspect_judge(name_or_folder, sha256, label)
    if info.label and info.folder is not None:
        model = ClassifierJudge(info, info.folder)
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
    whole = _plain(_pinned(folder)[1])
    try:
        asked = whole["config"]["arch"]["args"]
        place = folder / asked["model_type"]
        asked["model_type"] = os.path.realpath(place)
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


def _pinned(folder: Path, sha256: str | None = None) -> tuple[Values, Path, str]:
    """What judge.json says, the checkpoint file and its hash, which was held against the pin."""
    try:
        card = read_user_json(folder / "judge.json", _CARD)
        checkpoint, wanted = folder / card.get("checkpoint", "judge.ckpt"), sha256 or card["sha256"]
        found = sha256_of(checkpoint)
    except (OSError, KeyError, RequestError) as error:
        what = f"judge.json or the checkpoint it names cannot be read ({error})."
        raise _refusal(folder, what) from error
    if found != wanted:
        what = f"{checkpoint.name} has SHA-256 {found}, expected {wanted}; it was not loaded."
        raise _refusal(folder, what, _UNTRUSTED)
    return card, checkpoint, found


def _plain(checkpoint: Path) -> Values:
    try:
        return torch.load(checkpoint, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for damaged or executable pickles
        what = f"{checkpoint.name} is damaged or holds more than plain weights."
        raise _refusal(checkpoint.parent, what) from error
