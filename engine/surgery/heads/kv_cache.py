"""Keys and values of texts that were read, kept so that they are drawn on without being read once more.

They are those of the model that read, so the same mask has to be set. Reading and drawing round differently, as they
do without: who draws on compares leads with that rounding.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

from engine.models import room, runtime
from engine.models.decode import batch_of
from engine.models.load_language_model import LanguageModel


@dataclass(frozen=True)
class Known:
    """Keys and values of a text's first `tokens`: from `start` on in block [2 · layers, tokens, heads, width]."""

    block: torch.Tensor
    start: int
    tokens: int


class Shelf:
    """Keeps keys and values as long as there is room for them."""

    def __init__(self, lm: LanguageModel, tokens: int) -> None:
        """tokens: of a text, at most."""
        self.left = room.kept(lm, batch_of(lm), tokens)

    def put(self, cache: Any, rows: Sequence[int], tokens: Sequence[int]) -> Sequence[Known | None]:
        """Those rows of what a pass over texts padded on the right left, so many tokens of each; None where there is no
        room, or the model keeps something else."""
        nothing = [None] * len(rows)
        if not rows or not _plain(cache) or _size(cache, sum(tokens)) > self.left:
            return nothing
        try:
            found = _taken(cache, rows, tokens)
        except (MemoryError, RuntimeError) as error:
            if not runtime.is_out_of_memory(error):
                raise
            self.left = 0  # what is not kept is read again
            return nothing
        self.left -= _size(cache, sum(tokens))
        return found


def read(lm: LanguageModel, texts: Sequence[Sequence[int]]) -> list[Known] | None:
    """Keys and values of texts, lists of token ids, by the model as it is; None where it keeps something else."""
    ids = torch.zeros((len(texts), max(1, *map(len, texts))), dtype=torch.int64)
    for at, text in enumerate(texts):
        ids[at, : len(text)] = torch.tensor(text, dtype=torch.int64)
    cache = lm.model(input_ids=ids.to(lm.device), use_cache=True, logits_to_keep=1).past_key_values
    return _taken(cache, range(len(texts)), list(map(len, texts))) if _plain(cache) else None


def joined(rows: Sequence[Known]) -> DynamicCache | None:
    """The cache of a batch, padded on the left, as drawing wants it; None where nothing is known."""
    longest, first = max(row.tokens for row in rows), rows[0].block
    if longest == 0:
        return None
    both, _, heads, width = first.shape
    filled = torch.zeros((both, len(rows), heads, longest, width), dtype=first.dtype, device=first.device)
    for at, row in enumerate(rows):
        known = row.block[:, row.start : row.start + row.tokens]
        filled[:, at, :, longest - row.tokens :] = known.transpose(1, 2)
    cache = DynamicCache()
    for layer in range(both // 2):
        cache.update(filled[2 * layer], filled[2 * layer + 1], layer)
    return cache


def _plain(cache: Any) -> bool:
    """Whether it has keys and values of all tokens, of one shape in every layer: no window, no states."""
    layers = getattr(cache, "layers", None) or []
    if not all(type(one) is DynamicLayer and one.is_initialized for one in layers):
        return False
    shapes = {tuple(part.shape) for one in layers for part in (one.keys, one.values)}
    return len(shapes) == 1 and len(next(iter(shapes))) == 4


def _taken(cache: Any, rows: Sequence[int], tokens: Sequence[int]) -> list[Known]:
    """So many tokens of these rows, one text behind the other."""
    first = cache.layers[0].keys
    row = torch.repeat_interleave(torch.tensor(list(rows)), torch.tensor(list(tokens)))
    place = torch.cat([torch.arange(many) for many in tokens])
    row, place = row.to(first.device), place.to(first.device)
    block = first.new_empty((2 * len(cache.layers), len(row), first.shape[1], first.shape[3]))
    for layer, one in enumerate(cache.layers):
        block[2 * layer] = one.keys[row, :, place]
        block[2 * layer + 1] = one.values[row, :, place]
    starts = itertools.accumulate(tokens, initial=0)
    return [Known(block, start, many) for start, many in zip(starts, tokens, strict=False)]


def _size(cache: Any, tokens: int) -> int:
    """Bytes of the keys and values of so many tokens."""
    keys = cache.layers[0].keys
    return 2 * len(cache.layers) * tokens * keys.shape[1] * keys.shape[3] * keys.element_size()
