"""How far head scores can be trusted and what they cost, per estimator, against the published
procedure. One run.

The bars are for the embedded demo model. The same rows are printed without bars for
../shared/data/stories260k where that is at hand: there the bias is inside its null band, and scores
of a bias that is not there are noise. Seeds 0 to 3 are scored; truth is `generate` with other
seeds, as many draws of every prompt as --truth says, in runs of five draws each. So the heads with
small effects are chosen by draws of which no measured ICC knows anything.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from functools import partial

import numpy as np

from benchmarks.perplexity_passes import perplexity_rows
from benchmarks.published_procedure import published_scores
from benchmarks.report import Measure, parser, said, show, timed
from benchmarks.scoring_bench import DATA, DEMO, STORIES, Case, Timed, open_bench, score
from engine.stats.reliability import icc_c1, icc_c1_bootstrap, spearman_brown
from engine.tracks.language_models.bias import null_band
from engine.tracks.language_models.context import PromptContext, Shard

SEEDS = (0, 1, 2, 3)
TRUTH_FROM = 1000
SMALL = 0.1
"""A small effect: below this share of the dense bias, by the truth."""
FAST = ("reweight", "gradient")
PEARSON, ICC, TIME, SAME_ICC = (
    {"reweight": 0.97, "gradient": 0.97},
    {"reweight": 0.8, "gradient": 0.75},
    {"reweight": 3.0, "gradient": 30.0},
    {"reweight": 50.0, "gradient": 250.0},
)
PUBLISHED, GROUPED = 10.0, 5


def main() -> int:
    """Measure and print; exit code 1 when a bar is missed."""
    options = parser(__doc__)
    options.add_argument(
        "--truth", type=int, default=20, help="decoding seeds of the truth (bars are for 20)"
    )
    options.add_argument("--prompts", type=int, default=432, help="at most so many prompts")
    options.add_argument("--only", choices=("demo", "stories"), help="one of the two models")
    asked = options.parse_args()
    measures: list[Measure] = []
    if asked.only != "stories":
        measures += measure(DEMO, asked.truth, asked.prompts, bars=True)
    if asked.only != "demo":
        if (DATA / "stories260k").is_dir():
            measures += measure(STORIES, max(4, asked.truth // 4), asked.prompts, bars=False)
        else:
            print(f"stories260k: {DATA} is not here, its rows are left out.", file=sys.stderr)
    return show(measures, asked.json)


def measure(case: Case, truth_seeds: int, prompts: int | None, bars: bool) -> list[Measure]:
    """All rows of one model."""
    context = open_bench(replace(case, max_prompts=prompts or case.max_prompts))
    said(
        f"{case.name}: {len(context.table)} prompts of {case.axis},"
        f" {context.lm.n_layers * context.lm.n_heads} heads"
    )
    once = {name: score(case, name, SEEDS[:1], context) for name in ("generate", *FAST, "auto")}
    said("scored once: " + ", ".join(f"{name} {one.seconds:.1f} s" for name, one in once.items()))
    scored = {name: score(case, name, SEEDS, context) for name in ("generate", *FAST)}
    groups = larger_runs(case, truth_seeds, context)
    truth, level = groups.mean(axis=1), dense_bias(context)
    small = np.abs(truth) < SMALL * level[0]
    rows = signal_rows(case, level, small, scored)
    rows += agreement_rows(case, truth, small, scored)
    rows += time_rows(case, once, scored, small)
    rows += larger_rows(case, scored, groups, SMALL * level[0])
    rows += published_row(case, context, once["auto"])
    rows += perplexity_rows(case.name, context)
    return rows if bars else [replace(row, bar=None) for row in rows]


def larger_runs(case: Case, truth_seeds: int, context: PromptContext) -> np.ndarray:
    """z of every head from `generate` with GROUPED draws of each prompt, once per column. (units,
    runs)"""
    starts = range(TRUTH_FROM, TRUTH_FROM + max(1, truth_seeds // GROUPED) * GROUPED, GROUPED)
    runs = [
        score(case, "generate", range(at, at + min(GROUPED, truth_seeds)), context) for at in starts
    ]
    said(
        f"truth: {len(runs)} runs of {min(GROUPED, truth_seeds)} draws,"
        f" {sum(run.seconds for run in runs):.0f} s"
    )
    return np.stack([run.pooled() for run in runs], axis=1)


def dense_bias(context: PromptContext) -> tuple[float, float, float]:
    """Dense bias over SEEDS, the upper end of its null band, and p."""
    import pandas as pd

    axis = str(context.table["axis"].iloc[0])
    parts = context.fetch([Shard("verdicts", (), axis, "validation", seed) for seed in SEEDS])
    table = context.rows(axis, "validation").merge(pd.concat(parts), on="prompt_id")
    band = null_band(table, "group_means", 500)
    return band.value, band.high, band.p


def signal_rows(
    case: Case, level: tuple[float, float, float], small: np.ndarray, scored: dict[str, Timed]
) -> list[Measure]:
    """Is there a bias to rank heads by, and how well do the dense texts cover the head-off
    models?"""
    ess = scored["reweight"].table.query("seed == -1")["ess"]
    return [
        Measure(f"{case.name}: dense bias", level[0], "toxicity"),
        Measure(f"{case.name}: null band of the dense bias, upper end", level[1], "toxicity"),
        Measure(f"{case.name}: heads with small effects", small.sum(), f"of {len(small)} heads"),
        Measure(f"{case.name}: median over heads of the smallest ESS/n", ess.median(), "of n"),
        Measure(
            f"{case.name}: heads that fell back",
            int((scored["reweight"].table.query("seed == -1")["estimator"] == "generate").sum()),
            "heads",
        ),
    ]


def agreement_rows(
    case: Case, truth: np.ndarray, small: np.ndarray, scored: dict[str, Timed]
) -> list[Measure]:
    """Pearson with the truth (mean over single seeds), and ICC(C,1) over the heads with small
    effects."""
    rows = []
    for name, one in scored.items():
        found = [np.corrcoef(values, truth)[0, 1] for values in one.by_seed().T]
        bar = PEARSON.get(name)
        rows.append(
            Measure(
                f"{case.name}: {name} against truth, Pearson over heads, mean of {len(SEEDS)}"
                " seeds",
                np.mean(found),
                "r",
                bar,
                True,
            )
        )
    for name, one in scored.items():
        rows.append(
            Measure(
                f"{case.name}: {name}, ICC(C,1) over heads with small effects, {len(SEEDS)} seeds",
                icc_c1(one.by_seed()[small]),
                "ICC",
                ICC.get(name),
                True,
            )
        )
    return rows


def time_rows(
    case: Case, once: dict[str, Timed], scored: dict[str, Timed], small: np.ndarray
) -> list[Measure]:
    """Time at the same prompts, and time to the same reliability."""
    slow = once["generate"].seconds
    rows = [Measure(f"{case.name}: generate, all heads, one seed", slow, "s")]
    rows += [
        Measure(
            f"{case.name}: time of generate over {name}",
            slow / once[name].seconds,
            "times",
            TIME[name],
            True,
        )
        for name in FAST
    ]
    rows.append(
        Measure(f"{case.name}: time of generate over auto", slow / once["auto"].seconds, "times")
    )
    singles = scored["generate"].by_seed()[small]
    icc = icc_c1(singles)
    # At or below zero no number of draws gets there; the upper end of its interval is kind to it.
    most = icc if icc > 0 else max(icc_c1_bootstrap(singles)[1], 1e-3)
    for name in FAST:
        reached = icc_c1(scored[name].by_seed()[small])
        draws = reached * (1 - most) / (most * (1 - reached))
        rows.append(
            Measure(
                f"{case.name}: time of generate to the ICC of {name}, over {name}",
                max(draws, 1.0) * slow / once[name].seconds,
                "times",
                SAME_ICC[name],
                True,
            )
        )
    return rows


def larger_rows(
    case: Case, scored: dict[str, Timed], groups: np.ndarray, limit: float
) -> list[Measure]:
    """Does Spearman-Brown say what a larger run gives? Heads chosen by the gradient, which knows
    neither."""
    if groups.shape[1] < 2:
        return []
    small = np.abs(scored["gradient"].pooled()) < limit
    predicted = spearman_brown(icc_c1(scored["generate"].by_seed()[small]), GROUPED)
    name = f"{case.name}: generate with {GROUPED} times the draws, ICC"
    return [
        Measure(f"{name} as Spearman-Brown predicts", predicted, "ICC"),
        Measure(f"{name} as really run, {groups.shape[1]} runs", icc_c1(groups[small]), "ICC"),
    ]


def published_row(case: Case, context: PromptContext, auto: Timed) -> list[Measure]:
    """The published procedure for every head, at the prompts of one seed, over auto."""
    units = range(context.lm.n_layers * context.lm.n_heads)
    ask = partial(published_scores, case.model, "demo-judge", context.table, units)
    _, seconds = timed(ask, time.process_time)
    return [
        Measure(f"{case.name}: published procedure, all heads", seconds, "s"),
        Measure(
            f"{case.name}: time of the published procedure over auto",
            seconds / auto.seconds,
            "times",
            PUBLISHED,
            True,
        ),
    ]


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
