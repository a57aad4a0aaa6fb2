"""Texts of a model with heads off, from texts that the dense model drew: read at once, drawn only where they part.

Both draw with the same noise, so most of their tokens are the same. A draft is read with the heads off and every token
up to the first that the noise would not choose again is taken; that one is known as well. What follows is drawn, or
read again behind it first. The texts are those of drawing from the start, to the token: reading and drawing round
differently, so a text with a token that leads its runner-up by so little that rounding could turn it is drawn anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from engine.core.types import Decoding, HeadMask, Hooks
from engine.models import runtime
from engine.models.decode import Begun, check_finite, draw_on, filtered
from engine.models.load_language_model import LanguageModel
from engine.models.noise import winners
from engine.models.room import positions_at_once, tokens_at_once
from engine.surgery.heads.mask import claimed, masked, masked_rows
from engine.surgery.heads.prefix import (
    CPU_TOKENS,
    GPU_TOKENS,
    Rows,
    batches,
    dense_pass,
    last_hidden,
    pad_right,
    without_heads,
)

NEAR = 2.0**13
"""Steps of the number format (torch.finfo.eps) by which a token must lead: 1e-3 in float32, where the same logits
read and drawn were at most 4e-5 apart."""
CPU_READINGS, GPU_READINGS = 1, 3
"""How often a draft is read before the rest is drawn: where drawing waits for memory, reading costs next to nothing. On
a CPU a second reading took as long as it saved."""


@dataclass
class Draft:
    """A text on its way: tokens drafted, how many of them the masked model is known to draw, and whether one of those
    came near another."""

    tokens: list[int]
    sure: int = 0
    near: bool = False

    def ended(self, most: int, end: int | None) -> bool:
        """Whether nothing is left to draw."""
        return self.sure >= most or (self.sure > 0 and self.tokens[self.sure - 1] == end)


def near_of(lm: LanguageModel) -> float:
    """A lead that rounding could turn."""
    return NEAR * torch.finfo(lm.dtype).eps


def redrawn(
    lm: LanguageModel,
    masks: Sequence[HeadMask],
    begun: Begun,
    drafts: Sequence[Sequence[int]],
    decoding: Decoding,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
) -> list[list[list[int]]]:
    """New tokens of every text under each mask, from the dense model's, `drafts`: [masks][texts], lists of token ids.

    begun: the texts with nothing drawn. Masks of one head share what lies below its layer.
    """
    found = [[Draft(list(tokens)) for tokens in drafts] for _ in masks]
    for _ in range(CPU_READINGS if lm.device.type == "cpu" else GPU_READINGS):
        _read_all(lm, masks, begun, found, decoding, hooks)
    return _finished(lm, masks, begun, found, decoding, hooks)


def _read_all(
    lm: LanguageModel,
    masks: Sequence[HeadMask],
    begun: Begun,
    found: Sequence[Sequence[Draft]],
    decoding: Decoding,
    hooks: Hooks,
) -> None:
    """Read all drafts from where they are sure; found [masks][texts]."""
    reading = partial(_read, lm, decoding=decoding, hooks=hooks)
    if all(draft.sure == 0 for one in found for draft in one) and all(len(mask.units) == 1 for mask in masks):
        reading(begun, found, masks)
        return
    for mask, drafts in zip(masks, found, strict=True):
        open_ = [at for at, draft in enumerate(drafts) if not _settled(lm, draft, decoding)]
        with masked(lm, mask):
            reading(begun.of(open_), [[drafts[at] for at in open_]], None)


def _settled(lm: LanguageModel, draft: Draft, decoding: Decoding) -> bool:
    """Whether reading it tells nothing more."""
    return draft.near or draft.ended(decoding.max_new_tokens, lm.tokenizer.eos_token_id)


def _read(
    lm: LanguageModel,
    begun: Begun,
    found: Sequence[Sequence[Draft]],
    masks: Sequence[HeadMask] | None,
    decoding: Decoding,
    hooks: Hooks,
) -> None:
    """Read one draft of every text for each of `masks`, all equal, or without masks for the model as it is; found
    [masks][texts]."""
    texts = [[*prompt, *draft.tokens] for prompt, draft in zip(begun.prompts, found[0], strict=True)]
    first = [len(prompt) + draft.sure for prompt, draft in zip(begun.prompts, found[0], strict=True)]
    size = tokens_at_once(lm, CPU_TOKENS if lm.device.type == "cpu" else GPU_TOKENS)
    left = list(batches(texts, size))
    while left:
        places = left.pop(0)
        hooks.check()

        def attempt(n: int, places: list[int] = places) -> int:
            rows = pad_right([texts[at] for at in places[:n]], [first[at] for at in places[:n]], lm.device)
            drafts = [[one[at] for at in places[:n]] for one in found]
            reader = _Reader(lm, rows, begun.of(places[:n]), decoding)
            _read_batch(lm, rows, reader, drafts, masks, max(1, size * n // len(places)))
            return n

        n = runtime.with_backoff(attempt, len(places))
        left = [places[at : at + n] for at in range(n, len(places), n)] + left


def _read_batch(
    lm: LanguageModel,
    rows: Rows,
    reader: _Reader,
    drafts: Sequence[Sequence[Draft]],
    masks: Sequence[HeadMask] | None,
    room: int,
) -> None:
    """One batch of texts; `room` tokens fit into one stacked pass."""
    if masks is None:
        with torch.inference_mode():
            reader.take(_hidden(lm, rows.ids), drafts)
        return
    units = [mask.cut[0] for mask in masks]
    with claimed(lm), torch.inference_mode():
        layers, width = sorted({layer for layer, _ in units}), max(1, room // rows.ids.numel())
        kept, _ = dense_pass(lm, rows.ids, layers, whole=False)
        for layer in layers:
            mine = [at for at, unit in enumerate(units) if unit[0] == layer]
            for start in range(0, len(mine), width):
                group = mine[start : start + width]
                hidden = without_heads(lm, kept, layer, [units[at][1] for at in group])
                reader.take(hidden, [drafts[at] for at in group])


def _hidden(lm: LanguageModel, ids: torch.Tensor) -> torch.Tensor:
    """What the last block hands on, [rows, tokens, hidden], under the mask that is set."""
    out: dict[str, torch.Tensor] = {}
    handle = last_hidden(lm, out)
    try:
        lm.model.base_model(inputs_embeds=lm.model.get_input_embeddings()(ids), use_cache=False)
    finally:
        handle.remove()
    return out["last"]


class _Reader:
    """What the noise chooses after every token of one batch of drafts."""

    def __init__(self, lm: LanguageModel, rows: Rows, begun: Begun, decoding: Decoding) -> None:
        self.lm, self.decoding, self.near, self.texts = lm, decoding, near_of(lm), len(rows.ids)
        self.row, self.place = rows.target[:, 1:].nonzero(as_tuple=True)  # place predicts the token after it
        self.wanted = rows.ids[self.row, self.place + 1]
        prompts = torch.tensor([len(prompt) for prompt in begun.prompts], device=rows.ids.device)
        self.steps = self.place + 1 - prompts[self.row]
        self.keys = torch.from_numpy(begun.keys).to(rows.ids.device)[self.row]
        counts = torch.bincount(self.row, minlength=self.texts).cpu().numpy()
        self.ends = np.cumsum(counts)
        self.starts = self.ends - counts

    def take(self, hidden: torch.Tensor, drafts: Sequence[Sequence[Draft]]) -> None:
        """Settle what can be of drafts [times][texts] by what was read, hidden [times · texts, tokens, width]."""
        picked = hidden.view(len(drafts), self.texts, *hidden.shape[1:])[:, self.row, self.place]
        for part, texts in zip(picked, drafts, strict=True):
            won, near = self._won(part)
            stop = won != self.wanted.cpu().numpy()
            for at, draft in enumerate(texts):
                span = slice(self.starts[at], self.ends[at])
                _settle(draft, won[span], stop[span], near[span])

    def _won(self, hidden: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        """The token that wins at every position, [positions], and whether another comes near; hidden [positions,
        width]."""
        size, won, leads = positions_at_once(self.lm), [], []
        for at in range(0, len(hidden), size):
            part = slice(at, at + size)
            logits = self.lm.adapter.logits(self.lm.model, hidden[part]).float()
            check_finite(self.lm, logits)
            one = winners(filtered(logits, self.decoding), self.keys[part], self.steps[part], self.near)
            won.append(one[0].cpu())
            leads.append(one[1].cpu())
        return torch.cat(won).numpy(), torch.cat(leads).numpy() < self.near


def _settle(draft: Draft, won: np.ndarray, stop: np.ndarray, near: np.ndarray) -> None:
    """Take tokens up to the first that did not win, and the one that did in its place; arrays [tokens not yet sure]."""
    taken = int(stop.argmax()) + 1 if stop.any() else len(stop)
    draft.near = bool(near[:taken].any())
    draft.sure += taken
    if taken and stop[taken - 1]:
        draft.tokens[draft.sure - 1] = int(won[taken - 1])


def _finished(
    lm: LanguageModel,
    masks: Sequence[HeadMask],
    begun: Begun,
    drafts: Sequence[Sequence[Draft]],
    decoding: Decoding,
    hooks: Hooks,
) -> list[list[list[int]]]:
    """New tokens of every text under each mask: what is not sure is drawn, what came near another token from the
    start; texts of all masks together."""
    found = [[draft.tokens[: draft.sure] for draft in one] for one in drafts]
    every = [(mask, at) for mask, one in enumerate(drafts) for at in range(len(one))]
    again = [(mask, at) for mask, at in every if drafts[mask][at].near]
    open_ = [(mask, at) for mask, at in every if not _settled(lm, drafts[mask][at], decoding)]

    def draw(some: Sequence[tuple[int, int]], rest: Begun, near: float) -> np.ndarray:
        with masked_rows(lm, masks) as choose:
            rows = lambda places: choose([some[place][0] for place in places])  # noqa: E731
            tokens, leads = draw_on(lm, rest, decoding, hooks, near=near, batch=rows)
        for (mask, at), new in zip(some, tokens, strict=True):
            found[mask][at] = new
        return leads

    rest = replace(begun.of([at for _, at in open_]), drawn=[found[mask][at] for mask, at in open_])
    leads = draw(open_, rest, near_of(lm))
    again += [one for one, lead in zip(open_, leads, strict=True) if lead < near_of(lm)]
    draw(again, begun.of([at for _, at in again]), 0.0)
    return found
