"""Every head off, one at a time, from one dense pass: prefix reuse and stacking.

do(y_h = 0) in layer l leaves the layers below untouched, and within the layer the attention of all
heads. So a dense pass keeps what enters each block and what its heads hand to the output
projection. Per head only that projection, the rest of the block and the blocks above run again, for
many heads stacked along the batch. The numbers are those of the masked forward pass (`mask.masked`)
to float tolerance.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import torch

from engine.core.errors import PruneAuditError
from engine.core.types import Decoding, HeadMask, Hooks
from engine.models import runtime
from engine.models.checkpoint import has_experts, positions_hang_on_length
from engine.models.decode import Begun, check_finite, draw_on, filtered, together, winners
from engine.models.load_language_model import LanguageModel
from engine.models.packing import Laid
from engine.models.runtime import positions_at_once, tokens_at_once, traced_at_once
from engine.models.structure.cutting import answers
from engine.models.transformer import TransformerModel, again, attached, first_of, keeping_calls
from engine.surgery.heads.mask import at_projections, claimed, hooked, masked_rows

T = TypeVar("T")
CPU_TOKENS, GPU_TOKENS = 4096, 131_072
"""Tokens in one stacked pass: on a CPU few enough to stay in cache, on a GPU enough to keep it
busy."""


@dataclass(frozen=True)
class Rows:
    """Texts padded on the right: ids [rows, tokens] int64; target [rows, tokens] bool, positions
    whose token is scored.

    Causal attention keeps real tokens from seeing the padding, so no attention mask is needed.
    """

    ids: torch.Tensor
    target: torch.Tensor


def pad_right(texts: Sequence[Sequence[int]], first: Sequence[int], device: torch.device) -> Rows:
    """texts: token ids; first: index of the first scored token of each (at least 1)."""
    longest = max(len(text) for text in texts)
    ids = np.zeros((len(texts), longest), dtype=np.int64)
    target = np.zeros(ids.shape, dtype=bool)
    for at, (text, start) in enumerate(zip(texts, first, strict=True)):
        ids[at, : len(text)] = text
        target[at, start : len(text)] = True
    return Rows(torch.from_numpy(ids).to(device), torch.from_numpy(target).to(device))


def batches(texts: Sequence[Sequence[int]], tokens: int) -> Iterator[list[int]]:
    """Indices of texts of similar length, at most `tokens` with padding in one batch (at least one
    text)."""
    order = sorted(range(len(texts)), key=lambda at: (len(texts[at]), at))
    batch: list[int] = []
    for at in order:
        if batch and (len(batch) + 1) * len(texts[at]) > tokens:
            yield batch
            batch = []
        batch.append(at)
    if batch:
        yield batch


def by_batches(
    texts: Sequence[Sequence[int]],
    tokens: int,
    work: Callable[[list[int], int], T],
    check: Callable[[], None],
) -> Iterator[tuple[list[int], T]]:
    """`work` done on texts of similar length together: their places, and what it gave.

    work: takes the places, and how many of `tokens` it may have at once: less of it, for fewer
    texts, where memory ran out.
    """
    left = list(batches(texts, tokens))
    while left:
        check()
        places = left.pop(0)

        def attempt(n: int, places: list[int] = places) -> tuple[int, T]:
            return n, work(places[:n], max(1, tokens * n // len(places)))

        n, found = runtime.with_backoff(attempt, len(places))
        yield places[:n], found
        left = [places[at : at + n] for at in range(n, len(places), n)] + left


def row_logps(
    lm: LanguageModel,
    texts: Sequence[Sequence[int]],
    first: Sequence[int],
    units: Sequence[int],
    decoding: Decoding | None = None,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    tokens: int | None = None,
    whole: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """Σ log p of each text's tokens from `first` on, dense [texts] and with each unit off alone
    [units, texts].

    Not `whole`, the dense model is read as far as these units need, and its numbers are 0. In nats,
    float64; log-softmax in float32. `decoding`: of the distribution that was sampled from
    (temperature, top-k, top-p; a token outside it has -inf). Neither the order of texts nor the
    batch size (`tokens`) matters. Raises PruneAuditError where the dense model gives no finite
    number.
    """
    dense, without = np.zeros(len(texts)), np.zeros((len(units), len(texts)))
    size = tokens or tokens_at_once(lm, CPU_TOKENS if lm.device.type == "cpu" else GPU_TOKENS)
    done, whole_work = 0, max(1, sum(map(len, texts)))

    def work(places: list[int], room: int) -> tuple[np.ndarray, np.ndarray]:
        share = sum(len(texts[at]) for at in places) / whole_work
        mine = hooks.within(done / whole_work, share)
        return _batch(lm, _rows(lm, texts, first, places), units, decoding, mine, room, whole)

    with claimed(lm), torch.inference_mode():
        for places, (found, off) in by_batches(texts, size, work, hooks.check):
            dense[places], without[:, places] = found, off
            done += sum(len(texts[at]) for at in places)
    if not np.isfinite(dense).all() and decoding is None or np.isnan(dense).any():
        bad = int((~np.isfinite(dense)).sum())
        raise PruneAuditError(
            f"{lm.name} in {lm.dtype} gives no finite probability for {bad} of {len(dense)} texts: "
            "its weights are damaged, or the precision is too low. Try --dtype float32."
        )
    return dense, without


def _batch(
    lm: LanguageModel,
    rows: Rows,
    units: Sequence[int],
    decoding: Decoding | None,
    hooks: Hooks,
    room: int,
    whole: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of log p of one batch in nats, float64: dense [rows] (0 unless `whole`) and with each
    unit off [units, rows]. `room` tokens fit into one stacked pass."""
    if not lm.adapter.splits:
        return _whole_passes(lm, rows, units, decoding, hooks, room)
    layers = sorted({unit // lm.n_heads for unit in units})
    kept, last = dense_pass(lm, rows.ids, layers, whole)
    score = Scorer(lm, rows, decoding)
    dense = score.sums(last, 1)[0] if whole else np.zeros(len(rows.ids))
    off = np.zeros((len(units), len(rows.ids)))
    width, done = max(1, room // rows.ids.numel()), 0
    # Blocks that are gone through again.
    work = sum(lm.n_layers - unit // lm.n_heads for unit in units)
    for layer in layers:
        mine = [at for at, unit in enumerate(units) if unit // lm.n_heads == layer]
        for start in range(0, len(mine), width):
            hooks.check()
            group = mine[start : start + width]
            hidden = without_heads(lm, kept, layer, [units[at] % lm.n_heads for at in group])
            off[group] = score.sums(hidden, len(group))
            done += len(group) * (lm.n_layers - layer)
            hooks.inside(done / work)
    return dense, off


def _whole_passes(
    lm: LanguageModel,
    rows: Rows,
    units: Sequence[int],
    decoding: Decoding | None,
    hooks: Hooks,
    room: int,
) -> tuple[np.ndarray, np.ndarray]:
    """As `_batch`, of a model whose passes cannot go on from the middle: a whole pass for every
    head, stacked."""
    score, width = Scorer(lm, rows, decoding), max(1, room // rows.ids.numel())
    found, masks = np.zeros((1 + len(units), len(rows.ids))), [None, *units]
    for start in range(0, len(masks), width):
        hooks.check()
        group = masks[start : start + width]
        gates = torch.ones(len(group), lm.n_layers, lm.n_heads)
        for at, unit in enumerate(group):
            if unit is not None:
                gates[at, unit // lm.n_heads, unit % lm.n_heads] = 0
        with hooked(lm, gates.repeat_interleave(len(rows.ids), dim=0), range(lm.n_layers)):
            logits = lm.model(input_ids=rows.ids.repeat(len(group), 1), use_cache=False).logits
        found[start : start + len(group)] = score.sums_of(logits, len(group))
        hooks.inside((start + len(group)) / len(masks))
    return found[0], found[1:]


@dataclass
class Kept:
    """What a dense pass leaves: per block its other arguments, per wanted layer the block's input
    and the heads' outputs.

    inputs: [rows, tokens, hidden]; heads: [rows, tokens, heads * width].
    """

    inputs: dict[int, torch.Tensor] = field(default_factory=dict)
    calls: dict[int, Any] = field(default_factory=dict)
    heads: dict[int, torch.Tensor] = field(default_factory=dict)


def dense_pass(
    lm: LanguageModel, ids: torch.Tensor, layers: Sequence[int], whole: bool
) -> tuple[Kept, torch.Tensor]:
    """One forward pass of ids [rows, tokens] without a mask.

    Returns what to keep for `layers`, and the last block's output [rows, tokens, hidden]. Not
    `whole`, nothing is computed above the highest of `layers`, and that output is no one's.
    """
    kept, calls, out = Kept(), dict[int, Any](), dict[str, torch.Tensor]()

    def keep_heads(layer: int) -> Any:
        return lambda module, args: kept.heads.__setitem__(layer, args[0])

    with (
        attached(keeping_calls(lm.adapter.blocks(lm.model), calls)),
        attached(at_projections(lm, layers, keep_heads)),
        attached([last_hidden(lm, out)]),
        nullcontext() if whole else _answered_above(lm, max(layers)),
    ):
        # Embeddings instead of ids: transformers warns about padding it finds in ids, and there is
        # none that matters.
        lm.adapter.backbone(lm.model)(
            inputs_embeds=lm.model.get_input_embeddings()(ids), use_cache=False
        )
    kept.calls = {layer: rest for layer, (_, *rest) in calls.items()}
    kept.inputs = {layer: calls[layer][0] for layer in layers}
    return kept, out["last"]


@contextmanager
def _answered_above(lm: LanguageModel, layer: int) -> Iterator[None]:
    """Within it, blocks above `layer` compute nothing and answer what that one did; their hooks
    hear their calls."""
    blocks, made = lm.adapter.blocks(lm.model), []
    handle = blocks[layer].register_forward_hook(lambda module, args, out: made.append(out))
    above = [blocks[at] for at in range(layer + 1, lm.n_layers)]
    for block in above:
        block.forward = lambda *args, **kwargs: made[-1]
    try:
        yield
    finally:
        handle.remove()
        for block in above:
            del block.forward


def last_hidden(lm: LanguageModel, out: dict[str, torch.Tensor]) -> Any:
    """A hook that puts the last block's output [rows, tokens, hidden] into `out` as "last"; remove
    it again."""
    block = lm.adapter.blocks(lm.model)[lm.n_layers - 1]
    return block.register_forward_hook(lambda module, args, made: out.update(last=first_of(made)))


def without_heads(lm: LanguageModel, kept: Kept, layer: int, heads: Sequence[int]) -> torch.Tensor:
    """The last block's output with each of `heads` of one layer off alone, [heads * rows, tokens,
    hidden]."""
    blocks, width, inside = (
        lm.adapter.blocks(lm.model),
        lm.adapter.head_dim,
        kept.heads[layer],
    )
    stacked = inside.repeat(len(heads), 1, 1)
    for at, head in enumerate(heads):
        stacked[at * len(inside) : (at + 1) * len(inside), :, head * width : (head + 1) * width] = 0
    given = lm.adapter.output_projection(lm.model, layer)(stacked)
    hidden = kept.inputs[layer].repeat(len(heads), 1, 1)
    with answers(*lm.adapter.stand_in(lm.model, layer, given)):
        hidden = again(blocks[layer], hidden, kept.calls[layer], len(inside), len(heads))
    for above in range(layer + 1, lm.n_layers):
        hidden = again(blocks[above], hidden, kept.calls[above], len(inside), len(heads))
    return hidden


class Scorer:
    """Log-probabilities of one batch's scored tokens, from the last block's output (or, `normed`,
    the final norm's)."""

    def __init__(
        self, lm: LanguageModel, rows: Rows, decoding: Decoding | None, normed: bool = False
    ) -> None:
        self.lm, self.decoding, self.n_rows = lm, decoding, len(rows.ids)
        # Place predicts the token after it.
        self.row, self.place = (rows.target[:, 1:]).nonzero(as_tuple=True)
        self.wanted = rows.ids[self.row, self.place + 1]
        self.normed = normed

    def sums(self, hidden: torch.Tensor, times: int) -> np.ndarray:
        """Σ log p of every row's scored tokens in nats, [times, rows] float64; hidden [times *
        rows, tokens, width]."""
        picked = hidden.view(times, self.n_rows, *hidden.shape[1:])[:, self.row, self.place]
        logps = self.token_logps(picked.flatten(0, 1), self.wanted.repeat(times))
        total = torch.zeros(times, self.n_rows, dtype=torch.float64, device=hidden.device)
        total.index_add_(1, self.row, logps.view(times, -1).double())
        return total.cpu().numpy()

    def sums_of(self, logits: torch.Tensor, times: int) -> np.ndarray:
        """As `sums`, from logits [times * rows, tokens, vocabulary]."""
        picked = logits.view(times, self.n_rows, *logits.shape[1:])[:, self.row, self.place]
        logps = torch.stack([self.of_logits(part, self.wanted) for part in picked])
        total = torch.zeros(times, self.n_rows, dtype=torch.float64, device=logits.device)
        return total.index_add_(1, self.row, logps.double()).cpu().numpy()

    def token_logps(self, hidden: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """log p in nats of the tokens `wanted` [n] from hidden [n, width]: [n] float32; only so
        many logits at once as fit."""
        step = positions_at_once(self.lm)
        parts = []
        for at in range(0, len(hidden), step):
            logits = self.lm.adapter.logits(self.lm.model, hidden[at : at + step], self.normed)
            parts.append(self.of_logits(logits, wanted[at : at + step]))
        return torch.cat(parts) if parts else hidden.new_zeros(0, dtype=torch.float32)

    def of_logits(self, logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """The same from logits [n, vocabulary]."""
        logits = logits.float()
        if self.decoding is not None:
            logits = filtered(logits, self.decoding)
        return -torch.nn.functional.cross_entropy(logits, wanted, reduction="none")


# ∂ log p / ∂ξ_h of every text for every head, from one backward pass per micro-batch. ξ_h scales
# what head h hands to the output projection, y = ξ_h a_h. So at ξ = 1 the derivative is the sum
# over tokens of <∂ log p / ∂a_h, a_h>: one backward pass to the projections' inputs gives all heads
# of all texts at once. Texts do not see each other: micro-batches give what the full batch would.


TRACED_ON_CPU, TRACED_ON_GPU = 2048, 32_768


def row_gradients(
    lm: LanguageModel,
    texts: Sequence[Sequence[int]],
    first: Sequence[int],
    decoding: Decoding | None = None,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    tokens: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Σ log p of each text's tokens from `first` on, [texts], and its derivatives at ξ = 1, [texts,
    units].

    In nats, float64. Arguments as for `prefix.row_logps`. Raises PruneAuditError where a number is
    not finite.
    """
    dense, slopes = np.zeros(len(texts)), np.zeros((len(texts), lm.n_layers * lm.n_heads))
    room = tokens or traced_at_once(lm, TRACED_ON_CPU if lm.device.type == "cpu" else TRACED_ON_GPU)

    def work(places: list[int], room: int) -> tuple[np.ndarray, np.ndarray]:
        return _gate_gradients_batch(lm, _rows(lm, texts, first, places), decoding)

    with claimed(lm):
        for places, (found, slope) in by_batches(texts, room, work, hooks.check):
            dense[places], slopes[places] = found, slope
    bad = int((~np.isfinite(slopes).all(axis=1) | ~np.isfinite(dense)).sum())
    if bad:
        raise PruneAuditError(
            f"{lm.name} in {lm.dtype} gives no finite gradient for {bad} of {len(dense)} texts: "
            "its weights are damaged, or the precision is too low. Try --dtype float32."
        )
    return dense, slopes


def _rows(
    lm: LanguageModel, texts: Sequence[Sequence[int]], first: Sequence[int], places: Sequence[int]
) -> Rows:
    return pad_right([texts[at] for at in places], [first[at] for at in places], lm.device)


def _gate_gradients_batch(
    lm: LanguageModel, rows: Rows, decoding: Decoding | None
) -> tuple[np.ndarray, np.ndarray]:
    """`row_gradients` of one batch: sums of log p [rows] and their derivatives [rows, units],
    float64."""
    with torch.enable_grad(), heads_kept(lm, range(lm.n_layers)) as heads:
        score = Scorer(lm, rows, decoding, normed=True)
        logps = _logps(lm, rows, score)
        slopes = torch.autograd.grad(logps.sum(), heads)
    with torch.no_grad():
        dense = torch.zeros(len(rows.ids), dtype=torch.float64, device=logps.device)
        dense.index_add_(0, score.row, logps.detach().double())
        each = [_per_head(lm, slope, inside) for slope, inside in zip(slopes, heads, strict=True)]
    return dense.cpu().numpy(), torch.cat(each, dim=1).double().cpu().numpy()


def _logps(lm: LanguageModel, rows: Rows, score: Scorer) -> torch.Tensor:
    """log p of every scored token, [n] float32, from one pass."""
    if not lm.adapter.splits:
        logits = lm.model(input_ids=rows.ids, use_cache=False).logits
        return score.of_logits(logits[score.row, score.place], score.wanted)
    embedded = lm.model.get_input_embeddings()(rows.ids)
    last = lm.adapter.backbone(lm.model)(inputs_embeds=embedded, use_cache=False)
    return score.token_logps(last.last_hidden_state[score.row, score.place], score.wanted)


@contextmanager
def heads_kept(lm: TransformerModel, layers: Iterable[int]) -> Iterator[list[torch.Tensor]]:
    """Within it, a forward pass appends the heads' outputs of these layers, in order, as tensors of
    its graph.

    Each is [rows, tokens, heads * width], what the layer's output projection is given.
    """
    kept = []

    def keep(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        inside = args[0] if args[0].requires_grad else args[0].detach().requires_grad_(True)
        kept.append(inside)
        return (inside, *args[1:])

    with attached(at_projections(lm, layers, lambda layer: keep)):
        yield kept


def _per_head(lm: LanguageModel, slope: torch.Tensor, inside: torch.Tensor) -> torch.Tensor:
    """Sum over tokens and the head's width: [rows, tokens, heads * width] -> [rows, heads]
    float32."""
    product = (slope.float() * inside.detach().float()).sum(1)
    return product.view(len(product), lm.n_heads, -1).sum(-1)


# Texts of a model with one head off, from texts that the dense model drew: read at once, drawn
# only where they part.
#
# Both draw with the same noise, so most of their tokens are the same. A draft is read with the
# head off. Every token up to the first that the noise would not choose again is taken; that one
# is known as well, and what follows is drawn. The texts are those of drawing from the start, to
# the token. Laid and drawing round differently, so a text is drawn anew where rounding could
# exchange a token and its runner-up.


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
        kinds = [mask for mask, _ in some]
        with masked_rows(self.lm, self.masks) as choose:

            def rows(places: Sequence[int], laid: Laid | None) -> None:
                each = laid.first if laid else range(len(places))
                choose([kinds[places[at]] for at in each])

            return draw_on(self.lm, rest, decoding, self.hooks, near=near, batch=rows, kinds=kinds)
