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

from engine.core.errors import Fault, RequestError, said_by, unknown
from engine.core.files import sha256_of
from engine.core.types import digest_of
from engine.models import runtime  # before torch and transformers
from engine.models.checkpoint import TOKENIZER_FILES, adapter_faults, load_tokenizer, plain_config
from engine.models.completeness import Match, incomplete, match_of
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
from engine.models.weights import tensors_in, weight_files, weight_hash

import torch  # isort: skip

if TYPE_CHECKING:
    from transformers import BatchEncoding

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
    return (folder / "config.json").is_file() and not (folder / "judge.json").is_file()


def find(folder: Path, label: str) -> Found:
    """The classifier in a folder, checked. RequestError with every fault; without a label it lists
    those there are."""
    from transformers import AutoModelForSequenceClassification

    config, faults = plain_config(folder)
    files, more = weight_files(folder)
    faults += more + [fault for path in files for fault in tensors_in(path)[1]]
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        faults.append(
            Fault(str(folder), "has no tokenizer.", f"Add one of {', '.join(TOKENIZER_FILES)}.")
        )
    where = f"judge {folder}"
    said, wrong = said_outputs(config_or_nothing(folder), where)
    labels = (
        list(said.labels or (config.id2label[at] for at in sorted(config.id2label)))
        if config is not None
        else []
    )
    if len(set(labels)) < len(labels):
        wrong.append(
            Fault(
                where,
                "names two outputs alike.",
                "Give each output a name of its own in config.json.",
            )
        )
    faults += adapter_faults(folder, [name for path in files for name in tensors_in(path)[0]])
    faults += [
        fault
        for name in (CONFIG, TOKENIZER)
        for fault in refusals(name, _not_obeyed(folder, name), name)
    ]
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
    usual = SIGMOID if len(labels) == 1 or said.problem == SEVERAL else SOFTMAX
    named = (
        [] if said.activation == usual else [said.activation]
    )  # else the digest is that of earlier versions
    digest = digest_of([weights, beside, label, *named])
    notes = tuple(filter(None, [other_weights(folder, files), unused_tensors(match.unexpected)]))
    return Found(
        folder, label, labels.index(label), weights, digest, len(labels), said.activation, notes
    )


def _not_obeyed(folder: Path, name: str) -> dict[str, Any]:
    """The fields of a file but that which says what makes probabilities, which a judge obeys."""
    return {
        field: value
        for field, value in config_or_nothing(folder, name).items()
        if field != "function_to_apply"
    }


class ClassifierJudge:
    """A loaded classifier with the face of a Detoxify: `tokenizer`, `model`, `device`,
    `predict`."""

    def __init__(self, found: Found) -> None:
        from transformers import AutoModelForSequenceClassification
        from transformers.utils import logging

        logging.disable_progress_bar()
        try:
            model, report = AutoModelForSequenceClassification.from_pretrained(
                found.folder,
                dtype=torch.float32,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                output_loading_info=True,
            )
        except (RuntimeError, ValueError, OSError, ImportError) as error:
            if runtime.is_out_of_memory(error):
                raise
            what = f"cannot be loaded: {said_by(error)}."
            raise RequestError(
                Fault(f"judge {found.folder}", what, "Check the checkpoint.")
            ) from error
        if absent := sorted(report["missing_keys"]):
            what = f"lacks {len(absent)} tensors, the first is {absent[0]}: they would be random."
            raise RequestError(
                Fault(f"judge {found.folder}", what, "Use a classifier that was trained.")
            )
        self.tokenizer = load_tokenizer(found.folder, padding_side="right")
        self.tokenizer.model_max_length = _longest(model, self.tokenizer)
        model.config.pad_token_id = self.tokenizer.pad_token_id
        self.model, self.place, self.device = model.eval().requires_grad_(False), found.place, "cpu"
        self.activation = found.activation

    @torch.no_grad()
    def predict(self, texts: Sequence[str]) -> dict[str, list[float]]:
        """Probability of the harm label of each text, under Detoxify's name for it."""
        batch = self.tokenizer(list(texts), return_tensors="pt", truncation=True, padding=True)
        batch = (batch if batch["input_ids"].shape[1] else self._of_nothing(len(texts))).to(
            self.device
        )
        logits = self.model(**batch).logits.float()
        found = torch.sigmoid(logits) if self.activation == SIGMOID else torch.softmax(logits, -1)
        return {"toxicity": found[:, self.place].tolist()}

    def _of_nothing(self, count: int) -> BatchEncoding:
        """Texts without a token, which tokenizers of decoders make of empty ones: each is the
        padding alone."""
        from transformers import BatchEncoding

        ids = torch.full((count, 1), self.model.config.pad_token_id, dtype=torch.long)
        return BatchEncoding({"input_ids": ids, "attention_mask": torch.ones_like(ids)})


def _label_faults(folder: Path, config: Any, labels: Sequence[str], label: str) -> list[Fault]:
    kinds = [str(one) for one in config.architectures or []]
    if not any(one.endswith(ENDS) for one in kinds):
        what = (
            f"holds {' and '.join(kinds) or 'no architecture that is named'}, and no classifier of"
            " texts."
        )
        return [
            Fault(
                f"judge {folder}",
                what,
                f"Give one whose architecture ends in {ENDS}, or a Detoxify judge.",
            )
        ]
    if not label:
        what = (
            "is a classifier, and nobody said which of its labels is harm:"
            f" {', '.join(map(repr, labels[:20]))}."
        )
        return [Fault(f"judge {folder}", what, "Name the label (--judge-label).")]
    return [] if label in labels else [unknown("judge label", label, labels)]


def _probability_faults(where: str, said: SaidOutputs, outputs: int) -> list[Fault]:
    """Why nothing makes probabilities of the outputs."""
    fix = "Give a classifier whose outputs softmax or sigmoid makes probabilities."
    if said.problem == REGRESSION:
        return [Fault(where, "was trained for a regression: its output is no probability.", fix)]
    if said.activation not in (SIGMOID, SOFTMAX):
        return [
            Fault(
                where,
                f"says {said.activation!r} of its outputs, which makes no probabilities.",
                fix,
            )
        ]
    if outputs == 1 and said.activation == SOFTMAX:
        what = (
            "has one output and does not say what it is; transformers trains such a model as a"
            " regression."
        )
        fix = (
            f'If its sigmoid is a probability, set "problem_type": "{SEVERAL}" in its config.json.'
        )
        return [Fault(where, what, fix)]
    return []


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
