"""Every head off, one at a time, from one dense pass: prefix reuse and stacking.

do(y_h = 0) in layer l leaves the layers below untouched, and within the layer the attention of all
heads. So a dense pass keeps what enters each block and what its heads hand to the output
projection. Per head only that projection, the rest of the block and the blocks above run again, for
many heads stacked along the batch. The numbers are those of the masked forward pass (`mask.masked`)
to float tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
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
from engine.surgery.heads.mask import claimed, hooked, masked_rows

T = TypeVar("T")
CPU_TOKENS, GPU_TOKENS = 4096, 131_072
"""Tokens in one stacked pass: on a CPU few enough to stay in cache, on a GPU enough to keep it
busy."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Texts padded on the right: ids [rows, tokens] int64; target [rows, tokens] bool, positions
    whose token is scored.

    Causal attention keeps real tokens from seeing the padding, so no attention mask is needed.
    """

    ids: torch.Tensor
    target: torch.Tensor

    @cached_property
    def scored(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Of every scored token, in order: its row, the place before it, which predicts it, and the
        token, [n] int64 each."""
        row, place = self.target[:, 1:].nonzero(as_tuple=True)
        return row, place, self.ids[row, place + 1]

    def picked(self, numbers: torch.Tensor) -> torch.Tensor:
        """Of numbers [times * rows, tokens, width] those that predict scored tokens, [times, n,
        width]."""
        row, place, _ = self.scored
        return numbers.unflatten(0, (-1, len(self.ids)))[:, row, place]

    def sums(self, logps: torch.Tensor) -> np.ndarray:
        """Sums of each row's log p, [times, n] -> [times, rows] float64."""
        shape = len(logps), len(self.ids)
        total = torch.zeros(shape, dtype=torch.float64, device=logps.device)
        return total.index_add_(1, self.scored[0], logps.double()).cpu().numpy()


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
        what = f"no finite probability for {bad} of {len(dense)} texts"
        raise PruneAuditError(lm.unusable(what))
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
    off, done = np.zeros((1 + len(units), len(rows.ids))), 0
    # Blocks that are gone through again.
    work = sum(lm.n_layers - unit // lm.n_heads for unit in units)
    wanted = rows.scored[-1]
    for group, hidden in _each_off(lm, rows, units, hooks, room, whole):
        picked = rows.picked(hidden)
        logps = _token_logps(lm, picked.flatten(0, 1), wanted.repeat(len(picked)), decoding)
        off[[1 + at for at in group] or [0]] = rows.sums(logps.view(len(picked), -1))
        if group:
            done += len(group) * (lm.n_layers - units[group[0]] // lm.n_heads)
            hooks.inside(done / work)
    return off[0], off[1:]


def _each_off(
    lm: LanguageModel, rows: Rows, units: Sequence[int], hooks: Hooks, room: int, whole: bool
) -> Iterator[tuple[list[int], torch.Tensor]]:
    """The last block's output with each of some units off alone: places of these in `units`, and
    [times * rows, tokens, hidden]. First, where the `whole` dense model is wanted, none of them and
    its own output."""
    layers, width = sorted({unit // lm.n_heads for unit in units}), max(1, room // rows.ids.numel())
    calls, inside, last = dense_pass(lm, rows.ids, layers, whole)
    if whole:
        yield [], last
    for layer in layers:
        mine = [at for at, unit in enumerate(units) if unit // lm.n_heads == layer]
        for start in range(0, len(mine), width):
            hooks.check()
            group = mine[start : start + width]
            heads = [units[at] % lm.n_heads for at in group]
            yield group, without_heads(lm, calls, inside[layer], layer, heads)


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
    width = max(1, room // rows.ids.numel())
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
        each = [_logps(part.float(), rows.scored[-1], decoding) for part in rows.picked(logits)]
        found[start : start + len(group)] = rows.sums(torch.stack(each))
        hooks.inside((start + len(group)) / len(masks))
    return found[0], found[1:]


def dense_pass(
    lm: LanguageModel, ids: torch.Tensor, layers: Sequence[int], whole: bool
) -> tuple[dict[int, Any], dict[int, torch.Tensor], torch.Tensor]:
    """One forward pass of ids [rows, tokens] without a mask.

    Returns what each block is called with (see `keeping_calls`), the outputs of the heads of
    `layers`, [rows, tokens, heads * width], and the last block's, [rows, tokens, hidden]. Not
    `whole`, nothing is computed above the highest of `layers`, and that last output is no one's.
    """
    calls, heads, last = dict[int, Any](), dict[int, torch.Tensor](), list[torch.Tensor]()
    blocks = lm.adapter.blocks(lm.model)

    def keep_heads(layer: int) -> Any:
        return lambda module, args: heads.__setitem__(layer, args[0])

    def keep_last(module: torch.nn.Module, args: Any, made: Any) -> None:
        last.append(first_of(made))

    with (
        attached(keeping_calls(blocks, calls)),
        attached(lm.adapter.at_projections(lm.model, layers, keep_heads)),
        attached([blocks[lm.n_layers - 1].register_forward_hook(keep_last)]),
        nullcontext() if whole else _answered_above(lm, max(layers)),
    ):
        # Embeddings instead of ids: transformers warns about padding it finds in ids, and there is
        # none that matters.
        lm.adapter.backbone(lm.model)(
            inputs_embeds=lm.model.get_input_embeddings()(ids), use_cache=False
        )
    return calls, heads, last[-1]


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


def without_heads(
    lm: LanguageModel, calls: dict[int, Any], inside: torch.Tensor, layer: int, heads: Sequence[int]
) -> torch.Tensor:
    """The last block's output with each of `heads` of one layer off alone, [heads * rows, tokens,
    hidden]; `calls` and `inside`, the outputs of the layer's heads, as from `dense_pass`."""
    blocks, width, rows = lm.adapter.blocks(lm.model), lm.adapter.head_dim, len(inside)
    stacked = inside.repeat(len(heads), 1, 1)
    for at, head in enumerate(heads):
        stacked[at * rows : (at + 1) * rows, :, head * width : (head + 1) * width] = 0
    given = lm.adapter.output_projection(lm.model, layer)(stacked)
    hidden = calls[layer][0].repeat(len(heads), 1, 1)
    with answers(*lm.adapter.stand_in(lm.model, layer, given)):
        hidden = again(blocks[layer], hidden, calls[layer][1:], rows, len(heads))
    for above in range(layer + 1, lm.n_layers):
        hidden = again(blocks[above], hidden, calls[above][1:], rows, len(heads))
    return hidden


def _logits(
    lm: LanguageModel, hidden: torch.Tensor, normed: bool = False
) -> Iterator[tuple[slice, torch.Tensor]]:
    """Logits in float32 of hidden states [n, width], the last block's or (`normed`) the final
    norm's; only so many at once as fit, with their places."""
    step = positions_at_once(lm)
    for at in range(0, len(hidden), step):
        some = slice(at, at + step)
        yield some, lm.adapter.logits(lm.model, hidden[some], normed).float()


def _token_logps(
    lm: LanguageModel,
    hidden: torch.Tensor,
    wanted: torch.Tensor,
    decoding: Decoding | None,
    normed: bool = False,
) -> torch.Tensor:
    """log p in nats of the tokens `wanted` [n], [n] float32; arguments as of `_logits`."""
    parts = (_logps(logits, wanted[some], decoding) for some, logits in _logits(lm, hidden, normed))
    return torch.cat([hidden.new_zeros(0, dtype=torch.float32), *parts])


def _logps(logits: torch.Tensor, wanted: torch.Tensor, decoding: Decoding | None) -> torch.Tensor:
    """The same from logits [n, vocabulary] float32."""
    if decoding is not None:
        logits = filtered(logits, decoding)
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
        raise PruneAuditError(lm.unusable(f"no finite gradient for {bad} of {len(dense)} texts"))
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
    row, place, wanted = rows.scored
    with torch.enable_grad(), heads_kept(lm, range(lm.n_layers)) as heads:
        if lm.adapter.splits:
            embedded = lm.model.get_input_embeddings()(rows.ids)
            last = lm.adapter.backbone(lm.model)(inputs_embeds=embedded, use_cache=False)
            hidden = last.last_hidden_state[row, place]
            logps = _token_logps(lm, hidden, wanted, decoding, normed=True)
        else:
            logits = lm.model(input_ids=rows.ids, use_cache=False).logits
            logps = _logps(logits[row, place].float(), wanted, decoding)
        slopes = torch.autograd.grad(logps.sum(), heads)
    with torch.no_grad():
        each = []
        for slope, inside in zip(slopes, heads, strict=True):
            product = (slope.float() * inside.detach().float()).sum(1)  # over tokens
            each.append(product.view(len(product), lm.n_heads, -1).sum(-1))
        dense = rows.sums(logps.detach()[None])[0]
    return dense, torch.cat(each, dim=1).double().cpu().numpy()


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

    with attached(lm.adapter.at_projections(lm.model, layers, lambda layer: keep)):
        yield kept


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
Place = tuple[int, int]
"""A mask and a text, by number."""
TIE = 2.0**8
"""As NEAR, of the same logits drawn in another batch: 3e-5 in float32, where leads were at most
1e-5 apart. Such a text is drawn with those that plain drawing draws it with, for then every bit is
the same."""


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
    texts, near = _read(lm, masks, begun, drafts, decoding, hooks)

    def draw(some: Sequence[Place], lead: float) -> list[Place]:
        """Draw these on to their end; those with a token that led by less."""
        rest = replace(begun.of([at for _, at in some]), drawn=[texts[one] for one in some])
        kinds = [mask for mask, _ in some]
        with masked_rows(lm, masks) as choose:

            def rows(places: Sequence[int], laid: Laid | None) -> None:
                each = laid.first if laid else range(len(places))
                choose([kinds[places[at]] for at in each])

            tokens, leads = draw_on(lm, rest, decoding, hooks, near=lead, batch=rows, kinds=kinds)
        texts.update(zip(some, tokens, strict=True))
        least = leads.min(-1, initial=lead)
        return [one for one, its in zip(some, least, strict=True) if its < lead]

    def anew(some: Sequence[Place], lead: float) -> list[Place]:
        texts.update((one, []) for one in some)
        return draw(some, lead)

    most = decoding.max_new_tokens
    going = [
        one
        for one, text in texts.items()
        if one not in near and len(text) < most and not lm.ends & set(text[-1:])
    ]
    turned = [*near, *draw(going, near_of(lm, decoding))]
    ties = anew(turned, near_of(lm, decoding, TIE))
    for mask in sorted({mask for mask, _ in ties}):
        for mates in together(lm, begun, decoding):
            if not {(mask, at) for at in mates}.isdisjoint(ties):
                anew([(mask, at) for at in mates], 0.0)
    return [[texts[mask, at] for at in range(len(begun))] for mask in range(len(masks))]


def _read(
    lm: LanguageModel,
    masks: Sequence[HeadMask],
    begun: Begun,
    drafts: Sequence[Sequence[int]],
    decoding: Decoding,
    hooks: Hooks,
) -> tuple[dict[Place, list[int]], list[Place]]:
    """Of every text under each mask the tokens that reading its draft settles, and where another
    token came near one of these. Settled are those up to the first that the noise does not choose
    again, and the one that it chooses in its place."""
    texts, near = dict[Place, list[int]](), dict[Place, bool]()
    units, least = [mask.units[0] for mask in masks], near_of(lm, decoding)
    whole = [[*prompt, *draft] for prompt, draft in zip(begun.prompts, drafts, strict=True)]
    first = [len(prompt) for prompt in begun.prompts]
    size = tokens_at_once(lm, CPU_TOKENS if lm.device.type == "cpu" else GPU_TOKENS)

    def work(places: list[int], room: int) -> None:
        rows = _rows(lm, whole, first, places)
        row, place, wanted = rows.scored
        starts = torch.tensor([first[at] for at in places], device=lm.device)
        steps = place + 1 - starts[row]
        keys = torch.from_numpy(begun.keys[places]).to(lm.device)[row]
        ends = np.cumsum(np.bincount(row.cpu().numpy(), minlength=len(places)))
        with claimed(lm), torch.inference_mode():
            for group, hidden in _each_off(lm, rows, units, hooks, room, whole=False):
                for mask, part in zip(group, rows.picked(hidden), strict=True):
                    won, leads = _won(lm, part, keys, steps, decoding, least)
                    arrays = (won, won != wanted.cpu().numpy(), leads < least)
                    each = zip(*(np.split(one, ends[:-1]) for one in arrays), strict=True)
                    for at, (tokens, stop, close) in zip(places, each, strict=True):
                        taken = int(stop.argmax()) + 1 if stop.any() else len(stop)
                        texts[mask, at] = tokens[:taken].tolist()
                        near[mask, at] = bool(close[:taken].any())

    for _ in by_batches(whole, size, work, hooks.check):
        pass
    ordered = sorted(texts)
    return {one: texts[one] for one in ordered}, [one for one in ordered if near[one]]


def _won(
    lm: LanguageModel,
    hidden: torch.Tensor,
    keys: torch.Tensor,
    steps: torch.Tensor,
    decoding: Decoding,
    near: float,
) -> tuple[np.ndarray, np.ndarray]:
    """The token that wins at every position, [positions], and by how much, never more than `near`;
    hidden [positions, width], keys and steps [positions] int64."""
    won, leads = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
    for some, logits in _logits(lm, hidden):
        check_finite(lm, logits)
        found = winners(filtered(logits, decoding), keys[some], steps[some], near)
        won.append(found[0].cpu().numpy())
        leads.append(found[1].cpu().numpy())
    return np.concatenate(won), np.concatenate(leads)
