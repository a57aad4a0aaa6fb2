"""Texts of a model with heads off, from texts that the dense model drew: read at once, drawn only where they part.

Both draw with the same noise, so most of their tokens are the same. A draft is read with the heads off and every token
up to the first that the noise would not choose again is taken; that one is known as well. What follows is drawn, or
read again behind it first. The texts are those of drawing from the start, to the token: reading and drawing round
differently, so a text with a token that leads its runner-up by so little that rounding could turn it is drawn anew.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from engine.core.types import Decoding, HeadMask, Hooks
from engine.models import runtime
from engine.models.decode import Begun, check_finite, draw_on, filtered, together
from engine.models.load_language_model import LanguageModel
from engine.models.noise import winners
from engine.models.room import positions_at_once, tokens_at_once
from engine.surgery.heads import kv_cache
from engine.surgery.heads.mask import claimed, masked, masked_rows
from engine.surgery.heads.one_pass_gelu import one_pass_gelu
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
TIE = 2.0**8
"""As NEAR, of the same logits drawn in another batch: 3e-5 in float32, where leads were at most 1e-5 apart. Such a text
is drawn with those that plain drawing draws it with, for then every bit is the same."""
CPU_READINGS, GPU_READINGS = 1, 3
"""How often a draft is read before the rest is drawn: where drawing waits for memory, reading costs next to nothing. On
a CPU a second reading took as long as it saved."""


@dataclass
class Draft:
    """A text on its way: tokens drafted, how many of them the masked model is known to draw, and whether one of those
    came near another; known: keys and values of what it begins with."""

    tokens: list[int]
    sure: int = 0
    near: bool = False
    known: kv_cache.Known | None = None

    def ended(self, most: int, ends: Collection[int]) -> bool:
        """Whether nothing is left to draw; ends: tokens that end a text."""
        return self.sure >= most or (self.sure > 0 and self.tokens[self.sure - 1] in ends)


def near_of(lm: LanguageModel, decoding: Decoding, steps: float = NEAR) -> float:
    """A lead that rounding could turn, of logits over the temperature."""
    return steps * torch.finfo(lm.dtype).eps / min(1.0, decoding.temperature)


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
    found = opened(lm, masks, drafts, decoding)
    read(lm, masks, begun, found, decoding, hooks, shelf(lm, decoding))
    return finished(lm, masks, begun, found, decoding, hooks)


def opened(
    lm: LanguageModel, masks: Sequence[HeadMask], drafts: Sequence[Sequence[int]], decoding: Decoding
) -> list[list[Draft]]:
    """[masks][texts], nothing of which is read; what no text has is left out: tokens beyond the limit or its end."""
    ending, most = lm.ends, decoding.max_new_tokens
    ends = [next((at for at, one in enumerate(tokens, 1) if one in ending), len(tokens)) for tokens in drafts]
    return [[Draft(list(one[: min(at, most)])) for one, at in zip(drafts, ends, strict=True)] for _ in masks]


def shelf(lm: LanguageModel, decoding: Decoding) -> kv_cache.Shelf:
    """Room for the keys and values of what is read and has to be drawn on."""
    return kv_cache.Shelf(lm, decoding.max_prompt_tokens + decoding.max_new_tokens)


def read(
    lm: LanguageModel,
    masks: Sequence[HeadMask],
    begun: Begun,
    found: Sequence[Sequence[Draft]],
    decoding: Decoding,
    hooks: Hooks,
    kept: kv_cache.Shelf,
) -> None:
    """Read these drafts as often as pays; found [masks][texts]. Keys and values of the last reading are kept."""
    times = CPU_READINGS if lm.device.type == "cpu" else GPU_READINGS
    for at in range(times):
        _read_all(lm, masks, begun, found, decoding, hooks, kept if at == times - 1 else None)


def tokens_read(
    lm: LanguageModel, begun: Begun, drafts: Sequence[Sequence[int]], places: Sequence[int] | None = None
) -> int:
    """Tokens that one reading of these drafts takes, padding among them."""
    every = range(len(drafts)) if places is None else places
    texts = [[*begun.prompts[at], *drafts[at]] for at in every]
    return sum(len(batch) * max(len(texts[at]) for at in batch) for batch in batches(texts, _at_once(lm)))


def left(lm: LanguageModel, draft: Draft, decoding: Decoding) -> int:
    """About how many tokens of it have to be drawn: it is as long as what it was drafted from, as far as one knows."""
    if draft.near:
        return len(draft.tokens)
    return 0 if _settled(lm, draft, decoding) else max(1, len(draft.tokens) - draft.sure)


def _read_all(
    lm: LanguageModel,
    masks: Sequence[HeadMask],
    begun: Begun,
    found: Sequence[Sequence[Draft]],
    decoding: Decoding,
    hooks: Hooks,
    kept: kv_cache.Shelf | None,
) -> None:
    """Read all drafts from where they are sure, once."""
    reading = partial(_read, lm, decoding=decoding, hooks=hooks, kept=kept)
    if all(draft.sure == 0 for one in found for draft in one) and all(len(mask.units) == 1 for mask in masks):
        reading(begun, found, masks)
        return
    for mask, drafts in zip(masks, found, strict=True):
        open_ = [at for at, draft in enumerate(drafts) if not _settled(lm, draft, decoding)]
        with masked(lm, mask):
            reading(begun.of(open_), [[drafts[at] for at in open_]], None)


def _settled(lm: LanguageModel, draft: Draft, decoding: Decoding) -> bool:
    """Whether reading it tells nothing more."""
    return draft.near or draft.ended(decoding.max_new_tokens, lm.ends)


def _read(
    lm: LanguageModel,
    begun: Begun,
    found: Sequence[Sequence[Draft]],
    masks: Sequence[HeadMask] | None,
    decoding: Decoding,
    hooks: Hooks,
    kept: kv_cache.Shelf | None,
) -> None:
    """Read one draft of every text for each of `masks`, all equal, or without masks for the model as it is; found
    [masks][texts]."""
    texts = [[*prompt, *draft.tokens] for prompt, draft in zip(begun.prompts, found[0], strict=True)]
    sure = [draft.sure for draft in found[0]]
    first = [len(prompt) + many for prompt, many in zip(begun.prompts, sure, strict=True)]
    size = _at_once(lm)
    left = list(batches(texts, size))
    while left:
        places = left.pop(0)
        hooks.check()

        def attempt(n: int, places: list[int] = places) -> int:
            rows = pad_right([texts[at] for at in places[:n]], [first[at] for at in places[:n]], lm.device)
            drafts = [[one[at] for at in places[:n]] for one in found]
            reader = _Reader(lm, rows, begun.of(places[:n]), [sure[at] for at in places[:n]], decoding)
            if masks is None:
                _read_as_it_is(lm, rows, reader, drafts[0], kept)
            else:
                _read_batch(lm, rows, reader, drafts, masks, max(1, size * n // len(places)), hooks)
            return n

        n = runtime.with_backoff(attempt, len(places))
        left = [places[at : at + n] for at in range(n, len(places), n)] + left


def _at_once(lm: LanguageModel) -> int:
    """Tokens that are read at once."""
    return tokens_at_once(lm, CPU_TOKENS if lm.device.type == "cpu" else GPU_TOKENS)


def _read_as_it_is(
    lm: LanguageModel, rows: Rows, reader: _Reader, drafts: Sequence[Draft], kept: kv_cache.Shelf | None
) -> None:
    """One batch of texts under the mask that is set; what has to be drawn on is put on the shelf."""
    with torch.inference_mode():
        hidden, cache = _hidden(lm, rows.ids, kept is not None)
        reader.take(hidden, [drafts])
        if kept is None:
            return
        open_ = [at for at, draft in enumerate(drafts) if not _settled(lm, draft, reader.decoding)]
        before = [reader.prompts[at] + max(0, drafts[at].sure - 1) for at in open_]  # its last token was not read
        for at, known in zip(open_, kept.put(cache, open_, before), strict=True):
            drafts[at].known = known


def _read_batch(
    lm: LanguageModel,
    rows: Rows,
    reader: _Reader,
    drafts: Sequence[Sequence[Draft]],
    masks: Sequence[HeadMask],
    room: int,
    hooks: Hooks,
) -> None:
    """One batch of texts with one head off each; `room` tokens fit into one stacked pass."""
    units = [mask.cut[0] for mask in masks]
    with claimed(lm), torch.inference_mode():
        layers, width = sorted({layer for layer, _ in units}), max(1, room // rows.ids.numel())
        kept, _ = dense_pass(lm, rows.ids, layers, whole=False)
        for layer in layers:
            mine = [at for at, unit in enumerate(units) if unit[0] == layer]
            for start in range(0, len(mine), width):
                hooks.check()
                group = mine[start : start + width]
                hidden = without_heads(lm, kept, layer, [units[at][1] for at in group])
                reader.take(hidden, [drafts[at] for at in group])


def _hidden(lm: LanguageModel, ids: torch.Tensor, keep: bool) -> tuple[torch.Tensor, Any]:
    """What the last block hands on, [rows, tokens, hidden], under the mask that is set; its cache if it shall `keep`
    one."""
    out: dict[str, torch.Tensor] = {}
    handle = last_hidden(lm, out)
    try:
        with one_pass_gelu(lm.model):
            below = lm.adapter.backbone(lm.model)
            found = below(inputs_embeds=lm.model.get_input_embeddings()(ids), use_cache=keep)
    finally:
        handle.remove()
    return out["last"], getattr(found, "past_key_values", None)


class _Reader:
    """What the noise chooses after every token of one batch of drafts; sure: how many of each are not read."""

    def __init__(self, lm: LanguageModel, rows: Rows, begun: Begun, sure: Sequence[int], decoding: Decoding) -> None:
        self.lm, self.decoding, self.near, self.texts = lm, decoding, near_of(lm, decoding), len(rows.ids)
        self.row, self.place = rows.target[:, 1:].nonzero(as_tuple=True)  # place predicts the token after it
        self.wanted = rows.ids[self.row, self.place + 1]
        self.sure, self.prompts = sure, [len(prompt) for prompt in begun.prompts]
        prompts = torch.tensor(self.prompts, device=rows.ids.device)
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
                _settle(draft, self.sure[at], won[span], stop[span], near[span])

    def _won(self, hidden: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        """The token that wins at every position, [positions], and whether another comes near; hidden [positions,
        width]."""
        size, won, leads = positions_at_once(self.lm), [], []
        if not len(hidden):
            return np.zeros(0, np.int64), np.zeros(0, bool)
        for at in range(0, len(hidden), size):
            part = slice(at, at + size)
            logits = self.lm.adapter.logits(self.lm.model, hidden[part]).float()
            check_finite(self.lm, logits)
            one = winners(filtered(logits, self.decoding), self.keys[part], self.steps[part], self.near)
            won.append(one[0].cpu())
            leads.append(one[1].cpu())
        return torch.cat(won).numpy(), torch.cat(leads).numpy() < self.near


def _settle(draft: Draft, start: int, won: np.ndarray, stop: np.ndarray, near: np.ndarray) -> None:
    """Take tokens up to the first that did not win, and the one that did in its place; arrays [tokens from `start` on].
    The same reading may come twice, where memory ran out in the middle of a batch."""
    taken = int(stop.argmax()) + 1 if stop.any() else len(stop)
    draft.near = draft.near or bool(near[:taken].any())
    draft.sure = start + taken
    if taken and stop[taken - 1]:
        draft.tokens[draft.sure - 1] = int(won[taken - 1])


def finished(
    lm: LanguageModel,
    masks: Sequence[HeadMask],
    begun: Begun,
    drafts: Sequence[Sequence[Draft]],
    decoding: Decoding,
    hooks: Hooks,
) -> list[list[list[int]]]:
    """New tokens of every text under each mask: what is not sure is drawn, what came near another token from the
    start; texts of all masks together."""
    one = _Finish(lm, masks, begun, drafts, decoding, hooks)
    every = [(mask, at) for mask, some in enumerate(drafts) for at in range(len(some))]
    new = [(mask, at) for mask, at in every if drafts[mask][at].near]
    open_ = [(mask, at) for mask, at in every if not _settled(lm, drafts[mask][at], decoding)]
    near = near_of(lm, decoding)
    leads = one.draw(open_, near).min(-1, initial=near)
    one.anew([*new, *(place for place, lead in zip(open_, leads, strict=True) if lead < near)])
    return one.found


@dataclass
class _Finish:
    """Texts of all masks on their way to their end; a place is (mask, text)."""

    lm: LanguageModel
    masks: Sequence[HeadMask]
    begun: Begun
    drafts: Sequence[Sequence[Draft]]
    decoding: Decoding
    hooks: Hooks

    def __post_init__(self) -> None:
        self.found = [[draft.tokens[: draft.sure] for draft in one] for one in self.drafts]

    def draw(self, some: Sequence[tuple[int, int]], near: float) -> np.ndarray:
        """Draw these places on to their end; the leads, [places, steps]."""
        tokens, leads = self._drawn(some, [self.found[mask][at] for mask, at in some], near, self.decoding)
        for (mask, at), all_ in zip(some, tokens, strict=True):
            self.found[mask][at] = all_
        return leads

    def anew(self, some: Sequence[tuple[int, int]]) -> None:
        """Draw these places from the start, and those with a tie as plain drawing does."""
        for mask, at in some:
            self.found[mask][at] = []
        tie = near_of(self.lm, self.decoding, TIE)
        ties = [np.flatnonzero(leads < tie) for leads in self.draw(some, tie)]
        last = {place: int(steps[-1]) for place, steps in zip(some, ties, strict=True) if len(steps)}
        batches_ = together(self.lm, self.begun, self.decoding) if last else []
        for mask, mates in itertools.product(range(len(self.masks)), batches_):
            if mine := [at for at in mates if (mask, at) in last]:
                self._settle(mask, mates, mine, 1 + max(last[mask, at] for at in mine))

    def _settle(self, mask: int, mates: Sequence[int], mine: Sequence[int], steps: int) -> None:
        """Draw `mine` in plain drawing's batch up to the last tie. Where that chooses the same as before, what follows
        was right as well; else all is drawn so."""
        some, nothing = [(mask, at) for at in mates], [[] for _ in mates]
        tokens = self._drawn(some, nothing, 0.0, replace(self.decoding, max_new_tokens=steps))[0]
        if any(tokens[mates.index(at)] != self.found[mask][at][:steps] for at in mine):
            tokens = self._drawn(some, nothing, 0.0, self.decoding)[0]
            for at in mine:
                self.found[mask][at] = tokens[mates.index(at)]

    def _drawn(
        self, some: Sequence[tuple[int, int]], drawn: Sequence[list[int]], near: float, decoding: Decoding
    ) -> tuple[list[list[int]], np.ndarray]:
        rest = replace(self.begun.of([at for _, at in some]), drawn=drawn)
        known = [self.drafts[mask][at].known for mask, at in some]
        with masked_rows(self.lm, self.masks) as choose:
            rows = lambda places: choose([some[place][0] for place in places])  # noqa: E731
            past = lambda places: _past(self.lm, rest, known, places, rows)  # noqa: E731
            return draw_on(self.lm, rest, decoding, self.hooks, near=near, batch=rows, past=past)


def _past(
    lm: LanguageModel, begun: Begun, known: Sequence[kv_cache.Known | None], places: Sequence[int], choose: Any
) -> Any:
    """The cache of these texts up to their last token; None where none of them has keys and values that were kept.

    Those that have none are read; `choose` sets the masks of the places it is given.
    """
    texts = {at: [*begun.prompts[at], *begun.drawn[at]][:-1] for at in places}
    rows = {at: one for at in places if (one := known[at]) and one.tokens == len(texts[at])}
    unread = [at for at in places if at not in rows]
    if not rows:
        return None
    if unread:
        choose(unread)
        found = kv_cache.read(lm, [texts[at] for at in unread])
        if found is None:
            return None
        rows.update(zip(unread, found, strict=True))
    return kv_cache.joined([rows[at] for at in places])
