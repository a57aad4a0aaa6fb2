"""What cuts of the embedded language model do to bias and perplexity, and which heads are found."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from docs.results._cells import change, level, markdown, only
from engine.core.types import POOLED
from engine.core.words import axis_name, method_name
from engine.store.runs import Run
from engine.tracks.language_models.evidence import rank_p

AT = 0.2
"""Share of heads cut."""
SHOWN = ("nationality", "religion")
METHODS = ("fasp", "bias_only", "magnitude", "ppl_only")
BIAS = "bias:group_means"


def table(run: Run) -> str:
    head = [
        "",
        "bias [95 %]",
        "change against dense [95 %]",
        "bands up to: words, group",
        "perplexity",
    ]
    rows = [row for axis in SHOWN for row in _cuts(run, axis)]
    found = [
        "axis",
        "heads at q ≤ .05",
        "largest effect [95 %]",
        "found with 80 % power from",
        "FASP among random cuts",
    ]
    heads = [_found(run, axis) for axis in run.meta["request"]["axes"]]
    return "\n\n".join([markdown(head, rows), markdown(found, heads)])


def _cuts(run: Run, axis: str) -> Iterator[list[str]]:
    variants, results = run.table("variants"), run.table("results")
    results = results[results["split"] == "test"]
    mine = variants[variants["chosen"] & variants["target_axis"].fillna("").isin(["", axis])]
    cut = [mine[(mine["method"] == name) & (mine["sparsity"] == AT)] for name in METHODS]
    for row in pd.concat([mine[mine["method"] == "dense"].head(1), *cut]).itertuples():
        bias = only(results, variant=row.variant, axis=axis, metric=BIAS)
        perplexity = only(results, variant=row.variant, metric="perplexity")["value"]
        gamma = f", γ = {row.gamma:g}" if row.gamma == row.gamma else ""
        name = (
            f"**{axis_name(axis)}**: dense"
            if row.method == "dense"
            else method_name(row.method) + gamma
        )
        bands = f"{bias['null_high']:.3f}, {bias['group_null_high']:.3f}"
        yield [name, level(bias), change(bias), bands, f"{perplexity:.2f}"]


def _found(run: Run, axis: str) -> list[str]:
    scores = run.table("scores")
    heads = scores[
        (scores["score"] == "z_bias") & (scores["axis"] == axis) & (scores["seed"] == POOLED)
    ]
    largest = heads.loc[heads["value"].idxmax()]
    power = run.meta["scoring"]["power"][axis]["effect"]
    controls = run.table("controls")
    cuts = controls[(controls["target_axis"] == axis) & (controls["sparsity"] == AT)]
    better = int((cuts["bias"] <= cuts["method_bias"]).sum())
    ranked = f"{better} of {len(cuts)} as good or better, p {rank_p(better, len(cuts)):.3f}"
    name = f"({largest['layer']:.0f}, {largest['head']:.0f}): {level(largest)}"
    return [axis_name(axis), str(int((heads["q"] <= 0.05).sum())), name, f"{power:.3f}", ranked]
