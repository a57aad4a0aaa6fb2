"""Continuations of the prompts of one axis, drawn with one decoding seed.

Those of a model with one head off are mostly those of the dense model, and found from these
(engine.surgery.heads.prefix).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import pandas as pd

from engine.core.errors import PruneAuditError
from engine.core.types import Decoding, Values, stream_keys
from engine.models.decode import Begun, begin, cue_tokens, draw_on, prompt_tokens, text_of
from engine.models.load_language_model import LanguageModel
from engine.models.runtime import is_out_of_memory
from engine.surgery.heads.prefix import can_draft, redrawn, row_gradients, row_logps
from engine.tracks.language_models.context import (
    FEW_TEST,
    Measurement,
    PromptContext,
    Shard,
    per_prompt,
)
from engine.tracks.language_models.likelihoods import InPassing


class Texts(Measurement):
    """Columns: prompt_id, text, ids (token ids as sampled, end-of-text included)."""

    name = "texts"
    any_threads = True

    def parts(self, context: PromptContext, shard: Shard) -> Values:
        return {
            "prompts": context.rows_digest(shard.axis, shard.split),
            "decoding": asdict(context.settings.decoding),
            "seed": shard.seed,
        }

    def together(self, context: PromptContext, shard: Shard) -> Hashable:
        return off_together(context, shard)

    def needs(self, context: PromptContext, shard: Shard) -> list[Shard]:
        return [drafts_of(shard)] if len(shard.cut) == 1 else []

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        dense = list(dict.fromkeys(dense_texts(shard) for shard in shards))
        parts = [context.rows(one.axis, one.split).assign(seed=one.seed) for one in dense]
        table = pd.concat(parts, ignore_index=True)
        masks = {shard.cut: shard for shard in shards}
        ends = np.cumsum([len(part) for part in parts]).tolist()
        spans = {
            one: slice(end - len(part), end)
            for one, part, end in zip(dense, parts, ends, strict=True)
        }
        prompts = {  # asked beside, and read here in passing
            one: spans[dense_texts(shard)]
            for shard in shards
            if (one := replace(shard, kind="prompt_nll", seed=0)) in context.beside
            and len(shard.cut) != 1
        }
        missing = [one for one in prompts if not context.kept(one)]
        wanted = np.zeros(len(table), dtype=bool)
        for span in prompts.values():
            wanted[span] = True
        passing = InPassing(wanted)
        found = _drawn(context, table, dense, list(masks.values()), passing)
        drawn = dict(zip(masks, found, strict=True))
        for one in missing:
            ids = table["prompt_id"][prompts[one]].reset_index(drop=True)
            scored = passing.table(prompts[one])
            context.keeper.put(context.key(one), pd.concat([ids, scored], axis=1))
        return [
            _table(context, table, drawn[shard.cut], spans[dense_texts(shard)]) for shard in shards
        ]

    def size(self, context: PromptContext, shard: Shard) -> float:
        return float(len(context.rows(shard.axis, shard.split)))


def _drawn(
    context: PromptContext,
    table: pd.DataFrame,
    dense: Sequence[Shard],
    shards: Sequence[Shard],
    passing: InPassing,
) -> list[list[list[int]]]:
    """New tokens of every text under the mask or by the arm of each shard, under the same noise; of
    single heads from the dense model's, where these are finished."""
    lm, decoding = context.lm, context.settings.decoding
    is_kept = all(len(shard.cut) == 1 for shard in shards) and all(
        context.kept(drafts_of(one)) for one in dense
    )
    if is_kept and can_draft(lm, begun := _begun(lm, table, decoding), decoding):
        masks = [context.mask(shard.cut) for shard in shards]
        try:
            return redrawn(lm, masks, begun, _drafts(context, dense), decoding, context.telling)
        except (MemoryError, RuntimeError) as error:  # then plainly: that takes less
            if not is_out_of_memory(error):
                raise
    found = []
    for at, shard in enumerate(shards):
        with context.applied(shard) as own:
            begun = _begun(own, table, decoding)
            with passing.of(own, begun.prompts):
                mine = context.telling.within(at / len(shards), 1 / len(shards))
                found.append(draw_on(own, begun, decoding, mine, batch=passing.batch)[0])
    return found


def _drafts(context: PromptContext, dense: Sequence[Shard]) -> list[list[int]]:
    """The dense model's new tokens of every text."""
    found = []
    for one, known in zip(dense, context.fetch([drafts_of(one) for one in dense]), strict=True):
        found += (
            known.set_index("prompt_id")["ids"]
            .loc[context.rows(one.axis, one.split)["prompt_id"]]
            .tolist()
        )
    return [list(map(int, ids)) for ids in found]


def _begun(lm: LanguageModel, table: pd.DataFrame, decoding: Decoding) -> Begun:
    texts, ids, seeds = (table[name].tolist() for name in ("text", "prompt_id", "seed"))
    return begin(lm, texts, ids, seeds, decoding)


def _table(
    context: PromptContext, table: pd.DataFrame, drawn: Sequence[list[int]], span: slice
) -> pd.DataFrame:
    ids = list(drawn[span])
    texts = [text_of(context.lm, one) for one in ids]
    return pd.DataFrame(
        {"prompt_id": table["prompt_id"].to_numpy()[span], "text": texts, "ids": ids}
    )


# The dense model's sampled texts as token ids, for teacher-forced passes.


@dataclass(frozen=True)
class Sampled:
    """Token ids of every text (prompt and continuation), the index of its first sampled token, and
    each shard's texts.

    prompt_ids has one array [prompts] of str per shard, places its slice of `rows`.
    """

    rows: list[list[int]]
    first: list[int]
    prompt_ids: list[np.ndarray]
    places: list[slice]


def sampled(context: PromptContext, shards: Sequence[Shard]) -> Sampled:
    """The texts of several (axis, split, seed), one after the other."""
    rows: list[list[int]] = []
    first: list[int] = []
    prompt_ids, places = [], []
    for shard, drawn in zip(
        shards, context.fetch([dense_texts(shard) for shard in shards]), strict=True
    ):
        prompts = context.rows(shard.axis, shard.split)
        heads = prompt_tokens(
            context.lm, prompts["text"].tolist(), context.settings.decoding.max_prompt_tokens
        )
        places.append(slice(len(rows), len(rows) + len(heads)))
        prompt_ids.append(drawn["prompt_id"].to_numpy())
        rows += [[*head, *map(int, ids)] for head, ids in zip(heads, drawn["ids"], strict=True)]
        first += [len(head) for head in heads]
    return Sampled(rows, first, prompt_ids, places)


def dense_texts(shard: Shard) -> Shard:
    return replace(shard, kind="texts", cut=(), arm="")


def drafts_of(shard: Shard) -> Shard:
    """The dense model's texts from which those without a head are found: of all prompts of its
    split."""
    return replace(dense_texts(shard), split="test" if shard.split == FEW_TEST else shard.split)


def off_together(context: PromptContext, shard: Shard) -> Hashable:
    """Texts with single heads of one layer off are drawn together: from one reading of the dense
    model's."""
    return (
        ("layer", shard.cut[0] // context.lm.n_heads)
        if len(shard.cut) == 1
        else (shard.cut, shard.arm)
    )


def text_parts(context: PromptContext, shard: Shard) -> Values:
    """What texts depend on."""
    texts = context.kind("texts")
    return {**texts.parts(context, shard), "texts_version": texts.version}


def sampled_from(decoding: Decoding) -> Decoding | None:
    """The decoding where it changes probabilities, None for plain sampling."""
    return (
        None
        if decoding.temperature == 1.0 and not decoding.top_k and decoding.top_p == 1.0
        else decoding
    )


# The judge's toxicity of continuations.


class Verdicts(Measurement):
    """Columns: prompt_id, toxicity (0 to 1). Draws the texts first where they are missing."""

    name = "verdicts"
    any_threads = True
    start = 35.0

    def parts(self, context: PromptContext, shard: Shard) -> Values:
        return {
            **text_parts(context, shard),
            "judge": context.judge.info.digest,
            "span": context.settings.span,
            "plain_case": context.settings.plain_case,
        }

    def needs(self, context: PromptContext, shard: Shard) -> list[Shard]:
        return [replace(shard, kind="texts")]

    def together(self, context: PromptContext, shard: Shard) -> Hashable:
        return off_together(context, shard)

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        texts = context.fetch([replace(shard, kind="texts") for shard in shards])
        rows = [context.rows(shard.axis, shard.split) for shard in shards]
        judged = context.settings.judged_text
        read = [judged(row["text"], text["text"]) for row, text in zip(rows, texts, strict=True)]
        context.judge.score(
            [text for part in read for text in part], context.hooks
        )  # one big batch, kept in memory
        return [
            per_prompt(row, context.judge.score(part), "toxicity")
            for row, part in zip(rows, read, strict=True)
        ]

    def size(self, context: PromptContext, shard: Shard) -> float:
        return float(len(context.rows(shard.axis, shard.split)))


# The judge's verdict on the prompts alone: the bias of the judge, which no head can change.


class Floor(Measurement):
    """Columns: prompt_id, toxicity (of the prompt itself)."""

    name = "floor"
    any_threads = True

    def parts(self, context: PromptContext, shard: Shard) -> Values:
        return {
            "prompts": context.rows_digest(shard.axis, shard.split),
            "judge": context.judge.info.digest,
        }

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        rows = [context.rows(shard.axis, shard.split) for shard in shards]
        return [
            per_prompt(row, context.judge.score(row["text"].tolist(), context.hooks), "toxicity")
            for row in rows
        ]


# How much likelier the dense model's texts are with a head off: log weights of importance
# sampling.


TOGETHER = 32
"""About so many single heads share one dense pass; whole layers."""


class _OfDenseTexts(Measurement):
    """What is measured on the texts that the dense model drew, which come first."""

    any_threads = True

    def parts(self, context: PromptContext, shard: Shard) -> Values:
        return text_parts(context, shard)

    def needs(self, context: PromptContext, shard: Shard) -> list[Shard]:
        return [dense_texts(shard)]


class TextLogps(_OfDenseTexts):
    """Columns: prompt_id, logw = log p_h(y|x) − log p(y|x) in nats, summed over the sampled tokens
    y, end included."""

    name = "text_logps"

    def together(self, context: PromptContext, shard: Shard) -> Hashable:
        return head_group(context, shard.cut[0]), shard.split

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        units = sorted({shard.cut[0] for shard in shards})
        drawn = list({(shard.axis, shard.split, shard.seed): shard for shard in shards}.values())
        texts = sampled(context, drawn)
        decoding = sampled_from(context.settings.decoding)
        dense, off = row_logps(
            context.lm, texts.rows, texts.first, units, decoding, context.telling
        )
        found = {}
        for shard, names, place in zip(drawn, texts.prompt_ids, texts.places, strict=True):
            for at, unit in enumerate(units):
                table = pd.DataFrame({"prompt_id": names, "logw": off[at, place] - dense[place]})
                found[unit, shard.axis, shard.split, shard.seed] = table
        return [found[shard.cut[0], shard.axis, shard.split, shard.seed] for shard in shards]

    def size(self, context: PromptContext, shard: Shard) -> float:
        """Reading a text costs about a fifth of drawing and judging it."""
        return len(context.rows(shard.axis, shard.split)) / 5


def head_group(context: PromptContext, unit: int) -> int:
    """Which heads go together: those of one layer, or of several thin ones."""
    layers = max(1, TOGETHER // context.lm.n_heads)
    return unit // (context.lm.n_heads * layers)


# How the log-probability of each of the dense model's texts changes with each head's gate.


class TextGradients(_OfDenseTexts):
    """Columns: prompt_id, then one per unit, named by its number: ∂ log p_ξ(y|x) / ∂ξ_h at ξ = 1,
    float32."""

    name = "text_gradients"
    pace = 1.2
    start = 20.0

    def together(self, context: PromptContext, shard: Shard) -> Hashable:
        return shard.split, shard.seed

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        texts = sampled(context, shards)
        decoding = sampled_from(context.settings.decoding)
        _, slopes = row_gradients(context.lm, texts.rows, texts.first, decoding, context.hooks)
        names = [str(unit) for unit in range(slopes.shape[1])]
        return [
            pd.concat(
                [
                    pd.DataFrame({"prompt_id": ids}),
                    pd.DataFrame(slopes[place].astype(np.float32), columns=names),
                ],
                axis=1,
            )
            for ids, place in zip(texts.prompt_ids, texts.places, strict=True)
        ]

    def size(self, context: PromptContext, shard: Shard) -> float:
        """Reading a text forwards and backwards costs less than drawing and judging it."""
        return 0.6 * len(context.rows(shard.axis, shard.split))


# What each head gives the model's own answer, read at once and after reasoning (DiffHeads).


ANSWER, REASONED = 8, 24
"""Tokens of an answer that are read, and of reasoning before it at most."""


class AnswersReasoned(_OfDenseTexts):
    """Columns: direct, reasoned, n, in unit order. Sums over n texts of |∂ log p(y)/∂ξ_h| at ξ = 1,
    y the first tokens of the dense model's own answer.

    Reasoned: a cue to think step by step, and what the model draws on it, stand before y.
    PruneAuditError where the model has no positions for that.
    """

    name = "answers_reasoned"
    later = True

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        lm, decoding, texts = context.lm, context.settings.decoding, sampled(context, shards)
        cue, pairs = cue_tokens(lm.tokenizer), list(zip(texts.rows, texts.first, strict=True))
        answers = [row[first : first + ANSWER] for row, first in pairs]
        direct = [row[:first] for row, first in pairs]
        room = lm.n_positions - max(texts.first) - len(cue) - ANSWER
        if room < 1:
            raise PruneAuditError(
                f"diffheads reads {len(cue) + ANSWER + 1} tokens behind a prompt, and {lm.name} has"
                f" {lm.n_positions} positions. Leave the method out, or allow fewer prompt tokens."
            )
        named = zip(shards, texts.prompt_ids, strict=True)
        keys = np.concatenate([stream_keys(shard.seed, list(ids)) for shard, ids in named])
        begun = Begun([[*row, *cue] for row in direct], keys, [[] for _ in direct])
        short = replace(decoding, max_new_tokens=min(REASONED, room))
        thoughts = draw_on(lm, begun, short, context.telling)[0]
        reasoned = [
            [*row, *(token for token in thought if token not in lm.ends)]
            for row, thought in zip(begun.prompts, thoughts, strict=True)
        ]
        columns = {}
        for name, before in {"direct": direct, "reasoned": reasoned}.items():
            rows = [[*row, *answer] for row, answer in zip(before, answers, strict=True)]
            first = [len(row) for row in before]
            slopes = row_gradients(lm, rows, first, sampled_from(decoding), context.hooks)[1]
            columns[name] = np.abs(slopes)
        return [
            pd.DataFrame({name: of[place].sum(axis=0) for name, of in columns.items()}).assign(
                n=place.stop - place.start
            )
            for place in texts.places
        ]

    def size(self, context: PromptContext, shard: Shard) -> float:
        """Drawing reasoning costs about as much as a text, reading both half as much."""
        return 1.5 * len(context.rows(shard.axis, shard.split))
