"""Load a text classifier (BERT, DistilBERT, RoBERTa), with its own head or a new one drawn by a
seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engine.core.errors import Fault, RequestError, refusal
from engine.core.types import rng
from engine.models import runtime
from engine.models.checkpoint import (
    ModelInfo,
    inspect_folder,
    is_encoder,
    load_tokenizer,
    named_architecture,
    read_config,
)
from engine.models.completeness import Match, incomplete, loaded, match_of
from engine.models.config_file import (
    CONFIG,
    class_name_faults,
    class_order_faults,
    config_of,
    config_or_nothing,
    said_outputs,
)
from engine.models.load_language_model import fetch
from engine.models.notes import unused_tensors
from engine.models.runtime import refuse_too_large
from engine.models.structure.adapter import Encoder
from engine.models.structure.proofs import proved
from engine.models.transformer import TransformerModel
from engine.models.weights import weights_in

CLASSIFIER = "ForSequenceClassification"
PRETRAINED = "pretrained"
"""A folder beside a fine-tuned classifier: the weights that fine-tuning began with."""

NEW_HEAD = "classification head is new and random"


@dataclass(frozen=True)
class TextModelInfo(ModelInfo):
    """A text model without its weights.

    has_head: its classification head was trained. classes: their names in the order of the outputs,
    () where the checkpoint does not say. pretrained: the folder with the weights that fine-tuning
    began with, where there is one.
    """

    has_head: bool = False
    classes: tuple[str, ...] = ()
    pretrained: Path | None = None
    n_labels: int = 0
    """Numbers that an existing head gives for a text; 0 without a head."""


@dataclass(frozen=True, eq=False)
class TextClassifier(TransformerModel):
    """An encoder with a classification head: eager attention, eval mode, no parameter gradients,
    padding right.

    Training turns gradients on in a copy. max_length: longest text in tokens, special ones
    included. has_head: False where the head is new and was drawn by the seed. notes: sentences that
    a screen must show.
    """

    adapter: Encoder
    classes: tuple[str, ...] = field(kw_only=True)
    max_length: int = field(kw_only=True)
    has_head: bool = field(kw_only=True)
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    def encode(
        self, texts: Sequence[str], texts_b: Sequence[str] | None = None
    ) -> dict[str, Tensor]:
        """What the model reads, by name, [texts, tokens] int64 each, on its device.

        Padded right to the longest, cut at max_length. texts_b: second texts of pairs (the longer
        of a pair is cut first); None where the task has one text.
        """
        found = self._tokens(
            texts,
            texts_b,
            padding=True,
            truncation=True,
            max_length=self.max_length,
            return_tensors="pt",
            return_attention_mask=True,
            return_token_type_ids=True,
        )
        return {name: found[name].to(self.device) for name in self.adapter.input_names}

    def lengths(self, texts: Sequence[str], texts_b: Sequence[str] | None = None) -> np.ndarray:
        """Tokens of each text (or pair) before it is cut, special ones included, [texts] int64."""
        found = self._tokens(
            texts, texts_b, truncation=False, return_attention_mask=False, verbose=False
        )
        return np.array([len(row) for row in found["input_ids"]], dtype=np.int64)

    def logits(self, batch: dict[str, Tensor]) -> Tensor:
        """Logits of an encoded batch, [texts, classes] float32. Gradients flow where the caller
        turned them on."""
        return self.model(**batch).logits.float()

    def _tokens(self, texts: Sequence[str], texts_b: Sequence[str] | None, **how: Any) -> Any:
        return self.tokenizer(list(texts), None if texts_b is None else list(texts_b), **how)


def inspect_text_model(name: str | Path, revision: str | None = None) -> TextModelInfo:
    """Everything about a text model but its weights. RequestError carries all faults. May download
    (hub names)."""
    from transformers import AutoModelForSequenceClassification

    folder, commit = fetch(name, revision)
    plain = inspect_folder(folder, str(name), commit, causal=False)
    config, _ = read_config(folder, causal=False)
    adapter = Encoder.of(config)
    outputs, faults = _head(plain, config, adapter)
    if faults:
        raise RequestError(faults)
    files = [plain.folder / file for file in plain.files]
    match = match_of(config, files, AutoModelForSequenceClassification)
    drawn = () if outputs else (*adapter.head, *adapter.pooler)
    if faults := incomplete(plain.name, _judged(match, adapter, drawn)):
        raise RequestError(faults)
    pretrained = folder / PRETRAINED
    notes = (*plain.notes, *filter(None, [unused_tensors(match.unexpected)]))
    return TextModelInfo(
        **(vars(plain) | {"notes": notes}),
        has_head=outputs > 0,
        classes=said_outputs(config_or_nothing(folder), CONFIG)[0].names if outputs else (),
        pretrained=pretrained if (pretrained / CONFIG).is_file() else None,
        n_labels=outputs,
    )


def is_text_model(name: str | Path, revision: str | None = None) -> bool:
    """Whether a name or folder holds a text classifier, or an encoder that one can be made of. May
    download."""
    folder, _ = fetch(name, revision)
    try:
        plain = config_of(folder)
        model_type, named = plain["model_type"], named_architecture(plain)
    except (RequestError, KeyError):  # reported when the model is loaded
        return False
    return is_encoder(model_type) or named.endswith(CLASSIFIER)


def usual_length(info: TextModelInfo) -> int:
    """Tokens of a text that a model's own tokenizer reads, as far as the model has positions."""
    return min(int(load_tokenizer(info.folder, "right").model_max_length), info.n_positions)


def load_text_classifier(
    name: str | Path,
    classes: Sequence[str],
    *,
    device: str = "auto",
    max_length: int = 128,
    seed: int = 0,
    new_head: bool = False,
    revision: str | None = None,
    dtype: str = "float32",
) -> TextClassifier:
    """Inspect, then load. safetensors only, never code of the checkpoint. RequestError carries all
    faults.

    A checkpoint without a head, or new_head=True, gets a new one: drawn by `seed` alone, the same
    on every machine. max_length is cut down, and said in `notes`, where the model has fewer
    positions. classes: names in the order of the outputs; an existing head must have as many.
    """
    place, names = runtime.pick_device(device), tuple(str(one) for one in classes)
    info = _examined(name, revision, names, max_length, new_head)
    adapter = Encoder.of(_config_for(info.folder, names))
    fresh = new_head or not info.has_head
    kind = runtime.pick_dtype(info.n_parameters, place, dtype)
    refuse_too_large(info.name, info.n_parameters, place, kind, info.n_layers)
    model, notes = _load(info, adapter, names, fresh, seed, kind)
    model = model.to(place).eval().requires_grad_(False)
    tokenizer, config = load_tokenizer(info.folder, "right"), model.config.get_text_config()
    if config.pad_token_id is None:  # decoders answer at the last token that is no padding
        config.pad_token_id = tokenizer.pad_token_id
    adapter = proved(model, adapter, info.name) if adapter.how else adapter
    notes += _notes(info, names, fresh, max_length, seed) + ((adapter.how,) if adapter.how else ())
    return TextClassifier(
        info.name,
        info.revision,
        model,
        tokenizer,
        adapter,
        info.weight_hash,
        place,
        model.dtype,
        classes=names,
        max_length=min(max_length, info.n_positions),
        has_head=not fresh,
        notes=notes,
    )


def save_text_tokenizer(classifier: TextClassifier, folder: Path) -> None:
    """Write the tokenizer, which then says `max_length` too."""
    before = classifier.tokenizer.model_max_length
    classifier.tokenizer.model_max_length = classifier.max_length
    try:
        classifier.tokenizer.save_pretrained(folder)
    finally:
        classifier.tokenizer.model_max_length = before


def _examined(
    name: str | Path,
    revision: str | None,
    classes: tuple[str, ...],
    max_length: int,
    new_head: bool,
) -> TextModelInfo:
    faults = class_name_faults(classes)
    if max_length < 8:
        what = f"{max_length} tokens leave no room for a text."
        faults.append(Fault("max_length", what, "Give 8 or more."))
    try:
        info = inspect_text_model(name, revision)
    except RequestError as error:
        raise RequestError([*error.faults, *faults]) from error
    if info.has_head and not new_head:
        more = ", or draw a new head"
        faults += class_order_faults(classes, info.classes, info.n_labels, info.name, more)
    if faults:
        raise RequestError(faults)
    return info


def _head(plain: ModelInfo, config: Any, adapter: Encoder) -> tuple[int, list[Fault]]:
    """Outputs of the classification head in the checkpoint (0: it has none), and what is wrong with
    it."""
    _, shapes, _ = weights_in(plain.folder)
    named = str((getattr(config, "architectures", None) or [""])[0])
    there = all(any(_is_in(name, (module,)) for name in shapes) for module in adapter.head)
    if not named.endswith(CLASSIFIER) and (named or not there):
        return 0, []
    shape = shapes.get(f"{adapter.outputs}.weight")
    if not there or shape is None or len(shape) != 2:
        what = "names a classification head that the weights do not hold."
        return 0, [Fault(CONFIG, what, "Use a complete checkpoint of one model.")]
    said, faults = said_outputs(config_or_nothing(plain.folder), CONFIG)
    if said.count not in (0, shape[0]):
        what = f"names {said.count} outputs, the head in the weights has {shape[0]}."
        fix = "Set id2label and num_labels to the outputs that it has."
        faults.append(Fault(CONFIG, what, fix))
    return shape[0], faults + replace(said, count=shape[0]).class_faults(CONFIG, "text")


def _load(
    info: TextModelInfo,
    adapter: Encoder,
    classes: tuple[str, ...],
    fresh: bool,
    seed: int,
    dtype: torch.dtype,
) -> tuple[Any, tuple[str, ...]]:
    """The model, and notes about what the checkpoint lacked."""
    from transformers import AutoModelForSequenceClassification

    drawn = (*(adapter.head if fresh else ()), *(() if info.has_head else adapter.pooler))
    model, match = loaded(
        AutoModelForSequenceClassification,
        info.folder,
        info.name,
        None if fresh else [info.folder / name for name in info.files],
        lambda match: _judged(match, adapter, drawn),
        config=_config_for(info.folder, classes),
        dtype=dtype,
        attn_implementation="eager",
        ignore_mismatched_sizes=fresh,  # a head for other classes; anything else is caught below
    )
    attends = model.config._attn_implementation
    if attends != "eager":
        what = f"attends by {attends}, which hands out no attention probabilities."
        fix = "Use a model whose attention can be computed eagerly."
        raise refusal(info.name, what, fix)
    if fresh:
        draw(model, adapter.head, seed)
    if info.has_head or not any(_is_in(name, adapter.pooler) for name in match.missing):
        return model, ()
    draw(model, adapter.pooler, seed)
    return model, (
        f"The checkpoint has no pooler (it is a masked language model): drawn with seed {seed}.",
    )


def _config_for(folder: Path, classes: tuple[str, ...]) -> Any:
    config, _ = read_config(folder, causal=False)
    config.id2label = dict(enumerate(classes))
    config.label2id = {name: place for place, name in enumerate(classes)}
    config.problem_type = "single_label_classification"
    return config


def _judged(found: Match, adapter: Encoder, drawn: Sequence[str]) -> Match:
    """Of a match what is wrong. Names of modules in `drawn` may be missing, they and the outputs
    may have other shapes, and only tensors in layers are ever too many."""
    return Match(
        tuple(name for name in found.missing if not _is_in(name, drawn)),
        tuple(name for name in found.misshapen if not _is_in(name, (*drawn, adapter.outputs))),
        tuple(name for name in found.unexpected if ".layer." in name),
    )


def draw(model: nn.Module, modules: tuple[str, ...], seed: int) -> None:
    """Draw the parameters of these modules, in place: normal weights of the config's width, scales
    of norms one, biases zero."""
    widths = (getattr(model.config, name, None) for name in ("initializer_range", "init_std"))
    width = next(filter(None, widths), 0.02)  # OPT's is init_std
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not _is_in(name, modules):
                continue
            if parameter.dim() < 2:
                parameter.fill_(float(name.endswith(".weight")))  # ModernBERT's head has a norm
                continue
            noise = rng("new classification head", name, seed)
            numbers = noise.standard_normal(tuple(parameter.shape)) * width
            parameter.copy_(torch.from_numpy(numbers))


def _is_in(name: str, modules: Sequence[str]) -> bool:
    return name.startswith(tuple(f"{module}." for module in modules))


def _notes(
    info: TextModelInfo, classes: tuple[str, ...], fresh: bool, max_length: int, seed: int
) -> tuple[str, ...]:
    notes = list(info.notes)
    if fresh:
        why = f"Its {NEW_HEAD} (seed {seed}): "
        notes.append(f"{why}it must be trained before it tells {len(classes)} classes apart.")
    elif info.classes and [*map(str.casefold, info.classes)] != [*map(str.casefold, classes)]:
        notes.append(
            f"The checkpoint calls its classes {', '.join(info.classes)}; here:"
            f" {', '.join(classes)}."
        )
    if max_length > info.n_positions:
        notes.append(
            f"Texts are cut at {info.n_positions} tokens, not {max_length}: the model has no more"
            " positions."
        )
    return tuple(notes)


MOST_UNKNOWN = 0.05
"""Share of tokens that a tokenizer does not know without a note: its own model's texts have hardly
any."""


def unknown_words(
    classifier: TextClassifier, texts: Sequence[str], second: Sequence[str] | None
) -> tuple[str, ...]:
    """A note where the tokenizer knows no token for much of the texts, as that of another model
    does not."""
    tokenizer = classifier.tokenizer
    found = tokenizer([*texts, *(second or ())], add_special_tokens=False, verbose=False)
    tokens = [token for row in found["input_ids"] for token in row]
    share = tokens.count(tokenizer.unk_token_id) / max(1, len(tokens))
    if share <= MOST_UNKNOWN:
        return ()
    what = (
        f"{share:.0%} of the test texts' tokens are {tokenizer.unk_token}, which the model's"
        " tokenizer does not know"
    )
    return (f"{what}: do tokenizer and texts belong to this model?",)


def probabilities_of(
    classifier: TextClassifier,
    texts: Sequence[str],
    second: Sequence[str] | None,
    batch: int = 64,
    check: Callable[[], None] = lambda: None,
    inside: Callable[[float], None] = lambda share: None,
) -> np.ndarray:
    """softmax of the logits of every text, in order, [texts, classes] float32.

    second: second texts of pairs, or None. Texts of similar length go together, for padding is
    work; batches shrink when memory is short.
    """
    lengths = [len(one) + len(other) for one, other in zip(texts, second or texts, strict=True)]
    order = np.argsort(lengths, kind="stable")

    @torch.no_grad()
    def run(size: int) -> np.ndarray:
        found = np.zeros((len(texts), len(classifier.classes)), dtype=np.float32)
        for start in range(0, len(order), size):
            check()
            rows = order[start : start + size]
            inputs = classifier.encode(
                [texts[row] for row in rows], second and [second[row] for row in rows]
            )
            found[rows] = torch.softmax(classifier.logits(inputs), dim=-1).cpu().numpy()
            inside(min(1.0, (start + size) / len(order)))
        return found

    return runtime.with_backoff(run, batch)
