"""A judge made of any sequence classifier with safetensors weights: its probability of the label
that is harm.

Which label that is, is asked and never guessed: names such as "LABEL_1" say nothing, and "neutral"
is harm to nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.errors import Fault, RequestError, refusal, unknown
from engine.core.files import sha256_of
from engine.core.types import digest_of
from engine.models.checkpoint import adapter_faults, load_tokenizer, plain_config, tokenizer_missing
from engine.models.completeness import Match, incomplete, loaded, match_of
from engine.models.config_file import (
    CONFIG,
    REGRESSION,
    SEVERAL,
    SIGMOID,
    SOFTMAX,
    SaidOutputs,
    config_or_nothing,
    hashes_beside,
    quantisation_of,
    said_outputs,
)
from engine.models.file_fields import refusals
from engine.models.notes import TOKENIZER, other_weights, unused_tensors
from engine.models.weights import weight_hash, weights_in

import torch  # isort: skip

if TYPE_CHECKING:
    pass

ENDS = "ForSequenceClassification"


@dataclass(frozen=True)
class Found:
    """A classifier before it is loaded, and the place of the label that is harm among its
    outputs."""

    folder: Path
    label: str
    place: int
    weights: str
    digest: str
    """Of weights, configuration, tokenizer and label: equal ones judge alike."""
    outputs: int = 2
    activation: str = "softmax"
    """What makes probabilities of the outputs: softmax (they exclude each other) or sigmoid (each
    for itself)."""
    notes: tuple[str, ...] = ()
    """What the folder holds that is not read."""


def is_classifier(folder: Path) -> bool:
    """Whether a folder holds a model of transformers, and no judge of Detoxify's."""
    return (folder / CONFIG).is_file() and not (folder / "judge.json").is_file()


def find(folder: Path, label: str) -> Found:
    """The classifier in a folder, checked. RequestError with every fault; without a label it lists
    those there are."""
    from transformers import AutoModelForSequenceClassification

    config, faults = plain_config(folder)
    files, shapes, more = weights_in(folder)
    faults += more + tokenizer_missing(folder)
    where = f"judge {folder}"
    said, wrong = said_outputs(config_or_nothing(folder), where)
    labels: list[str] = []
    if config is not None:
        labels = list(said.labels or (config.id2label[at] for at in sorted(config.id2label)))
    if len(set(labels)) < len(labels):
        fix = "Give each output a name of its own in config.json."
        wrong.append(Fault(where, "names two outputs alike.", fix))
    faults += adapter_faults(folder, shapes)
    for name in (CONFIG, TOKENIZER):
        # A judge obeys what says what makes probabilities.
        fields = config_or_nothing(folder, name)
        fields.pop("function_to_apply", None)
        faults += refusals(name, fields, name)
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
    weights = weight_hash(files)
    default = SIGMOID if len(labels) == 1 or said.problem == SEVERAL else SOFTMAX
    named = [] if said.activation == default else [said.activation]
    return Found(
        folder,
        label,
        labels.index(label),
        weights,
        digest_of([weights, beside, label, *named]),
        len(labels),
        said.activation,
        tuple(filter(None, [other_weights(folder, files), unused_tensors(match.unexpected)])),
    )


class ClassifierJudge:
    """A loaded classifier with the face of a Detoxify: `tokenizer`, `model`, `device`,
    `predict`."""

    def __init__(self, found: Found) -> None:
        from transformers import AutoModelForSequenceClassification

        where = f"judge {found.folder}"
        model, match = loaded(
            AutoModelForSequenceClassification, found.folder, where, dtype=torch.float32
        )
        if match.missing:
            what = (
                f"lacks {len(match.missing)} tensors, the first is {match.missing[0]}: they would"
                " be random."
            )
            raise refusal(where, what, "Use a classifier that was trained.")
        self.tokenizer = load_tokenizer(found.folder, padding_side="right")
        self.tokenizer.model_max_length = _longest(model, self.tokenizer)
        model.config.pad_token_id = self.tokenizer.pad_token_id
        self.model, self.place, self.device = model.eval().requires_grad_(False), found.place, "cpu"
        self.activation = found.activation

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


def _probability_faults(where: str, said: SaidOutputs, outputs: int) -> list[Fault]:
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
