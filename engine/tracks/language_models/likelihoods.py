"""Negative log-likelihoods of text under a language model, in nats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.nn.functional import cross_entropy

from engine.core.errors import PruneAuditError
from engine.core.types import Hooks, Window
from engine.models.decode import laid_of, prompt_tokens, token_rows
from engine.models.load_language_model import LanguageModel
from engine.models.packing import Laid, forward, left_pad
from engine.models.runtime import positions_at_once, rows_at_once
from engine.models.transformer import attached
from engine.surgery.heads.prefix import CPU_TOKENS, GPU_TOKENS, batches, pad_right
from engine.tracks.language_models.perplexity import rows_in, same_length, spans_of

FEW = 2**19
"""Probabilities that are held at once on a CPU, in numbers: blocks as large as all logits leave
holes in malloc's memory."""


def corpus_tokens(lm: LanguageModel, text: str) -> list[int]:
    """The whole text as token ids, without special tokens."""
    return lm.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]


def token_nll(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Negative log-likelihood in nats of ids[:, 1:], in float32. logits [b, t, v], ids [b, t] ->
    [b, t-1]. Text by text, where the logits of a token lie side by side."""
    rows = zip(logits, ids, strict=True)
    return torch.stack(
        [cross_entropy(row[:-1].float(), own[1:], reduction="none") for row, own in rows]
    )


@torch.no_grad()
def window_nll(
    lm: LanguageModel,
    tokens: list[int],
    window: Window,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    block: int | None = None,
) -> pd.DataFrame:
    """One row per window, or per `block` of its scored tokens: window (where it begins), nll (nats,
    summed), tokens (scored)."""
    spans = spans_of(len(tokens), window, lm.n_positions, lm.begin)
    rows = []
    longest, done = max((span.end - span.start for span in spans), default=1), 0
    for group in same_length(spans, rows_at_once(lm, 16, longest)):
        hooks.check()
        hooks.inside(done / len(spans))
        done += len(group)
        ids = torch.tensor([span.ids(tokens) for span in group], device=lm.device)
        first = min(span.scored for span in group)
        hidden = hidden_of(lm, ids)[:, first - 1 : -1].flatten(0, 1)
        nll = _nll_behind(lm, hidden, ids[:, first:].flatten()).view(len(ids), -1)
        for row, span in zip(nll.cpu().numpy().astype(np.float64), group, strict=True):
            rows += rows_in(row[span.scored - first :], span, block)
    return pd.DataFrame(rows, columns=["window", "nll", "tokens"])


@torch.no_grad()
def hidden_of(lm: LanguageModel, ids: torch.Tensor) -> torch.Tensor:
    """What the last norm gives for ids [b, t]: [b, t, hidden]."""
    return lm.adapter.backbone(lm.model)(input_ids=ids, use_cache=False).last_hidden_state


def logits_of(lm: LanguageModel, hidden: torch.Tensor) -> torch.Tensor:
    """Logits [n, vocabulary] float32 by rows of `hidden_of`, [n, hidden]."""
    return lm.adapter.logits(lm.model, hidden, normed=True).float()


def _nll_behind(lm: LanguageModel, hidden: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Negative log-likelihoods in nats of ids [n], each behind its own row of `hidden_of`,
    [n, hidden]: float32 [n]. A few at a time, for all their logits may be more than can be held.
    """
    step, found = positions_at_once(lm), []
    size = max(1, FEW // lm.vocab_size) if hidden.device.type == "cpu" else step
    for part, wanted in zip(hidden.split(step), ids.split(step), strict=True):
        few = zip(logits_of(lm, part).split(size), wanted.split(size), strict=True)
        found += [cross_entropy(*one, reduction="none") for one in few]
    return torch.cat(found)


class InPassing:
    """How well a model knows the prompts that it reads within `of`: those that are `wanted`,
    [prompts] bool. `batch` is told which are read together, up to their last token, as `draw_on`
    tells it."""

    def __init__(self, wanted: np.ndarray) -> None:
        self.wanted, self.found = wanted, np.full((len(wanted), 2), np.nan)
        self.places: Sequence[int] = ()
        self.laid: Laid | None = None

    def batch(self, places: Sequence[int], laid: Laid | None) -> None:
        self.places, self.laid = places, laid

    def table(self, span: slice) -> pd.DataFrame:
        """Of some prompts: nll (nats) and tokens scored. Of a chat's turn the prompt alone is."""
        nll, tokens = self.found[span].T
        if np.isnan(tokens).any():
            raise PruneAuditError("The model read prompts in a way that gives them no likelihood.")
        return pd.DataFrame({"nll": nll, "tokens": tokens.astype(int)})

    @contextmanager
    def of(self, lm: LanguageModel, prompts: Sequence[Sequence[int]]) -> Iterator[None]:
        """prompts: token ids. One token alone is not scored."""
        self.found[[len(prompt) < 2 for prompt in prompts]] = 0.0
        same: dict[tuple[int, ...], list[int]] = {}  # one is read for all
        for place in np.flatnonzero(self.wanted).tolist():
            same.setdefault(tuple(prompts[place]), []).append(place)

        def score(module: Any, args: Any, out: Any) -> None:
            laid, self.laid = self.laid, None  # some families' logits come by another call
            if laid is None:
                return
            texts = {tuple(prompts[place]): at for at, place in enumerate(self.places)}
            mine = [at for ids, at in texts.items() if ids in same]
            if not mine:
                return
            batch = left_pad([prompts[self.places[at]] for at in mine], lm.device)
            scored = batch.real[:, :-1] * batch.real[:, 1:]
            # of a turn, whether the token after each place is the prompt's own
            before, behind = map(len, lm.turn)
            place, whole = batch.real.cumsum(1)[:, 1:], batch.real.sum(1, keepdim=True)
            scored = scored * ((place > before) & (place <= whole - behind))
            at, place = scored.nonzero(as_tuple=True)
            text = torch.tensor(mine, device=lm.device)[at]
            where = laid.at[text, place + laid.at.shape[1] - scored.shape[1]]
            hidden = out.last_hidden_state[laid.row[text], where]
            each = scored.float()
            each[at, place] = _nll_behind(lm, hidden, batch.ids[at, place + 1])
            found = torch.stack([each.sum(1), scored.sum(1)], dim=1).cpu().numpy()
            for one, numbers in zip(mine, found, strict=True):
                self.found[same[tuple(prompts[self.places[one]])]] = numbers

        with attached([lm.adapter.holder(lm.model).register_forward_hook(score)]):
            yield


@torch.no_grad()
def prompt_nll(
    lm: LanguageModel,
    texts: list[str],
    limit: int,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
) -> pd.DataFrame:
    """How well the model knows each prompt: one row per text, in the order given, with the columns
    of `InPassing.table`."""
    rows = prompt_tokens(lm, texts, limit)
    order = sorted(range(len(rows)), key=lambda at: (len(rows[at]), rows[at]))
    size = rows_at_once(lm, 256, max(map(len, rows), default=1))
    passing = InPassing(np.ones(len(rows), dtype=bool))
    with passing.of(lm, rows):
        for at in range(0, len(order), size):
            hooks.check()
            some = order[at : at + size]
            laid = laid_of(lm, [rows[place][:-1] for place in some], [0] * len(some))
            passing.batch(some, laid)
            if laid:
                forward(lm.model, laid.batch, keep=False)
    return passing.table(slice(None))


# How likely a model finds each text of a benchmark: log-likelihoods in nats, of whole texts or
# of what follows one.
#
# The rule for a text without a prefix is the usual one for models that read from left to right: log
# p(w₁ … wₙ) = Σ log p(wᵢ | w₁ … wᵢ₋₁), all tokens scored, the first after the token that begins a
# text (the end-of-text token where the model knows no beginning). With a prefix, the tokens of the
# prefix are given and those after it are scored.


LOGITS = 2**27
"""Logits computed at once, in numbers: half a gigabyte."""


@dataclass(frozen=True)
class ScoredRows:
    """Token ids of each text, the index of its first scored token (at least 1), and whether it had
    to be shortened."""

    ids: list[list[int]]
    first: list[int]
    cut: list[bool]


def rows_of(tokenizer: Any, choices: pd.DataFrame, n_positions: int) -> ScoredRows:
    """choices: columns prefix and text. A row that is longer than the model can read loses its
    beginning."""
    prefixes, texts = choices["prefix"].tolist(), choices["text"].tolist()
    whole = [
        f"{prefix} {text}" if prefix else text for prefix, text in zip(prefixes, texts, strict=True)
    ]
    known = sorted({prefix for prefix in prefixes if prefix})
    heads = dict(zip(known, _rows(tokenizer, known), strict=True))
    ids, first, cut = [], [], []
    for prefix, row in zip(prefixes, _rows(tokenizer, whole), strict=True):
        start = max(1, _shared(heads[prefix], row)) if prefix else 1
        gone = max(0, len(row) - n_positions)
        ids.append(row[gone:])
        first.append(max(1, start - gone))
        cut.append(gone > 0)
    return ScoredRows(ids, first, cut)


def _rows(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Token ids, each row with the token that begins a text where there is one, so that its first
    word counts, too."""
    if not texts:
        return []
    begin = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    rows = token_rows(tokenizer, texts, 2**31)
    return [row if begin is None or row[:1] == [begin] else [begin, *row] for row in rows]


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two rows begin with alike."""
    pairs = zip(one, other, strict=False)
    return next(
        (at for at, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other))
    )


@torch.no_grad()
def choice_logps(
    lm: LanguageModel,
    choices: pd.DataFrame,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
) -> pd.DataFrame:
    """One row per row of `choices`, in their order: logp (nats, summed over the scored tokens),
    tokens, cut.

    What several texts of an item begin with is read once.
    """
    rows = rows_of(lm.tokenizer, choices, lm.n_positions)
    most = CPU_TOKENS if lm.device.type == "cpu" else GPU_TOKENS
    most = max(1, min(most, LOGITS // lm.model.config.vocab_size))
    logp, shared = np.zeros(len(rows.ids)), _by_beginning(rows)
    alone = sorted(set(range(len(rows.ids))) - {at for group in shared for at in group})
    for places in batches([rows.ids[at] for at in alone], most):
        hooks.check()
        mine = [alone[place] for place in places]
        padded = pad_right(
            [rows.ids[at] for at in mine], [rows.first[at] for at in mine], lm.device
        )
        if padded.ids.shape[1] > 1:
            logits = lm.model(input_ids=padded.ids, use_cache=False).logits
            # Σ log p of the scored tokens. logits [b, t, v], ids and target [b, t]
            # -> [b] float64.
            nll = token_nll(logits, padded.ids)
            logp[mine] = -(nll.double() * padded.target[:, 1:]).sum(1).cpu().numpy()
    for groups in _equally_long(rows, shared, most):
        hooks.check()
        mine = [at for group in groups for at in group]
        logp[mine] = _continued(lm, rows, groups)
    tokens = [len(row) - start for row, start in zip(rows.ids, rows.first, strict=True)]
    return pd.DataFrame({"logp": logp, "tokens": np.maximum(tokens, 0), "cut": rows.cut})


def _by_beginning(rows: ScoredRows) -> list[list[int]]:
    """Rows that share all tokens before the first that is scored, where these are several tokens
    and rows."""
    found: dict[tuple[int, ...], list[int]] = {}
    for at, (ids, first) in enumerate(zip(rows.ids, rows.first, strict=True)):
        if 1 < first < len(ids):
            found.setdefault(tuple(ids[:first]), []).append(at)
    return [group for group in found.values() if len(group) > 1]


def _equally_long(
    rows: ScoredRows, shared: list[list[int]], most: int
) -> Iterator[list[list[int]]]:
    """Groups whose beginnings are equally long, at most about `most` tokens of these in one batch,
    and as many of what follows them, with padding."""
    by_length: dict[int, list[list[int]]] = {}
    for group in shared:
        by_length.setdefault(rows.first[group[0]], []).append(group)
    for length, groups in sorted(by_length.items()):
        batch: list[list[int]] = []
        for group in groups:
            after = [len(rows.ids[at]) - length for one in (*batch, group) for at in one]
            if batch and max((len(batch) + 1) * length, len(after) * max(after)) > most:
                yield batch
                batch = []
            batch.append(group)
        yield batch


def _continued(lm: LanguageModel, rows: ScoredRows, groups: list[list[int]]) -> np.ndarray:
    """Log-likelihoods of all rows of these groups, one after the other, [rows] float64: their
    beginnings are read once and kept, then what follows."""
    length = rows.first[groups[0][0]]
    heads = torch.tensor([rows.ids[group[0]][:length] for group in groups], device=lm.device)
    read = lm.model(input_ids=heads, use_cache=True)
    of = torch.tensor(
        [place for place, group in enumerate(groups) for _ in group], device=lm.device
    )
    rests = [rows.ids[at][length:] for group in groups for at in group]
    ids = pad_right(rests, [0] * len(rests), lm.device)
    logits = read.logits[:, -1:][of]
    if ids.ids.shape[1] > 1:
        kept = read.past_key_values
        kept.batch_select_indices(of)
        more = lm.model(input_ids=ids.ids[:, :-1], past_key_values=kept, use_cache=True).logits
        logits = torch.cat([logits, more], dim=1)
    nll = torch.nn.functional.cross_entropy(
        logits.float().transpose(1, 2), ids.ids, reduction="none"
    )
    return -(nll.double() * ids.target).sum(1).cpu().numpy()
