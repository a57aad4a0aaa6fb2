"""Peak memory of measuring variants over that of one dense draw: a vocabulary of 50,257, 60 and 600
prompts.

Every case is a process of its own: drawing and judging 60 prompts with the dense model, or all that
a variant's numbers need with three heads off. Texts are short: a batch of them takes what its
logits take.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.report import Measure, in_a_process

DENSE_BAR, GROWTH_BAR = 1.3, 1.1
FEW, MANY, TOKENS, NEW = 60, 600, 2000, 6
CUT, AXIS, SPLIT = (1, 6, 11), "nationality", "validation"
WIDE = {"n_layer": 4, "n_embd": 256, "n_head": 4, "attn_implementation": "sdpa"}


def measures() -> list[Measure]:
    dense, few, many = (
        in_a_process(f"from benchmarks.scale.memory import case; case({variants}, {prompts})")
        for variants, prompts in ((False, FEW), (True, FEW), (True, MANY))
    )
    over = "peak memory of variants over that of a dense draw"
    return [
        Measure(f"{over}, {FEW} prompts", few / dense, "", DENSE_BAR),
        Measure(f"{over}, {MANY} prompts", many / dense, "", DENSE_BAR),
        Measure(f"peak memory of variants, {MANY} prompts over {FEW}", many / few, "", GROWTH_BAR),
        Measure("peak memory of the dense draw", dense / 2**30, "GB"),
    ]


def case(variants: bool, prompts: int) -> None:
    """Do it, and print the most bytes that this process took."""
    from benchmarks.scale._gpt2 import gpt2
    from engine.core.memory import peak
    from engine.tracks.language_models.context import Shard
    from engine.tracks.language_models.opening import context_of
    from engine.tracks.language_models.request import REQUEST, validate

    asked = replace(REQUEST, axes=(AXIS,), max_prompts=prompts, max_corpus_tokens=TOKENS)
    context = context_of(validate(replace(asked, max_new_tokens=NEW)))
    table = context.prompts.table.assign(split=SPLIT)
    context = replace(
        context,
        lm=gpt2(**WIDE),
        prompts=replace(context.prompts, table=table),
        settings=replace(context.settings, validation_share=1.0),
    )
    context.fetch([Shard("verdicts", (), AXIS, SPLIT)])
    if variants:
        context.fetch([Shard(kind, CUT, AXIS, SPLIT) for kind in ("verdicts", "prompt_nll")])
        context.fetch([Shard("windows", CUT, split=SPLIT)])
    print(peak())
