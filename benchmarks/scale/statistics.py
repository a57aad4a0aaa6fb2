"""Statistics of the embedded audit of a language model, from finished parts to tables, over drawing
its texts.

Verdicts and texts of test prompts are the run's own. What a run does not keep (perplexities of
windows and prompts, verdicts of the search for γ) is made up in the shapes it had. Parts are read
from a store, as an audit reads them.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from benchmarks.report import Measure, timed
from benchmarks.scoring_bench import DEMO, open_bench
from engine.audit.session import Progress
from engine.core.types import rng
from engine.store.runs import EMBEDDED, Run, Store
from engine.tracks.language_models.context import PromptContext, Shard
from engine.tracks.language_models.opening import context_of
from engine.tracks.language_models.request import AuditRequest, validate
from engine.tracks.language_models.tables import Measured, wanted_shards
from engine.tracks.language_models.variants import Variant

RUN, BAR, DRAWN, WINDOW = "4a959528a6b2d3f8", 0.02, 240, 127


def measures() -> list[Measure]:
    run = Store(EMBEDDED).open(RUN)
    request, variants = AuditRequest.from_dict(run.request), variants_of(run)
    context = context_of(validate(request))
    with tempfile.TemporaryDirectory() as folder:
        context = replace(context, keeper=Store(Path(folder)).shards)
        shards = wanted_shards(request, variants)
        keep(context, run, variants, shards)
        measured = Measured(context, request, Progress(lambda event: None))
        _, seconds = timed(lambda: measured.tables(variants), time.process_time)
    texts = sum(
        len(context.rows(shard.axis, shard.split)) for shard in shards if shard.kind == "verdicts"
    )
    name = "statistics of the embedded audit"
    return [
        Measure(
            f"{name} over drawing and judging its {texts} texts plainly",
            seconds / (texts * _per_text()),
            "",
            BAR,
        ),
        Measure(name, seconds, "s of processor time"),
    ]


def _per_text() -> float:
    """Processor seconds of drawing and judging one text of the dense demo."""
    context = open_bench(DEMO, DRAWN)
    shards = [Shard("verdicts", (), DEMO.axis, "validation")]
    (table,), seconds = timed(lambda: context.fetch(shards), time.process_time)
    return seconds / len(table)


def variants_of(run: Run) -> list[Variant]:
    """Every variant of a run, as its table names them."""
    return [
        Variant(
            row.variant,
            row.method,
            row.target_axis,
            row.gamma,
            row.sparsity,
            row.seed,
            tuple(json.loads(row.cut)),
            bool(row.chosen),
        )
        for row in run.table("variants").itertuples()
    ]


def keep(
    context: PromptContext, run: Run, variants: Sequence[Variant], shards: Sequence[Shard]
) -> None:
    """Finished parts in the context's store: the run's own where it has them."""
    own = dict(_own(context, run, {one.id: one.cut for one in variants}))
    texts = [
        replace(shard, kind="texts")
        for shard in shards
        if shard.kind == "verdicts" and shard.split == "test"
    ]
    for shard in [*shards, *texts]:
        table = own[shard] if shard in own else _made_up(context, shard)
        context.keeper.put(context.key(shard), table)


def _own(
    context: PromptContext, run: Run, cuts: dict[str, tuple[int, ...]]
) -> Iterator[tuple[Shard, pd.DataFrame]]:
    words, verdicts = run.table("texts")["text"].to_numpy(), run.table("generations")
    ids = [list(row) for row in context.lm.tokenizer(list(words))["input_ids"]]
    for (variant, split, axis, seed), part in verdicts.groupby(
        ["variant", "split", "axis", "seed"]
    ):
        where, at = (cuts[variant], axis, split, int(seed)), part["text_id"].to_numpy()
        toxicity = part["toxicity"].astype("float64").to_numpy()
        named = pd.DataFrame({"prompt_id": part["prompt_id"].to_numpy()})
        yield Shard("verdicts", *where), named.assign(toxicity=toxicity)
        yield Shard("texts", *where), named.assign(text=words[at], ids=[ids[one] for one in at])
    for variant, part in run.table("costs").groupby("variant"):
        yield Shard("cost", cuts[variant]), part.drop(columns="variant")


def _made_up(context: PromptContext, shard: Shard) -> pd.DataFrame:
    """Numbers of no meaning in the shape of a part that the run does not keep."""
    made = rng("made up", shard)
    if shard.kind == "windows":
        count = len(context.tokens[shard.split]) // WINDOW
        nll = WINDOW * made.normal(0.8, 0.1, count)
        return pd.DataFrame({"window": range(count), "nll": nll, "tokens": WINDOW})
    ids = context.rows(shard.axis, shard.split)["prompt_id"].to_numpy()
    if shard.kind == "prompt_nll":
        tokens = made.integers(8, 20, len(ids))
        return pd.DataFrame(
            {"prompt_id": ids, "nll": tokens * made.normal(0.8, 0.1, len(ids)), "tokens": tokens}
        )
    return pd.DataFrame({"prompt_id": ids, "toxicity": made.beta(0.2, 0.2, len(ids))})
