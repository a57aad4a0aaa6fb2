"""Texts of a model with one head off, from texts that the dense model drew: read at once, drawn
only where they part.

Both draw with the same noise, so most of their tokens are the same. A draft is read with the head
off. Every token up to the first that the noise would not choose again is taken; that one is known
as well, and what follows is drawn. The texts are those of drawing from the start, to the token.
Reading and drawing round differently, so a text is drawn anew where rounding could exchange a token
and its runner-up.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from engine.core.types import Decoding, HeadMask, Hooks
from engine.models.checkpoint import has_experts, positions_hang_on_length
from engine.models.decode import Begun, check_finite, draw_on, filtered, together, winners
from engine.models.load_language_model import LanguageModel
from engine.models.runtime import positions_at_once, tokens_at_once
from engine.surgery.heads.mask import claimed, masked_rows
from engine.surgery.heads.prefix import (
    CPU_TOKENS,
    GPU_TOKENS,
    Rows,
    by_batches,
    dense_pass,
    pad_right,
    without_heads,
)

NEAR = 2.0**13
"""Steps of the number format (torch.finfo.eps) by which a token must lead: 1e-3 in float32, where
the same logits read and drawn were at most 4e-5 apart."""
TIE = 2.0**8
"""As NEAR, of the same logits drawn in another batch: 3e-5 in float32, where leads were at most
1e-5 apart. Such a text is drawn with those that plain drawing draws it with, for then every bit is
the same."""


@dataclass
class Draft:
    """A text on its way: tokens drafted, how many of them the masked model is known to draw, and
    whether one of those came near another."""

    tokens: list[int]
    sure: int = 0
    near: bool = False

    def ended(self, most: int, ends: Collection[int]) -> bool:
        """Whether nothing is left to draw; ends: tokens that end a text."""
        return self.sure >= most or (self.sure > 0 and self.tokens[self.sure - 1] in ends)


def near_of(lm: LanguageModel, decoding: Decoding, steps: float = NEAR) -> float:
    """A lead that rounding could turn, of logits over the temperature."""
    return steps * torch.finfo(lm.dtype).eps / min(1.0, decoding.temperature)


def can_draft(lm: LanguageModel, begun: Begun, decoding: Decoding) -> bool:
    """Whether reading a text says what drawing it does, but for leads that show it.

    Not so with 16-bit numbers, which round too coarsely. Nor where a last bit turns whom top-k and
    top-p leave out or to which expert a token is sent. Nor where positions hang on how long the
    whole text is, or for a text without a prompt, which has no token to read its first from. Nor
    for models whose passes cannot go on from the middle.
    """
    config = lm.model.config.get_text_config()
    coarse = torch.finfo(lm.dtype).bits < 32
    turns = (
        decoding.top_k > 0
        or decoding.top_p < 1.0
        or has_experts(config)
        or positions_hang_on_length(config)
    )
    return not coarse and not turns and all(begun.prompts) and lm.adapter.splits


def redrawn(
    lm: LanguageModel,
    masks: Sequence[HeadMask],
    begun: Begun,
    drafts: Sequence[Sequence[int]],
    decoding: Decoding,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
) -> list[list[list[int]]]:
    """New tokens of every text under each mask, from the dense model's, `drafts`: [masks][texts],
    lists of token ids.

    begun: the texts with nothing drawn; masks of one head each, which share what lies below its
    layer.
    """
    found = _opened(lm, masks, drafts, decoding)
    _read(lm, masks, begun, found, decoding, hooks)
    return _finished(lm, masks, begun, found, decoding, hooks)


def _opened(
    lm: LanguageModel,
    masks: Sequence[HeadMask],
    drafts: Sequence[Sequence[int]],
    decoding: Decoding,
) -> list[list[Draft]]:
    """[masks][texts], nothing of which is read; what no text has is left out: tokens beyond the
    limit or its end."""
    ending, most = lm.ends, decoding.max_new_tokens
    ends = [
        next((at for at, one in enumerate(tokens, 1) if one in ending), len(tokens))
        for tokens in drafts
    ]
    return [
        [Draft(list(one[: min(at, most)])) for one, at in zip(drafts, ends, strict=True)]
        for _ in masks
    ]


def _read(
    lm: LanguageModel,
    masks: Sequence[HeadMask],
    begun: Begun,
    found: Sequence[Sequence[Draft]],
    decoding: Decoding,
    hooks: Hooks,
) -> None:
    """Read the drafts of every text, which are the same for each mask; found [masks][texts]."""
    texts = [
        [*prompt, *draft.tokens] for prompt, draft in zip(begun.prompts, found[0], strict=True)
    ]
    size = tokens_at_once(lm, CPU_TOKENS if lm.device.type == "cpu" else GPU_TOKENS)

    def work(places: list[int], room: int) -> None:
        rows = pad_right(
            [texts[at] for at in places], [len(begun.prompts[at]) for at in places], lm.device
        )
        drafts = [[one[at] for at in places] for one in found]
        reader = _Reader(lm, rows, begun.of(places), decoding)
        _read_batch(lm, rows, reader, drafts, masks, room, hooks)

    for _ in by_batches(texts, size, work, hooks.check):
        pass


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


class _Reader:
    """What the noise chooses after every token of one batch of drafts."""

    def __init__(self, lm: LanguageModel, rows: Rows, begun: Begun, decoding: Decoding) -> None:
        self.lm, self.decoding, self.near, self.texts = (
            lm,
            decoding,
            near_of(lm, decoding),
            len(rows.ids),
        )
        # Place predicts the token after it.
        self.row, self.place = rows.target[:, 1:].nonzero(as_tuple=True)
        self.wanted = rows.ids[self.row, self.place + 1]
        prompts = torch.tensor(list(map(len, begun.prompts)), device=rows.ids.device)
        self.steps = self.place + 1 - prompts[self.row]
        self.keys = torch.from_numpy(begun.keys).to(rows.ids.device)[self.row]
        counts = torch.bincount(self.row, minlength=self.texts).cpu().numpy()
        self.ends = np.cumsum(counts)
        self.starts = self.ends - counts

    def take(self, hidden: torch.Tensor, drafts: Sequence[Sequence[Draft]]) -> None:
        """Settle what can be of drafts [times][texts] by what was read, hidden [times · texts,
        tokens, width]."""
        picked = hidden.view(len(drafts), self.texts, *hidden.shape[1:])[:, self.row, self.place]
        for part, texts in zip(picked, drafts, strict=True):
            won, near = self._won(part)
            stop = won != self.wanted.cpu().numpy()
            for draft, start, end in zip(texts, self.starts, self.ends, strict=True):
                _settle(draft, won[start:end], stop[start:end], near[start:end])

    def _won(self, hidden: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        """The token that wins at every position, [positions], and whether another comes near;
        hidden [positions, width]."""
        size, won, leads = positions_at_once(self.lm), [], []
        if not len(hidden):
            return np.zeros(0, np.int64), np.zeros(0, bool)
        for at in range(0, len(hidden), size):
            part = slice(at, at + size)
            logits = self.lm.adapter.logits(self.lm.model, hidden[part]).float()
            check_finite(self.lm, logits)
            one = winners(
                filtered(logits, self.decoding), self.keys[part], self.steps[part], self.near
            )
            won.append(one[0].cpu())
            leads.append(one[1].cpu())
        return torch.cat(won).numpy(), torch.cat(leads).numpy() < self.near


def _settle(draft: Draft, won: np.ndarray, stop: np.ndarray, near: np.ndarray) -> None:
    """Take tokens up to the first that did not win, and the one that did in its place; arrays
    [tokens]. The same reading may come twice, where memory ran out in the middle of a batch."""
    taken = int(stop.argmax()) + 1 if stop.any() else len(stop)
    draft.near = draft.near or bool(near[:taken].any())
    draft.sure = taken
    if taken and stop[taken - 1]:
        draft.tokens[taken - 1] = int(won[taken - 1])


def _finished(
    lm: LanguageModel,
    masks: Sequence[HeadMask],
    begun: Begun,
    drafts: Sequence[Sequence[Draft]],
    decoding: Decoding,
    hooks: Hooks,
) -> list[list[list[int]]]:
    """New tokens of every text under each mask: what is not sure is drawn, what came near another
    token from the start; texts of all masks together."""
    found = [[draft.tokens[: draft.sure] for draft in one] for one in drafts]
    one = _Finish(lm, masks, begun, decoding, hooks, found)
    new, open_ = [], []
    for mask, at in itertools.product(range(len(masks)), range(len(begun))):
        if drafts[mask][at].near:
            new.append((mask, at))
        elif not drafts[mask][at].ended(decoding.max_new_tokens, lm.ends):
            open_.append((mask, at))
    near = near_of(lm, decoding)
    leads = one.draw(open_, near).min(-1, initial=near)
    one.anew([*new, *(place for place, lead in zip(open_, leads, strict=True) if lead < near)])
    return one.found


@dataclass
class _Finish:
    """Texts of all masks on their way to their end, found [masks][texts]; a place is (mask,
    text)."""

    lm: LanguageModel
    masks: Sequence[HeadMask]
    begun: Begun
    decoding: Decoding
    hooks: Hooks
    found: list[list[list[int]]]

    def draw(self, some: Sequence[tuple[int, int]], near: float) -> np.ndarray:
        """Draw these places on to their end; the leads, [places, steps]."""
        tokens, leads = self._drawn(
            some, [self.found[mask][at] for mask, at in some], near, self.decoding
        )
        for (mask, at), all_ in zip(some, tokens, strict=True):
            self.found[mask][at] = all_
        return leads

    def anew(self, some: Sequence[tuple[int, int]]) -> None:
        """Draw these places from the start, and those with a tie as plain drawing does."""
        for mask, at in some:
            self.found[mask][at] = []
        tie = near_of(self.lm, self.decoding, TIE)
        ties = [np.flatnonzero(leads < tie) for leads in self.draw(some, tie)]
        last = {
            place: int(steps[-1]) for place, steps in zip(some, ties, strict=True) if len(steps)
        }
        batches_ = together(self.lm, self.begun, self.decoding) if last else []
        for mask, mates in itertools.product(range(len(self.masks)), batches_):
            if mine := [at for at in mates if (mask, at) in last]:
                self._settle(mask, mates, mine, 1 + max(last[mask, at] for at in mine))

    def _settle(self, mask: int, mates: Sequence[int], mine: Sequence[int], steps: int) -> None:
        """Draw `mine` in plain drawing's batch up to the last tie. Where that chooses the same as
        before, what follows was right as well; else all is drawn so."""
        some, nothing = [(mask, at) for at in mates], [list[int]() for _ in mates]
        tokens = self._drawn(some, nothing, 0.0, replace(self.decoding, max_new_tokens=steps))[0]
        if any(tokens[mates.index(at)] != self.found[mask][at][:steps] for at in mine):
            tokens = self._drawn(some, nothing, 0.0, self.decoding)[0]
            for at in mine:
                self.found[mask][at] = tokens[mates.index(at)]

    def _drawn(
        self,
        some: Sequence[tuple[int, int]],
        drawn: Sequence[list[int]],
        near: float,
        decoding: Decoding,
    ) -> tuple[list[list[int]], np.ndarray]:
        rest = replace(self.begun.of([at for _, at in some]), drawn=drawn)
        with masked_rows(self.lm, self.masks) as choose:
            rows = lambda places: choose([some[place][0] for place in places])  # noqa: E731
            return draw_on(self.lm, rest, decoding, self.hooks, near=near, batch=rows)
