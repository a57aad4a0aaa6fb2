"""Texts of a model with heads off, where those of a model near it are known: by drafts or plainly, as is quicker.

Both give the same texts, so what a clock says decides about seconds only. What plain drawing takes is known from texts
that were drawn plainly before, such as the dense model's. What drafts take shows in the first few that are read: how
much of them is left to be drawn.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch

from engine.core.types import Decoding, HeadMask, Hooks
from engine.models import runtime  # before torch and transformers
from engine.models.checkpoint import has_experts, positions_hang_on_length
from engine.models.decode import Begun, batch_of, draw_on
from engine.models.load_language_model import LanguageModel
from engine.surgery.heads.drafts import Draft, finished, left, opened, read, shelf, tokens_read
from engine.surgery.heads.mask import masked

TRIED, LEAST = 24, 16
"""Drafts are tried on one in so many texts, and on so many at least."""
CPU_STEP, GPU_STEP = 32, 512
"""A step of drawing takes as long as so many of its texts, besides those that it draws."""
AGAIN = 0.95
"""What drafts took is forgotten by so much with every set of heads, so that they are tried again."""
HOPELESS = 1.1
"""Drafts that took so much of plain drawing last time are not tried: trying costs a twentieth, and clocks err by as
much."""
Texts = list[list[list[int]]]
"""[masks][texts], new tokens of each."""


@dataclass
class Paces:
    """Of one model. plain: seconds per unit of work (`_work`) when texts were last drawn plainly, 0 before.

    drafts: time by drafts over plain drawing when last seen, and misjudged: that over what was expected, half of it
    from before; both by how many texts there were and how many heads apart.
    """

    plain: float = 0.0
    drafts: dict[tuple[int, int], float] = field(default_factory=dict)
    misjudged: dict[tuple[int, int], float] = field(default_factory=dict)


_paces: WeakKeyDictionary[torch.nn.Module, Paces] = WeakKeyDictionary()


def drawn_plainly(
    lm: LanguageModel,
    begun: Begun,
    decoding: Decoding,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
) -> list[list[int]]:
    """All new tokens of each text, by the model as it is; how long that takes is noted."""
    start = _clock(lm)
    texts = draw_on(lm, begun, decoding, hooks)[0]
    _of(lm).plain = (_clock(lm) - start) / max(1.0, _work(lm, list(map(len, texts))))
    return texts


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

    A few drafts are read first; the others are where that promises to be quicker than plain drawing.
    """
    if not masks or not drafts:
        return [[] for _ in masks]
    paces, far = _of(lm), (len(masks[0].cut) if apart is None else apart).bit_length()
    key, unfit = (len(drafts).bit_length(), far), _unfit(lm, begun, decoding)
    paces.drafts[key] = AGAIN * paces.drafts.get(key, 0.0)
    if not unfit and not paces.plain:  # a process that drew nothing yet, as a cluster's: the first tells how long
        first, rest = _plain(lm, masks[0], begun, decoding, hooks.within(0, 1 / len(masks))), masks[1:]
        hooks = hooks.within(1 / len(masks), len(rest) / len(masks))
        return [first, *(drawn_again(lm, rest, begun, drafts, decoding, hooks, apart) if rest else [])]
    texts = None
    if not unfit and paces.drafts[key] <= HOPELESS:
        try:
            texts = _by_drafts(lm, masks, begun, drafts, decoding, hooks, key)
        except (MemoryError, RuntimeError) as error:
            if not runtime.is_out_of_memory(error):
                raise
    return _each_plainly(lm, masks, begun, decoding, hooks) if texts is None else texts


def _unfit(lm: LanguageModel, begun: Begun, decoding: Decoding) -> bool:
    """Whether reading a text may say something else than drawing it without a lead that shows it.

    16-bit numbers round too coarsely. A last bit turns whom top-k and top-p leave out and to which expert a token is
    sent. Some positions hang on how long the whole text is. A text without a prompt has no token to read its first
    from. And some models' passes cannot go on from the middle.
    """
    config = lm.model.config.get_text_config()
    coarse = torch.finfo(lm.dtype).bits < 32
    turns = decoding.top_k > 0 or decoding.top_p < 1.0 or has_experts(config)
    return coarse or turns or positions_hang_on_length(config) or not all(begun.prompts) or not lm.adapter.splits


def _by_drafts(
    lm: LanguageModel,
    masks: Sequence[HeadMask],
    begun: Begun,
    drafts: Sequence[Sequence[int]],
    decoding: Decoding,
    hooks: Hooks,
    key: tuple[int, int],
) -> Texts | None:
    """`drawn_again` by drafts; None where a few of them say that plain drawing is quicker."""
    paces, start, order = _of(lm), _clock(lm), _tried_first(len(drafts))
    found, kept = opened(lm, masks, drafts, decoding), shelf(lm, decoding)
    tried = order[: max(LEAST, len(drafts) // TRIED)]

    def readings(places: Sequence[int]) -> None:
        read(lm, masks, begun.of(places), [[one[at] for at in places] for one in found], decoding, hooks, kept)

    readings(tried)
    plain = paces.plain * len(masks) * _work(lm, list(map(len, drafts)))
    few, spent = [[one[at] for at in tried] for one in found], _clock(lm) - start
    expected, usual = _expected(lm, begun, drafts, few, tried, spent, decoding) / plain, paces.misjudged.get(key, 1.0)
    paces.drafts[key] = expected * usual
    if paces.drafts[key] - spent / plain > 1.0 and len(tried) < len(drafts):  # what is spent is spent either way
        return None
    if rest := order[len(tried) :]:
        readings(rest)
    texts = finished(lm, masks, begun, found, decoding, hooks)
    took = _clock(lm) - start
    paces.drafts[key] = took / (paces.plain * sum(_work(lm, list(map(len, one))) for one in texts))
    paces.misjudged[key] = (usual * paces.drafts[key] / expected) ** 0.5  # one slow second shall not decide for long
    return texts


def _of(lm: LanguageModel) -> Paces:
    return _paces.setdefault(lm.model, Paces())


def _clock(lm: LanguageModel) -> float:
    """Seconds; on a CPU those of this process, since others may use its cores."""
    return time.process_time() if lm.device.type == "cpu" else time.perf_counter()


def _tried_first(n: int) -> list[int]:
    """Places of n texts, from all over them first."""
    every = list(range(n))
    step = max(1, min(TRIED, n // LEAST))
    return [*every[::step], *(at for at in every if at % step)]


def _work(lm: LanguageModel, lengths: Sequence[int]) -> float:
    """Drawing texts of so many new tokens, batch by batch: tokens, and what steps take whatever the texts."""
    size, step = batch_of(lm), CPU_STEP if lm.device.type == "cpu" else GPU_STEP
    parts = [lengths[at : at + size] for at in range(0, len(lengths), size)]
    return float(sum(sum(part) + step * max(part) for part in parts))


def _expected(
    lm: LanguageModel,
    begun: Begun,
    drafts: Sequence[Sequence[int]],
    found: Sequence[Sequence[Draft]],
    tried: Sequence[int],
    seconds: float,
    decoding: Decoding,
) -> float:
    """Seconds for all texts; found [masks][tried]: drafts at the places `tried`, that were read in `seconds`.

    Whose keys and values are not kept is read again before the rest is drawn: about a third of reading it all.
    """
    tails = [left(lm, draft, decoding) for one in found for draft in one]
    open_, times = [tail for tail in tails if tail], len(drafts) / len(tried)
    reading = seconds * tokens_read(lm, begun, drafts) / max(1, tokens_read(lm, begun, drafts, tried))
    if all(draft.known is None for one in found for draft in one):
        reading *= 1 + len(open_) / len(tails) / 3
    whole = open_ * max(1, round(times))
    return reading + _of(lm).plain * _work(lm, whole) * len(open_) * times / max(1, len(whole))


def _each_plainly(
    lm: LanguageModel, masks: Sequence[HeadMask], begun: Begun, decoding: Decoding, hooks: Hooks
) -> Texts:
    parts = [hooks.within(at / len(masks), 1 / len(masks)) for at in range(len(masks))]
    return [_plain(lm, mask, begun, decoding, part) for mask, part in zip(masks, parts, strict=True)]


def _plain(lm: LanguageModel, mask: HeadMask, begun: Begun, decoding: Decoding, hooks: Hooks) -> list[list[int]]:
    with masked(lm, mask):
        return drawn_plainly(lm, begun, decoding, hooks)
