"""Peak memory of measuring variants over that of one dense draw: a vocabulary of 50,257, 60 and 600
prompts.

Every case is a process of its own: drawing and judging 60 prompts with the dense model, or all that
a variant's numbers need with three heads off. Texts are short: a batch of them takes what its
logits take.

And what tables and pages take over what their process took before, with as many prompts as the
embedded audit and ten times as many.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.report import Measure, in_a_process

DENSE_BAR, GROWTH_BAR = 1.3, 1.1
FEW, MANY, TOKENS, NEW = 60, 600, 2000, 6
CUTS = ((1, 6, 11),)
TIMES, VARIANTS = 10, (8, 40)
WIDE = {"n_layer": 4, "n_embd": 256, "n_head": 4, "attn_implementation": "sdpa"}


def measures() -> list[Measure]:
    dense, few, many = (
        in_a_process(f"from benchmarks.scale.memory import case; case({variants}, {prompts})")
        for variants, prompts in ((False, FEW), (True, FEW), (True, MANY))
    )
    return [
        Measure(
            f"peak memory of variants over that of a dense draw, {FEW} prompts",
            few / dense,
            "",
            DENSE_BAR,
        ),
        Measure(
            f"peak memory of variants over that of a dense draw, {MANY} prompts",
            many / dense,
            "",
            DENSE_BAR,
        ),
        Measure(f"peak memory of variants, {MANY} prompts over {FEW}", many / few, "", GROWTH_BAR),
        Measure("peak memory of the dense draw", dense / 2**30, "GB"),
        *_of_tables(),
    ]


def _of_tables() -> list[Measure]:
    """Tables of few and many variants, and pages, with few and many prompts."""
    found = []
    for times in (1, TIMES):
        prompts = f"{times} times the embedded audit's prompts"
        for count in VARIANTS:
            name = f"statistics and tables of {count} variants, two axes, {prompts}"
            found.append(Measure(name, _rose(f"tables({times}, {count})"), "MB"))
        name = f"a page of texts and every number checked, {prompts}"
        found.append(Measure(name, _rose(f"pages({times})"), "MB"))
    return found


def _rose(call: str) -> float:
    return in_a_process(f"from benchmarks.scale import _many_prompts as one; one.{call}") / 2**20


def case(variants: bool, prompts: int) -> None:
    """Do it, and print the most bytes that this process took."""
    from benchmarks.scale._gpt2 import gpt2
    from benchmarks.scoring_bench import DEMO, open_bench
    from engine.core.memory import peak
    from engine.tracks.language_models.context import Shard

    context = replace(open_bench(replace(DEMO, max_corpus_tokens=TOKENS), prompts), lm=gpt2(**WIDE))
    settings = replace(
        context.settings, decoding=replace(context.settings.decoding, max_new_tokens=NEW)
    )
    context = replace(context, settings=settings)
    axis, split = DEMO.axis, "validation"
    context.fetch([Shard("verdicts", (), axis, split)])
    for cut in CUTS if variants else ():
        kinds = ("verdicts", "prompt_nll")
        context.fetch(
            [*(Shard(kind, cut, axis, split) for kind in kinds), Shard("windows", cut, split=split)]
        )
    print(peak())
