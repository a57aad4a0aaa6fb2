"""Other checkpoints beside the audited model: found, and checked to cut text into the very same
tokens."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from engine.audit.fields import attempt
from engine.core.errors import Fault, RequestError
from engine.core.files import in_full
from engine.core.types import Corpus, PromptSet
from engine.core.words import axis_name
from engine.tracks.language_models import words
from engine.tracks.language_models.perplexity import LONGEST, published_length

MUCH = 20_000
"""Characters of the text for perplexity that both tokenizers cut."""


def others_of(asked: Sequence[str]) -> tuple[Any, ...]:
    """What the checkpoints asked for are (`ModelInfo`), no weights loaded; a hub name may end in
    @REVISION."""
    from engine.models.load_language_model import inspect_model  # loads torch

    found, faults = [], []
    for name in asked:
        whole, _, revision = name.rpartition("@")
        if os.path.exists(in_full(name)) or not whole:
            whole, revision = name, ""
        wrong: list[Fault] = []
        found.append(attempt(partial(inspect_model, whole, revision or None, as_arm=True), wrong))
        faults += [Fault(f"against {name}: {one.where}", one.what, one.fix) for one in wrong]
    if faults:
        raise RequestError(faults)
    return tuple(found)


def methods_of(others: Iterable[Any]) -> list[str]:
    """What each checkpoint is called as a method: the last part of its name. Where two are called
    the same or nothing, a piece of the hash of its weights.
    """
    ends = [re.sub(r"[^A-Za-z0-9._-]+", "-", Path(one.name).name).strip("-.") for one in others]
    own = [
        end if end and ends.count(end) == 1 else f"{end or 'model'}-{one.weight_hash[:6]}"
        for end, one in zip(ends, others, strict=True)
    ]
    return [f"{words.AGAINST_PREFIX}{name}" for name in own]


def saved_by(other: Any, model: Any) -> float:
    """Share of the model's bytes that the other checkpoint saves, as the files of both keep them
    (a GGUF model as dequantised); 0 where it is no smaller."""
    return round(max(0.0, 1 - other.n_bytes / (model.n_parameters * model.width)), 3)


def faults_against(
    request: Any, model: Any, others: Sequence[Any], prompts: PromptSet, corpus: Corpus
) -> list[Fault]:
    """Why checkpoints cannot be compared with the model on these prompts and this text; all of
    it."""
    faults = []
    known = [(one.weight_hash, one.folder) for one in others]
    for place, other in enumerate(others):
        where = f"against {other.name}"
        if known[place] in known[:place]:
            faults.append(Fault(where, "is named twice.", "Name it once."))
        if not _reads_as_long(request, model, other):
            what = (
                f"reads {other.n_positions} tokens, {model.name} {model.n_positions}: windows of"
                " text would not be the same."
            )
            fix = "Compare a checkpoint that reads texts as long, in windows of the same length."
            faults.append(Fault(where, what, fix))
        if why := _parts_at(model, other, prompts, corpus):
            what = f"cuts text into other tokens than {model.name}: {why}."
            fix = (
                "Noise, perplexity and divergence go token by token: compare checkpoints that share"
                " the tokenizer."
            )
            faults.append(Fault(where, what, fix))
    return faults


def _reads_as_long(request: Any, model: Any, other: Any) -> bool:
    """Whether it reads texts as long as the model is given."""
    need = min(LONGEST, model.n_positions)
    if request.published_perplexity:
        same = published_length(model.n_positions) == published_length(other.n_positions)
        need = 0 if same else other.n_positions + 1
    return bool(other.n_positions >= max(need, request.max_prompt_tokens + request.max_new_tokens))


def _parts_at(model: Any, other: Any, prompts: PromptSet, corpus: Corpus) -> str:
    """Where the two tokenizers part, in words; "" where they never do."""
    from engine.models.checkpoint import PROBE, load_tokenizer

    both = [(load_tokenizer(each.folder), each) for each in (model, other)]
    known, new = (tokens.get_vocab() for tokens, _ in both)
    if known != new:
        apart = sum(known.get(token) != new.get(token) for token in {*known, *new})
        return (
            f"{apart} entries of the two vocabularies differ ({len(known)} and {len(new)} entries)"
        )
    ends = [sorted({tokens.eos_token_id, *each.more_ends} - {None}) for tokens, each in both]
    if ends[0] != ends[1]:
        return f"the tokens that end a text are {ends[0]} and {ends[1]}"
    texts = [PROBE, corpus.text[:MUCH], *prompts.table["text"].drop_duplicates().tolist()]
    rows = [tokens(texts, verbose=False)["input_ids"] for tokens, _ in both]
    for text, left, right in zip(texts, *rows, strict=True):
        if left != right:
            return f"{text[:60]!r} is {len(left)} and {len(right)} tokens, or others of them"
    return ""


# Subgroups that the model is never told about: their prompts are cut before they name the group,
# its tokenizer has no tokens for the name, or the prompts are those of other subgroups too.


NAMED = 3
"""Subgroups that a fault names."""
FIRST = 50
"""Prompts of a subgroup that are looked at first; all others only where these lose their group."""
MOST = 2000
"""Prompts of an axis whose length is looked at."""


def lost_groups(
    tokenizer: Any, prompts: pd.DataFrame, axes: Sequence[str], limit: int
) -> list[Fault]:
    """One fault per axis and cause with subgroups whose descriptor no prompt has left: the cut at
    `limit` tokens takes it, or the tokenizer does.

    Whatever such a model writes, it was never told which subgroup it writes about. Prompts without
    a descriptor cannot be told; loads the tokenizer's side of torch only.
    """
    mine = prompts[prompts["axis"].isin(axes)]
    named = mine["descriptor"] != ""
    lost: dict[tuple[str, bool], dict[str, int]] = {}
    for (axis, subgroup), rows in mine[named].groupby(["axis", "subgroup"]):
        if _lost(tokenizer, rows.head(FIRST), limit) and _lost(tokenizer, rows, limit):
            unread = _lost(tokenizer, rows.head(FIRST), None)
            lost.setdefault((str(axis), unread), {})[str(subgroup)] = len(rows)
    faults = [
        _fault(axis, names, None if unread else limit) for (axis, unread), names in lost.items()
    ]
    for axis, rows in mine[~named].groupby("axis"):
        faults += _alike(tokenizer, str(axis), rows, limit)
    return faults


def _alike(tokenizer: Any, axis: str, rows: pd.DataFrame, limit: int) -> list[Fault]:
    """A fault for subgroups all of whose prompts, as the model reads them, are prompts of other
    subgroups too."""
    from engine.models.decode import token_rows

    read = [tuple(ids) for ids in token_rows(tokenizer, rows["text"].tolist(), limit)]
    groups = rows.assign(read=read).groupby("read")["subgroup"]
    shared = (groups.transform("nunique") > 1).groupby(rows["subgroup"]).all()
    if not (names := shared.index[shared].astype(str).tolist()):
        return []
    what = (
        f"the first {limit} tokens of every prompt of {', '.join(names[:NAMED])} also begin a "
        "prompt of another subgroup."
    )
    return [Fault(axis, what, "Allow more prompt tokens, or give prompts that name their group.")]


def cut_prompts(
    tokenizer: Any, prompts: pd.DataFrame, axes: Sequence[str], limit: int
) -> tuple[str, ...]:
    """A sentence for every axis with prompts of which the model reads the first `limit` tokens
    only."""
    from engine.models.decode import token_rows

    said = []
    for axis in axes:
        texts = prompts.loc[prompts["axis"] == axis, "text"].head(MOST).tolist()
        if cut := sum(len(ids) > limit for ids in token_rows(tokenizer, texts, None)):
            said.append(
                f"{axis_name(axis)}: {cut:,} of {len(texts):,} prompts are longer than {limit}"
                " tokens: their ends are not read. More prompt tokens keep them."
            )
    return tuple(said)


def unread_cue(tokenizer: Any) -> tuple[str, ...]:
    """A sentence where the tokenizer has no tokens for words of the cue to reason, else none."""
    from engine.models.decode import CUE, cue_tokens

    ids = cue_tokens(tokenizer)
    unknown = ids.count(tokenizer.unk_token_id)
    return (words.unread_cue(CUE.strip(), unknown, len(ids)),) if unknown else ()


def _fault(axis: str, names: dict[str, int], limit: int | None) -> Fault:
    """names: how many prompts each subgroup has; limit: None where they are lost without a cut."""
    shown = ", ".join(list(names)[:NAMED])
    shown += f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    every = f"all {sum(names.values())} prompts of {shown}"
    if limit is None:
        what = (
            f"the tokenizer has no tokens for the group in {every}: the model would never read it."
        )
        fix = "Give other words for it, or a tokenizer that belongs to the model."
        return Fault(axis, what, fix)
    what = f"{every} are cut to {limit} tokens before they name the group."
    return Fault(axis, what, "Allow more prompt tokens, or put the group nearer to the start.")


def _lost(tokenizer: Any, rows: pd.DataFrame, limit: int | None) -> bool:
    """Whether some of these prompts name their descriptor, and none still does after the cut."""
    from engine.models.decode import token_rows

    read = [
        _bare(tokenizer.decode(ids)) for ids in token_rows(tokenizer, rows["text"].tolist(), limit)
    ]
    named = [_bare(name) for name in rows["descriptor"]]
    shown = [name in _bare(whole) for name, whole in zip(named, rows["text"], strict=True)]
    return any(shown) and not any(
        name in text for name, text, there in zip(named, read, shown, strict=True) if there
    )


def _bare(text: str) -> str:
    return text.lower().replace(" ", "")
