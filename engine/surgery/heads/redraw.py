"""Texts of a model with heads off, where those of a model near it are known: by drafts or plainly, as is quicker.

Both give the same texts, so what a clock says decides about seconds only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import numpy as np
import torch

from engine.core.types import Decoding, HeadMask, Hooks
from engine.models.decode import Begun, batch_of, draw_on
from engine.models.load_language_model import LanguageModel
from engine.surgery.heads.drafts import redrawn
from engine.surgery.heads.mask import masked

TRIED = 4
"""Where a way is tried, it is on one in so many texts: fewer would fill no batch once most of them are settled."""
Texts = list[list[list[int]]]
"""[masks][texts], new tokens of each."""
_paces: WeakKeyDictionary[torch.nn.Module, dict[tuple[int, int], dict[str, float]]] = WeakKeyDictionary()
"""Seconds per text of each way, by how many texts there were and how many heads apart: what earlier variants took."""


def drawn_again(
    lm: LanguageModel,
    masks: Sequence[HeadMask],
    begun: Begun,
    drafts: Sequence[Sequence[int]],
    decoding: Decoding,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    apart: int | None = None,
) -> Texts:
    """New tokens of every text under each mask; begun: the texts with nothing drawn, drafts: those of a model that
    differs in `apart` heads (None: the dense one).

    They are drawn the way that was quicker for earlier variants with drafts about as far apart. Before, each way is
    tried: on one in TRIED texts, where these fill batches, else on the first variants.
    16-bit numbers round too coarsely for drafts, and a model whose passes cannot go on from the middle has none.
    """
    ways: dict[str, Callable[[Begun, list[Sequence[int]], Sequence[HeadMask]], Texts]] = {
        "drafts": lambda some, told, wanted: redrawn(lm, wanted, some, told, decoding, hooks),
        "plain": lambda some, told, wanted: [_plain(lm, mask, some, decoding, hooks) for mask in wanted],
    }
    if torch.finfo(lm.dtype).bits < 32 or not lm.adapter.splits:
        return ways["plain"](begun, list(drafts), masks)
    clock = time.process_time if lm.device.type == "cpu" else time.perf_counter  # others may use these cores
    found: Texts = [[[] for _ in drafts] for _ in masks]

    def draw(way: str, at: Sequence[int], wanted: Sequence[int]) -> float:
        if not wanted:
            return 0.0
        start = clock()
        texts = ways[way](begun.of(at), [drafts[one] for one in at], [masks[one] for one in wanted])
        for mask, new in zip(wanted, texts, strict=True):
            for one, tokens in zip(at, new, strict=True):
                found[mask][one] = tokens
        return (clock() - start) / max(1, len(at) * len(wanted))

    every, whole = np.arange(len(drafts)), range(len(masks))
    far = (len(masks[0].cut) if apart is None else apart).bit_length()
    seen = _paces.setdefault(lm.model, {}).setdefault((len(drafts).bit_length(), far), {})
    left, rest = list(whole), every.tolist()
    if len(seen) < len(ways) and len(drafts) >= TRIED * batch_of(lm):
        seen["drafts"] = draw("drafts", every[::TRIED].tolist(), whole)
        seen["plain"] = draw("plain", every[1::TRIED].tolist(), whole[:1])
        draw(min(ways, key=lambda one: seen[one]), every[1::TRIED].tolist(), whole[1:])
        rest = [one for one in rest if one % TRIED > 1]
    elif "drafts" in seen and "plain" not in seen:
        seen["plain"] = draw("plain", rest, [left.pop()])
    way = min(ways, key=lambda one: seen.get(one, 0.0))
    if left and rest:
        seen[way] = draw(way, rest, left)
    return found


def _plain(lm: LanguageModel, mask: HeadMask, begun: Begun, decoding: Decoding, hooks: Hooks) -> list[list[int]]:
    with masked(lm, mask):
        return draw_on(lm, begun, decoding, hooks)[0]
