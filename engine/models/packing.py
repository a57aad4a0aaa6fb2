"""Texts read together: a row for each, or what they begin with in common once.

Prompts of a template begin alike, and reading a prompt is half the cost of a short text. So texts
are laid into rows as a tree. A token sees the tokens of its own text before it and no others. Keys
and values are then handed to every text that goes through them. The numbers are those of a row per
text to float tolerance; a model shows that when it is loaded (structure/proofs.py), else each text
has its row.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

WIDTH = 128
"""Tokens of one row: what a token does not see is computed all the same."""


@dataclass(frozen=True)
class Batch:
    """Rows of tokens. ids, real, positions: [rows, longest] int64; real is 1 at tokens and 0 at
    padding, positions count from 0 in every text.

    seen [rows, 1, longest, longest]: what is added to attention where texts share a row, so that
    each token sees its own text; None where a row is one text.
    """

    ids: torch.Tensor
    real: torch.Tensor
    positions: torch.Tensor
    seen: torch.Tensor | None = None


def forward(model: Any, batch: Batch, past: Any = None, keep: bool = True) -> Any:
    """What `model` answers, with logits of the last token alone. past: what it kept of the tokens
    before; `real` is then of all of them. `keep` what is needed to go on from there."""
    return model(
        input_ids=batch.ids,
        attention_mask=batch.real if batch.seen is None else batch.seen,
        position_ids=batch.positions,
        past_key_values=past,
        use_cache=keep,
        logits_to_keep=1,
    )


@dataclass(frozen=True)
class Laid:
    """Several texts as they are put through a model, and where each lies in it.

    batch: what is read. first: a text of each row. row [texts]: where each text is. at, real
    [texts, longest]: the places of its tokens, padded left, and which of them are its own.
    """

    batch: Batch
    first: Sequence[int]
    row: torch.Tensor
    at: torch.Tensor
    real: torch.Tensor

    def cache(self, model: Any) -> Any:
        """What `model` keeps of every text, as after a row per text: [texts, heads, longest, width]
        in each layer."""
        past = forward(model, self.batch).past_key_values
        if self.batch.seen is None:
            past.batch_select_indices(self.row)
            return past
        if {type(layer).__name__ for layer in past.layers} != {"DynamicLayer"}:
            raise TypeError("more is kept of a token than its key and value")
        for layer in past.layers:
            layer.keys, layer.values = map(self._each, (layer.keys, layer.values))
        return past

    def _each(self, kept: torch.Tensor) -> torch.Tensor:
        """[rows, heads, tokens, width] -> [texts, heads, longest, width]."""
        return kept.transpose(1, 2)[self.row[:, None], self.at].transpose(1, 2)


def left_pad(rows: Sequence[Sequence[int]], device: torch.device | str) -> Batch:
    """Pad rows of token ids on the left. The pad id is 0: padding never reaches the result."""
    longest = max(len(row) for row in rows)
    ids = np.zeros((len(rows), longest), dtype=np.int64)
    real = np.zeros_like(ids)
    for at, row in enumerate(rows):
        ids[at, longest - len(row) :] = row
        real[at, longest - len(row) :] = 1
    positions = np.maximum(real.cumsum(1) - 1, 0)
    return Batch(*(torch.from_numpy(array).to(device) for array in (ids, real, positions)))


def padded(texts: Sequence[list[int]], kinds: Sequence[int], model: Any) -> Laid:
    """A row for each text, token ids; equal ones of a kind share it.

    kinds: of each text, such as which heads are silenced while it is read; only texts of a kind
    share a row.
    """
    rows: dict[Any, int] = {}
    row = [
        rows.setdefault((kind, *text), len(rows)) for kind, text in zip(kinds, texts, strict=True)
    ]
    first = [row.index(at) for at in range(len(rows))]
    batch = left_pad([texts[at] for at in first], model.device)
    where = torch.tensor(row, device=model.device)
    places = torch.arange(batch.ids.shape[1], device=model.device).expand(len(texts), -1)
    return Laid(batch, first, where, places, batch.real[where])


def packed(texts: Sequence[list[int]], kinds: Sequence[int], model: Any) -> Laid:
    """Several texts in a row. Sorted, texts that begin alike are neighbours: each adds only the
    tokens that the one before it lacks, and every token sees those of its own text alone.

    Kinds fill their rows unevenly: where there are several, no row is wider than the longest text.
    """
    longest, last = max(map(len, texts)), -1
    width = longest if len(set(kinds)) > 1 else max(longest, WIDTH)
    rows, first = list[list[tuple[int, int]]](), list[int]()  # tokens and their positions
    row_of_text, places_of_text = [0] * len(texts), [list[int]()] * len(texts)
    for at in sorted(range(len(texts)), key=lambda at: (kinds[at], texts[at])):
        text, alike = texts[at], last >= 0 and kinds[last] == kinds[at]
        same = len(os.path.commonprefix([texts[last], text])) if alike else 0
        if not alike or len(rows[-1]) + len(text) - same > width:
            rows.append([])
            first.append(at)
            same = 0
        new = range(len(rows[-1]), len(rows[-1]) + len(text) - same)
        rows[-1] += zip(text[same:], range(same, len(text)), strict=True)
        row_of_text[at], places_of_text[at] = len(rows) - 1, [*places_of_text[last][:same], *new]
        last = at
    size = max(map(len, rows))
    read = np.zeros((3, len(rows), size), np.int64)
    visible = np.zeros((len(rows), size, size), bool)
    visible[:, range(size), range(size)] = True
    for at, tokens in enumerate(rows):
        read[:, at, : len(tokens)] = [*np.reshape(tokens, (-1, 2)).T, np.ones(len(tokens))]
    padded_places, is_own = np.zeros((2, len(texts), longest), np.int64)
    for at, path in enumerate(places_of_text):
        end, both = slice(longest - len(path), None), [np.array(path, np.int64)] * 2
        padded_places[at, end], is_own[at, end] = path, 1
        visible[row_of_text[at]][np.ix_(*both)] = np.tri(len(path), dtype=bool)
    ids, positions, real, where, places, own, shown = (
        torch.as_tensor(one, device=model.device)
        for one in (*read, np.array(row_of_text), padded_places, is_own, visible[:, None])
    )
    seen = torch.zeros(shown.shape, dtype=model.dtype, device=model.device)
    seen.masked_fill_(~shown, torch.finfo(model.dtype).min)
    return Laid(Batch(ids, real, positions, seen), first, where, places, own)


def logits_of_last(
    model: Any, texts: Sequence[list[int]], lay: Callable[..., Laid]
) -> torch.Tensor:
    """Logits [1, vocabulary] after the last of several texts, all but its last token read with the
    others.

    lay: `packed` or `padded`.
    """
    laid = lay([text[:-1] for text in texts], [0] * len(texts), model)
    past, last = laid.cache(model), texts[-1]
    past.batch_select_indices(torch.tensor([len(texts) - 1], device=model.device))
    real = torch.nn.functional.pad(laid.real[-1:], (0, 1), value=1)
    ids, places = torch.tensor([last[-1:], [len(last) - 1]], device=model.device)[:, None]
    return forward(model, Batch(ids, real, places), past).logits[:, -1]
