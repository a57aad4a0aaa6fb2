"""Sampled continuations in which every prompt has its own random stream.

Sampling is an argmax over logits + Gumbel noise (Gumbel-max trick: exactly softmax sampling). The
noise is a pure function of (seed, prompt, step, token), so a text does not depend on the batch it
was drawn in. A pruned variant meets the same noise as the dense model: where its distribution did
not move, it says the same words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch

from engine.core.errors import PruneAuditError
from engine.core.types import Decoding, Hooks, stream_keys
from engine.models import runtime
from engine.models.load_language_model import LanguageModel
from engine.models.packing import Batch, Laid, forward, packed, padded

Told = Callable[[int, Sequence[int]], None]
"""Takes a prompt's place and its tokens so far, as they are drawn; from the start again where
memory ran out."""
Heard = Callable[[Sequence[int], Laid | None], None]
"""Takes the places of the texts in a batch, and how they lie in it; None for a row each, in that
order."""


def filtered(logits: torch.Tensor, decoding: Decoding) -> torch.Tensor:
    """Logits [batch, vocabulary] float32 after temperature, top-k and top-p; removed tokens become
    -inf."""
    logits = logits if decoding.temperature == 1.0 else logits / decoding.temperature
    if decoding.top_k > 0:
        floor = logits.topk(min(decoding.top_k, logits.shape[-1]), dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < floor, float("-inf"))
    if decoding.top_p < 1.0:
        ordered, order = logits.sort(dim=-1, descending=True)
        before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
        drop = torch.zeros_like(before, dtype=torch.bool).scatter(
            -1, order, before >= decoding.top_p
        )
        logits = logits.masked_fill(drop, float("-inf"))
    return logits


def prompt_tokens(lm: LanguageModel, texts: Sequence[str], limit: int) -> list[list[int]]:
    """Token ids of each prompt, its first `limit` tokens; an end-of-text the tokenizer appends is
    taken off. In a chat they stand in the template, which says itself what begins a text."""
    if not lm.chat:
        return token_rows(lm.tokenizer, texts, limit)
    before, behind = lm.turn
    rows = lm.tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    return [[*before, *ids[:limit], *behind] for ids in rows]


def token_rows(tokenizer: Any, texts: Sequence[str], limit: int | None) -> list[list[int]]:
    """As `prompt_tokens`, before a model is loaded; limit: None for all tokens. What begins a text
    by the tokenizer's rule begins it once, also where the text itself has it."""
    start, end = tokenizer.bos_token_id, tokenizer.eos_token_id
    rows = []
    for ids in tokenizer(list(texts))["input_ids"]:
        while len(ids) > 1 and ids[-1] == end:
            ids = ids[:-1]
        while start is not None and ids[:2] == [start, start]:
            ids = ids[1:]
        rows.append(list(ids[:limit]))
    return rows


CUE = " Let's think step by step."
"""What has a model reason before it answers (Kojima et al. 2022); it begins the answer."""


def cue_tokens(tokenizer: Any) -> list[int]:
    """Token ids of CUE."""
    return list(tokenizer(CUE, add_special_tokens=False)["input_ids"])


@dataclass(frozen=True)
class Begun:
    """Texts to be drawn on, one entry per text: token ids of its prompt, its stream key (int64),
    and the tokens that it has drawn already."""

    prompts: Sequence[Sequence[int]]
    keys: np.ndarray
    drawn: Sequence[Sequence[int]]

    def __len__(self) -> int:
        return len(self.prompts)

    def of(self, places: Sequence[int]) -> Begun:
        """Some of them."""
        at = list(places)
        return Begun(
            [self.prompts[one] for one in at], self.keys[at], [self.drawn[one] for one in at]
        )

    def rows(self) -> list[list[int]]:
        """Token ids of all that is there."""
        return [[*prompt, *new] for prompt, new in zip(self.prompts, self.drawn, strict=True)]


def laid_of(lm: LanguageModel, texts: Sequence[list[int]], kinds: Sequence[int]) -> Laid | None:
    """How texts of token ids are read together; None where there is nothing to read."""
    return (packed if lm.adapter.packs else padded)(texts, kinds, lm.model) if any(texts) else None


@torch.no_grad()
def _sample(
    lm: LanguageModel,
    begun: Begun,
    decoding: Decoding,
    hooks: Hooks,
    told: Told | None,
    near: float,
    batch: Heard,
    kinds: Sequence[int],
) -> tuple[list[list[int]], np.ndarray]:
    """All drawn tokens of one batch, up to and including end-of-text, and the lead of every token
    drawn here over its runner-up, [texts, steps] float32, never more than `near`.

    What texts of a kind have begun with in common is read once. Rows that ended leave the batch at
    once; `batch` hears who is in it.
    """
    rows = [row or [0] for row in begun.rows()]
    before = [row[:-1] for row in rows]
    alive = torch.arange(len(rows), device=lm.device)
    past, real = None, alive.new_zeros(len(rows), 0)
    hooks.check()
    if laid := laid_of(lm, before, kinds):
        batch(range(len(rows)), laid)
        past, real = laid.cache(lm.model), laid.real
    ids, positions = (
        torch.tensor(one, device=lm.device)[:, None]
        for one in ([row[-1] for row in rows], [len(one) for one in before])
    )
    streams = torch.from_numpy(begun.keys).to(lm.device)
    steps = torch.tensor([len(new) for new in begun.drawn], device=lm.device)
    leads = np.full((len(begun), decoding.max_new_tokens), near, np.float32)
    ends = torch.tensor(sorted(lm.ends), dtype=torch.int64, device=lm.device)
    out = [list(new) for new in begun.drawn]
    done, most = 0, max(1, decoding.max_new_tokens - min(map(len, begun.drawn), default=0))
    batch(range(len(rows)), None)
    while True:
        hooks.check()
        real = torch.cat([real, real.new_ones(len(real), 1)], dim=1)
        result = forward(lm.model, Batch(ids, real, positions), past)
        past, logits = result.past_key_values, result.logits[:, -1].float()
        check_finite(lm, logits)
        token, lead = winners(filtered(logits, decoding), streams[alive], steps, near)
        places = alive.tolist()
        leads[places, [len(out[at]) for at in places]] = lead.cpu().numpy()
        for at, value in zip(places, token.tolist(), strict=True):
            out[at].append(value)
            if told:
                told(at, out[at])
        steps = steps + 1
        done += 1
        hooks.inside(done / most)
        going = (steps < decoding.max_new_tokens) & ~torch.isin(token, ends)
        if not bool(going.any()):
            break
        if not bool(going.all()):
            keep = going.nonzero(as_tuple=True)[0]
            past.batch_select_indices(keep)
            alive, token, real, positions, steps = (
                part[keep] for part in (alive, token, real, positions, steps)
            )
            batch(alive.tolist(), None)
        ids, positions = token[:, None], positions + 1
    return out, leads


def check_finite(lm: LanguageModel, logits: torch.Tensor) -> None:
    """PruneAuditError unless all of logits [texts, vocabulary] are finite: NaN and inf both show in
    the maximum."""
    if not bool(torch.isfinite(logits.amax(-1)).all()):
        what = "no finite probability for the next token of some texts"
        raise PruneAuditError(lm.unusable(what))


def begin(
    lm: LanguageModel,
    texts: Sequence[str],
    prompt_ids: Sequence[str],
    seeds: Sequence[int],
    decoding: Decoding,
) -> Begun:
    """Texts of which nothing is drawn yet; (seed, prompt_id) names the random stream of each. The
    prompt is cut to `decoding.max_prompt_tokens`."""
    rows = prompt_tokens(lm, texts, decoding.max_prompt_tokens)
    keys = np.array(
        [stream_keys(seed, [name])[0] for seed, name in zip(seeds, prompt_ids, strict=True)],
        np.int64,
    )
    return Begun(rows, keys, [[] for _ in rows])


def sample(
    lm: LanguageModel,
    texts: Sequence[str],
    prompt_ids: Sequence[str],
    seeds: Sequence[int],
    decoding: Decoding,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    batch_size: int | None = None,
    told: Told | None = None,
) -> list[list[int]]:
    """New token ids for each prompt, in the order given; `told` hears of each as it is drawn.

    texts, prompt_ids and seeds have one entry per prompt; (seed, prompt_id) names its random
    stream. The prompt is cut to `decoding.max_prompt_tokens`, and the answer stops at end-of-text
    (kept as the last token) or at the limit.
    """
    return draw_on(
        lm, begin(lm, texts, prompt_ids, seeds, decoding), decoding, hooks, batch_size, told
    )[0]


def draw_on(
    lm: LanguageModel,
    begun: Begun,
    decoding: Decoding,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    batch_size: int | None = None,
    told: Told | None = None,
    near: float = 0.0,
    batch: Heard = lambda places, laid: None,
    kinds: Sequence[int] | None = None,
) -> tuple[list[list[int]], np.ndarray]:
    """All drawn tokens of each text, and the leads of those drawn here, [texts, steps] float32 (see
    `_sample`).

    `batch` hears which texts are read, whenever that changes; first all, with what those of one of
    the `kinds` begin with in common once.
    """
    order, size = _order(lm, begun, decoding)
    size = batch_size or size
    out: list[list[int]] = [[] for _ in order]
    leads = np.full((len(order), decoding.max_new_tokens), near, np.float32)

    def draw(n: int, places: list[int]) -> tuple[int, tuple[list[list[int]], np.ndarray]]:
        hear = told and (lambda at, tokens: told(places[at], tokens))
        inside = lambda rows, laid: batch([places[at] for at in rows], laid)  # noqa: E731
        mine = hooks.within(1 - len(places) / len(begun), min(n, len(places)) / len(begun))
        some = [kinds[at] if kinds else 0 for at in places[:n]]
        return n, _sample(lm, begun.of(places[:n]), decoding, mine, hear, near, inside, some)

    while order:
        size, (drawn, lead) = runtime.with_backoff(partial(draw, places=order), size)
        leads[order[:size]] = lead
        for at, tokens in zip(order[:size], drawn, strict=True):
            out[at] = tokens
        order = order[size:]
    return out, leads


def together(lm: LanguageModel, begun: Begun, decoding: Decoding) -> list[list[int]]:
    """Places of the texts that `draw_on` draws in one batch, batch by batch, where memory does not
    run out."""
    order, size = _order(lm, begun, decoding)
    return [order[at : at + size] for at in range(0, len(order), size)]


def _order(lm: LanguageModel, begun: Begun, decoding: Decoding) -> tuple[list[int], int]:
    """Places of texts in the order in which they are drawn, and how many at once."""
    rows = begun.rows()
    # texts with as many steps left together, so that batches end at once; then equal lengths:
    # little padding; then equal texts, which are read once
    key = lambda at: (len(begun.drawn[at]), len(rows[at]), rows[at], at)  # noqa: E731
    order = sorted(range(len(begun)), key=key)
    longest = max(map(len, rows), default=0) + decoding.max_new_tokens
    return order, runtime.texts_at_once(lm, batch_of(lm), longest)


def batch_of(lm: LanguageModel) -> int:
    """Texts that are drawn at once where there is room for them. A step of 1,024 texts took
    a GPU little longer than one of 64, seen once."""
    return 128 if lm.device.type == "cpu" else 1024


def text_of(lm: LanguageModel, tokens: Sequence[int]) -> str:
    """The continuation as text, special tokens left out."""
    return lm.tokenizer.decode(list(tokens), skip_special_tokens=True).strip()


# The Gumbel noise of every prompt, step and token, and the token that wins with it.
#
# The noise is a pure function of (stream key, step, token): 53 bits of SplitMix64, then −log(−log
# u) in double precision. Which token wins hardly needs it: a bound of the noise read off the upper
# bits, in single precision, leaves one or two tokens of a vocabulary, and only theirs is computed.
# The winner is to the bit that of all the noise.

# 0x9E3779B97F4A7C15 as int64, the increment of SplitMix64 (Steele et al. 2014).
_GOLDEN = -7046029254386353131
_MIX1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MIX2 = -7723592293110705685  # 0x94D049BB133111EB
BLOCK = 65_536
"""Numbers handled at once on a CPU: few enough to stay in its cache."""
_SLOPE, _TOP = -math.log(2) * 2.0**-23, math.log(2) * (31 + 127) + 1e-4
"""−log of what a float32's bits at least stand for, as a straight line of these bits (see
`_bounds`)."""


def gumbel(keys: torch.Tensor, step: int | torch.Tensor, vocabulary: int) -> torch.Tensor:
    """Standard Gumbel noise, [rows, vocabulary] float32, of one step or each row's own, [rows]
    int64.

    keys: stream keys, [rows] int64.
    """
    tokens = torch.arange(1, vocabulary + 1, device=keys.device, dtype=torch.int64)
    return _noise(_mix(_bases(keys, step)[:, None] + tokens * _GOLDEN))


def winners(
    logits: torch.Tensor, keys: torch.Tensor, step: int | torch.Tensor, near: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """argmax of logits + `gumbel`, [rows] int64, and by how much it leads, [rows] float32, never
    more than `near`.

    logits: [rows, vocabulary] float32, -inf where a token cannot come; the others as in `gumbel`. A
    tie goes to the lower token.
    """
    if logits.device.type != "cpu":
        scores = logits + gumbel(keys, step, logits.shape[-1])
        two = scores.topk(min(2, scores.shape[-1]), dim=-1).values
        return scores.argmax(-1), (two[:, 0] - two[:, -1]).clamp(max=near)
    found, leads = _won(
        logits.contiguous().numpy(), _bases(keys, step).numpy().view(np.uint64), near
    )
    return torch.from_numpy(found), torch.from_numpy(leads)


def _won(logits: np.ndarray, bases: np.ndarray, near: float) -> tuple[np.ndarray, np.ndarray]:
    """`winners` on a CPU: logits [rows, vocabulary] float32, bases [rows] uint64.

    The token that is first by the bound is computed; any that beats it, or comes near, has a bound
    that does.
    """
    at_most, rows = _bounds(logits, bases), np.arange(len(logits))
    lowest = _scores(logits, bases, rows, at_most.argmax(axis=1)) - np.float32(near)
    row, token = np.divmod(np.flatnonzero(at_most >= lowest[:, None]), logits.shape[1])
    scores = np.full(
        (len(logits), int(np.bincount(row, minlength=1).max(initial=1))), -np.inf, np.float32
    )
    starts = np.searchsorted(row, rows)
    scores[row, np.arange(len(row)) - starts[row]] = _scores(logits, bases, row, token)
    first = scores.argmax(axis=1)  # of a row's tokens the lower ones come first
    top = scores[rows, first]
    scores[rows, first] = -np.inf
    return token[starts + first], np.minimum(top - scores.max(axis=1), np.float32(near))


def _scores(
    logits: np.ndarray, bases: np.ndarray, row: np.ndarray, token: np.ndarray
) -> np.ndarray:
    """logits + noise of single tokens, [n] float32; row and token [n] int64."""
    hashed = _mix(
        torch.from_numpy(bases[row].view(np.int64)) + torch.from_numpy(token + 1) * _GOLDEN
    )
    return logits[row, token] + _noise(hashed).numpy()


def _bounds(logits: np.ndarray, bases: np.ndarray) -> np.ndarray:
    """What logits + noise is at most, and above it by little, [rows, vocabulary] float32; arguments
    as of `_won`.

    −log(−log u) ≤ −log(1 − u), whose upper 31 bits stand before the mixer's last step already, as
    that step leaves them alone. And log2 of a float32 is at least its bits as an integer, over
    2^23, less 127.
    """
    out, steps = np.empty(logits.shape, np.float32), _steps(logits.shape[1])
    rows = min(len(logits), max(1, BLOCK // logits.shape[1]))
    whole = np.empty((2, rows, logits.shape[1]), np.uint64)
    for at in range(0, len(logits), rows):
        part = slice(at, at + rows)
        mixed, spare = whole[:, : len(bases[part])]
        np.add(bases[part, None], steps, out=mixed)
        for bits, factor in ((30, _MIX1), (27, _MIX2)):
            np.right_shift(mixed, np.uint64(bits), out=spare)
            np.bitwise_xor(mixed, spare, out=mixed)
            np.multiply(mixed, np.uint64(factor % 2**64), out=mixed)
        np.invert(mixed, out=mixed)
        np.right_shift(mixed, np.uint64(33), out=mixed)
        left = mixed.view(np.int64).astype(np.float32)  # 1 − u in steps of 2^-31, rounded down
        bound = np.multiply(
            left.view(np.int32).astype(np.float32), np.float32(_SLOPE), out=out[part]
        )
        bound += np.float32(_TOP)
        bound += logits[part]
    return out


@lru_cache(maxsize=8)
def _steps(vocabulary: int) -> np.ndarray:
    """What each token adds to a row's base, [vocabulary] uint64."""
    return np.arange(1, vocabulary + 1, dtype=np.uint64) * np.uint64(_GOLDEN % 2**64)


def _bases(keys: torch.Tensor, step: int | torch.Tensor) -> torch.Tensor:
    """What a row's noise at a step grows from, [rows] int64."""
    return _mix(keys + (torch.zeros_like(keys) + step + 1) * _GOLDEN)


def _noise(mixed: torch.Tensor) -> torch.Tensor:
    """Gumbel noise of mixed bits, int64 of any shape, as float32."""
    uniform = (_shift(mixed, 11).double() + 0.5) * 2.0**-53
    return (-torch.log(-torch.log(uniform))).float()


def _shift(x: torch.Tensor, bits: int) -> torch.Tensor:
    """Logical right shift of int64, of any shape."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _mix(x: torch.Tensor) -> torch.Tensor:
    """SplitMix64's finaliser on int64 of any shape; overflow wraps by intent."""
    x = (x ^ _shift(x, 30)) * _MIX1
    x = (x ^ _shift(x, 27)) * _MIX2
    return x ^ _shift(x, 31)
