"""Other checkpoints beside the audited model: found, and checked to cut text into the very same
tokens."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from engine.core.errors import Fault, RequestError
from engine.core.files import in_full
from engine.core.types import Corpus, PromptSet
from engine.models.quantised import quantisation_of
from engine.tracks.language_models.perplexity import LONGEST, published_length
from engine.tracks.language_models.words import AGAINST_PREFIX

PROBE = (
    "The  nurse's 3.14 \u20ac bill,\n\tna\u00efve caf\u00e9 \u2014 \u4f60\u597d \U0001f600 e\u0301 "
    "HTTP://x.y/?a=1&b=2 </s> <|endoftext|> ..."
)
"""Text on which tokenizers part: blanks, digits, signs, other scripts, joined letters, names of
special tokens."""
MUCH = 20_000
"""Characters of the text for perplexity that both tokenizers cut."""


def others_of(asked: Sequence[str]) -> tuple[Any, ...]:
    """What the checkpoints asked for are (`ModelInfo`), no weights loaded; a hub name may end in
    @REVISION."""
    from engine.models.load_language_model import inspect_model  # loads torch

    found, faults = [], []
    for name in asked:
        whole, _, revision = (
            (name, "", "") if os.path.exists(in_full(name)) else name.rpartition("@")
        )
        whole, revision = (whole, revision) if whole else (revision, "")
        try:
            found.append(inspect_model(whole, revision or None, as_arm=True))
        except RequestError as error:
            faults += [
                Fault(f"against {name}: {one.where}", one.what, one.fix) for one in error.faults
            ]
    if faults:
        raise RequestError(faults)
    return tuple(found)


def methods_of(others: Iterable[Any]) -> list[str]:
    """What each checkpoint is called as a method: by the last part of its name, and where two are
    called the same or nothing, by a piece of the hash of its weights."""
    ends = [re.sub(r"[^A-Za-z0-9._-]+", "-", Path(one.name).name).strip("-.") for one in others]
    own = [
        end if end and ends.count(end) == 1 else f"{end or 'model'}-{one.weight_hash[:6]}"
        for end, one in zip(ends, others, strict=True)
    ]
    return [f"{AGAINST_PREFIX}{name}" for name in own]


def saved_by(other: Any, model: Any) -> float:
    """Share of the model's numbers that the other checkpoint saves, of its bytes where that is
    quantised; 0 where it is no smaller. A number that is kept shorter in a file is loaded like the
    model's own."""
    if not quantisation_of(other.folder):
        return round(max(0.0, 1 - other.n_parameters / model.n_parameters), 3)
    own, its = (
        sum((one.folder / name).stat().st_size for name in one.files) for one in (model, other)
    )
    return round(max(0.0, 1 - its / own), 3)


def faults_against(
    request: Any, model: Any, others: Sequence[Any], prompts: PromptSet, corpus: Corpus
) -> list[Fault]:
    """Why checkpoints cannot be compared with the model on these prompts and this text; all of
    it."""
    faults = []
    hashes = [(one.weight_hash, one.folder) for one in others]
    for place, other in enumerate(others):
        where = f"against {other.name}"
        if hashes.index(hashes[place]) < place:
            faults.append(Fault(where, "is named twice.", "Name it once."))
        faults += _length_faults(where, request, model, other)
        if why := _parts_at(model, other, prompts, corpus):
            what = f"cuts text into other tokens than {model.name}: {why}."
            fix = (
                "Noise, perplexity and divergence go token by token: compare checkpoints that share"
                " the tokenizer."
            )
            faults.append(Fault(where, what, fix))
    return faults


def _length_faults(where: str, request: Any, model: Any, other: Any) -> list[Fault]:
    """Whether it reads texts as long as the model is given."""
    if request.published_perplexity:
        same = published_length(model.n_positions) == published_length(other.n_positions)
        need = 0 if same else other.n_positions + 1
    else:
        need = min(LONGEST, model.n_positions)
    if other.n_positions >= max(need, request.max_prompt_tokens + request.max_new_tokens):
        return []
    what = (
        f"reads {other.n_positions} tokens, {model.name} {model.n_positions}: windows of text would"
        " not be the same."
    )
    return [
        Fault(
            where,
            what,
            "Compare a checkpoint that reads texts as long, in windows of the same length.",
        )
    ]


def _parts_at(model: Any, other: Any, prompts: PromptSet, corpus: Corpus) -> str:
    """Where the two tokenizers part, in words; "" where they never do."""
    from engine.models.checkpoint import load_tokenizer

    one, two = (load_tokenizer(each.folder) for each in (model, other))
    if one.get_vocab() != two.get_vocab():
        known, new = one.get_vocab(), two.get_vocab()
        apart = sum(known.get(token) != new.get(token) for token in {*known, *new})
        return (
            f"{apart} entries of the two vocabularies differ ({len(known)} and {len(new)} entries)"
        )
    ends = [
        sorted({tokens.eos_token_id, *each.more_ends} - {None})
        for tokens, each in ((one, model), (two, other))
    ]
    if ends[0] != ends[1]:
        return f"the tokens that end a text are {ends[0]} and {ends[1]}"
    texts = [PROBE, corpus.text[:MUCH], *prompts.table["text"].drop_duplicates().tolist()]
    rows = [each(texts, verbose=False)["input_ids"] for each in (one, two)]
    for text, left, right in zip(texts, *rows, strict=True):
        if left != right:
            return f"{text[:60]!r} is {len(left)} and {len(right)} tokens, or others of them"
    return ""
