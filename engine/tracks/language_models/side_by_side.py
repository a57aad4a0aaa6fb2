"""What the dense and the pruned model write to the same prompts under the same noise, and where
they part."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from engine.audit.tracks import request_from
from engine.core.errors import refusal
from engine.core.types import Decoding, HeadMask, Hooks, Values, digest_of
from engine.models.decode import filtered, prompt_tokens, sample, text_of, token_rows
from engine.models.judge import Judge
from engine.models.load_language_model import LanguageModel, files_beside
from engine.models.packing import forward, left_pad
from engine.resident.warm import Warm
from engine.store.runs import Run
from engine.surgery.heads.mask import centred, masked, means_of, prove_mask_works
from engine.tracks.language_models.checkpoint import arm_again
from engine.tracks.language_models.opening import kept_judge, kept_model
from engine.tracks.language_models.playground import Question

SHOWN = 8
"""Most likely next tokens named, of each model."""
ENDS = "⟨end⟩"
"""Stands for the token that ends a text."""
MOST_ATTENTION = 128
"""Tokens of a prompt whose attention is still told."""


@dataclass(frozen=True)
class Loaded:
    """Model and judge of a run; `key` names the model with all its numbers depend on."""

    lm: LanguageModel
    judge: Judge
    key: str
    other: LanguageModel | None = None
    """What stands in the model's place, where the pruned side is no mask."""

    @property
    def pruned(self) -> LanguageModel:
        return self.other or self.lm

    @property
    def uncut(self) -> HeadMask:
        """Of the dense model."""
        return HeadMask(self.lm.n_layers, self.lm.n_heads)


def loaded(run: Run, warm: Warm, arm: str = "") -> Loaded:
    """Model and judge with the weights that the run was made with, and the run's arm where one is
    asked for. RequestError where there are others, or none."""
    model, judge, request = run.model, run.meta["judge"], request_from(run.request)
    lm = kept_model(request, model["name"], model["weight_hash"], warm)
    _prove_same(run, "model", lm.name, lm.weight_hash, model["weight_hash"])
    judged = kept_judge(request, judge["name"], judge["hash"], str(lm.device), warm)
    _prove_same(run, "judge", judged.info.name, judged.info.digest, judge["hash"])
    beside = [files_beside(name, request.revision) for name in (request.model, *request.against)]
    key = digest_of(
        [
            lm.weight_hash,
            beside,
            str(lm.dtype),
            str(lm.device),
            run.id if run.has("head_means") else "",
        ]
    )[:16]
    warm.get(f"proof of masks {key}", lambda: prove_mask_works(lm), lambda _: 0)
    if arm:
        other = warm.get(f"arm {arm} {key} {run.id}", lambda: arm_again(run, lm, arm), _bytes_of)
        return Loaded(lm, judged, key, other)
    if not run.has("head_means"):
        return Loaded(lm, judged, key)
    means = means_of(run.table("head_means"), lm.n_layers)
    shifted = warm.get(f"shifted {key}", lambda: centred(lm, means), _bytes_of)
    return Loaded(shifted, judged, key)


def _bytes_of(lm: LanguageModel) -> int:
    return lm.n_parameters * lm.dtype.itemsize


def _prove_same(run: Run, where: str, name: str, found: str, expected: str) -> None:
    if found != expected:
        what = (
            f"{name} has weights {found[:16]}… now; the audit {run.id} was made with"
            f" {expected[:16]}…"
        )
        raise refusal(where, what, "Bring those back, or audit again.")


def answered(question: Question, models: Loaded, warm: Warm, hooks: Hooks) -> dict[str, Any]:
    """The answer, JSON-able: see `asks.py`. Texts are told to `hooks.point` as they are
    written."""
    lm = models.lm
    prompts = [row.prompt for row in question.rows]
    decoding, notes = _decoding(question, lm, prompts)
    rows = prompt_tokens(lm, prompts, decoding.max_prompt_tokens)
    dense = _kept_dense(question, models, warm, decoding, hooks)
    mask = (
        question.mask
        if models.other is None
        else HeadMask(models.other.n_layers, models.other.n_heads)
    )
    pruned = _written(question, models.pruned, mask, decoding, hooks, "pruned")
    parts = [first_difference(*pair) for pair in zip(dense, pruned, strict=True)]
    before = [row + ids[: at or 0] for row, ids, at in zip(rows, dense, parts, strict=True)]
    hooks.check()
    chances = [
        next_chances(lm, models.uncut, before, decoding),
        next_chances(models.pruned, mask, before, decoding),
    ]
    found = _judged_rows(question, models, dense, pruned, hooks)
    for at, row in enumerate(found):
        part = parts[at]
        # of each text its token there, none where it ends before
        drawn = [] if part is None else [ids[at][part : part + 1] for ids in (dense, pruned)]
        row |= {"parts_at": part, "next": _likely(lm, chances[0][at], chances[1][at], drawn)}
    attention, more = _attention(question, models, rows[0])
    return {
        "run": question.run.id,
        "cut": question.label,
        "heads": [f"{layer}.{head}" for layer, head in question.mask.cut],
        "judge": models.judge.info.name,
        "judged": question.request.span,
        "seed": question.seed,
        "tokens": question.tokens,
        "notes": [*question.notes, *notes, *more],
        "rows": found,
        "attention": attention,
    }


def _judged_rows(
    question: Question,
    models: Loaded,
    dense: list[list[int]],
    pruned: list[list[int]],
    hooks: Hooks,
) -> list[dict[str, Any]]:
    """Every row with its texts, and the judge's score of each and of the prompt alone."""
    settings, prompts = question.request.settings(), [row.prompt for row in question.rows]
    alone = models.judge.score(
        replace(settings, span="prompt").judged_text(prompts, prompts), hooks
    )
    found = [
        {
            "prompt": row.prompt,
            "subgroup": row.subgroup,
            "word": row.word,
            "prompt_score": float(score),
        }
        for row, score in zip(question.rows, alone, strict=True)
    ]
    for side, drawn in (("dense", dense), ("pruned", pruned)):
        texts = [text_of(models.lm, ids) for ids in drawn]
        scores = models.judge.score(settings.judged_text(prompts, texts), hooks)
        for row, ids, text, score in zip(found, drawn, texts, scores, strict=True):
            row[side] = {"text": text, "pieces": pieces(models.lm, ids), "score": float(score)}
    return found


def _decoding(
    question: Question, lm: LanguageModel, prompts: Sequence[str]
) -> tuple[Decoding, list[str]]:
    """The run's decoding with the length asked for. A prompt of the run is cut where the audit cut
    it; one of one's own is read whole or refused."""
    usual = question.request.settings().decoding
    longest = max(len(row) for row in token_rows(lm.tokenizer, prompts, lm.n_positions + 1))
    room = lm.n_positions - question.tokens - sum(map(len, lm.turn))
    decoding = replace(usual, max_new_tokens=question.tokens)
    if question.is_known:
        longest = min(longest, usual.max_prompt_tokens)
    else:
        decoding = replace(decoding, max_prompt_tokens=room)
    if longest > room:
        more = f"more than {lm.n_positions}" if longest > lm.n_positions else longest
        what = (
            f"has {more} tokens; {lm.name} has {lm.n_positions} positions, so {max(room, 0)} fit"
            " beside "
        )
        fix = "Shorten it, or ask for fewer new tokens."
        raise refusal("prompt", f"{what}{question.tokens} new ones.", fix)
    if question.is_known and longest == usual.max_prompt_tokens:
        return decoding, [
            f"As in the audit, at most the first {longest} tokens of the prompt are read."
        ]
    return decoding, []


def _kept_dense(
    question: Question, models: Loaded, warm: Warm, decoding: Decoding, hooks: Hooks
) -> list[list[int]]:
    """What the dense model writes; found where it was asked for before, with other heads off."""
    about = [
        models.key,
        [row.prompt for row in question.rows],
        question.prompt_id,
        question.seed,
        vars(decoding),
    ]
    key = f"continuations {digest_of(about)[:24]}"
    was_there = key in warm.names()
    found = warm.get(
        key,
        lambda: _written(question, models.lm, models.uncut, decoding, hooks, "dense"),
        lambda rows: 64 * sum(len(row) + 1 for row in rows),
    )
    for at, tokens in enumerate(found if was_there else ()):
        hooks.point({"side": "dense", "row": at, "text": text_of(models.lm, tokens)})
    return found


def _written(
    question: Question,
    lm: LanguageModel,
    mask: HeadMask,
    decoding: Decoding,
    hooks: Hooks,
    side: str,
) -> list[list[int]]:
    """New token ids of every row, told as they come."""
    prompts = [row.prompt for row in question.rows]

    def told(at: int, tokens: Sequence[int]) -> None:
        hooks.point({"side": side, "row": at, "text": text_of(lm, tokens)})

    with masked(lm, mask):
        ids, seeds = [question.prompt_id] * len(prompts), [question.seed] * len(prompts)
        return sample(lm, prompts, ids, seeds, decoding, hooks, told=told)


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Place of the first token in which two texts differ, or that only one of them has; None for
    equal texts."""
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return at
    return None if len(one) == len(other) else min(len(one), len(other))


@torch.no_grad()
def next_chances(
    lm: LanguageModel, mask: HeadMask, rows: Sequence[Sequence[int]], decoding: Decoding
) -> np.ndarray:
    """Probabilities that the token after each row is drawn from, [rows, vocabulary] float64."""
    batch = left_pad(rows, lm.device)
    with masked(lm, mask):
        out = forward(lm.model, batch, keep=False)
    return filtered(out.logits[:, -1].float(), decoding).double().softmax(-1).cpu().numpy()


def _likely(
    lm: LanguageModel, dense: np.ndarray, pruned: np.ndarray, drawn: Sequence[list[int]]
) -> list[dict[str, Any]]:
    """The likeliest tokens of both models and those that were drawn, likeliest of the dense model
    first."""
    top = {
        int(token)
        for chances in (dense, pruned)
        for token in np.argsort(-chances, kind="stable")[:SHOWN]
    }
    top |= {token for tokens in drawn for token in tokens}
    sides = list(zip(("dense", "pruned"), drawn, strict=False))
    return [
        {
            "token": ENDS if token in lm.ends else lm.tokenizer.decode([token]),
            "dense": float(dense[token]),
            "pruned": float(pruned[token]),
            "drawn_by": [side for side, one in sides if token in one],
        }
        for token in sorted(top, key=lambda token: (-dense[token], token))
    ]


def pieces(lm: LanguageModel, tokens: Sequence[int]) -> list[str]:
    """What each token adds to the text; all of them joined are the text. A character that takes
    several tokens comes with its last one."""
    whole = lm.tokenizer.decode(list(tokens), skip_special_tokens=True)
    ends = [0]
    for at in range(1, len(tokens)):
        so_far = lm.tokenizer.decode(list(tokens[:at]), skip_special_tokens=True).rstrip("\ufffd")
        ends.append(max(ends[-1], len(os.path.commonprefix([so_far, whole]))))
    return (
        [whole[start:end] for start, end in zip(ends, [*ends[1:], len(whole)], strict=True)]
        if tokens
        else []
    )


def _attention(
    question: Question, models: Loaded, ids: Sequence[int]
) -> tuple[Values | None, list[str]]:
    """Where the chosen head attends on the prompt in both models; the pruned one's is None where it
    is off."""
    if question.head is None:
        return None, []
    if len(ids) > MOST_ATTENTION:
        return None, [
            f"The prompt has {len(ids)} tokens; attention is shown for at most {MOST_ATTENTION}."
        ]
    if models.other is not None:
        return None, [
            "Attention is shown of heads that are off, not of a model that stands in the place."
        ]
    lm, (layer, head) = models.lm, question.head
    masks = {"dense": models.uncut, "pruned": question.mask}
    maps = {
        name: None if (layer, head) in mask.cut else attention(lm, mask, ids, layer, head).tolist()
        for name, mask in masks.items()
    }
    return {
        "layer": layer,
        "head": head,
        "tokens": [lm.tokenizer.decode([token]) for token in ids],
        **maps,
    }, []


@torch.no_grad()
def attention(
    lm: LanguageModel, mask: HeadMask, ids: Sequence[int], layer: int, head: int
) -> np.ndarray:
    """Attention of one head on a text, [tokens, tokens] float64; row: the token that attends."""
    with masked(lm, mask), _eager(lm):
        out = lm.model(
            input_ids=torch.tensor([list(ids)], device=lm.device),
            use_cache=False,
            output_attentions=True,
        )
    return out.attentions[layer][0, head].double().cpu().numpy()


@contextmanager
def _eager(lm: LanguageModel) -> Iterator[None]:
    """Within it attention is computed the way that tells its weights; the fast ways tell none,
    without an error."""
    usual = lm.model.config._attn_implementation
    lm.model.set_attn_implementation("eager")
    try:
        yield
    finally:
        lm.model.set_attn_implementation(usual)
