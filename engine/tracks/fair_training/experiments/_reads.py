"""What runs of fair training say about the paper's figures: levels, trade-off, effort, ablations,
loss surface."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pandas as pd

from engine.audit.experiments import NAN, Finding, finding
from engine.core import words
from engine.report.charts import lookup
from engine.store.runs import Run
from engine.tracks.fair_training.panels.lookup import fair_axis
from engine.tracks.fair_training.panels.path import barrier

SAVED = {"LFW": 0.9422, "CelebA": 0.9405}
"""Share of training iterations saved against the best baseline (Sec. 5.3). Other faces stand in for
CelebA."""
GAPS = ("accuracy_gap", "degradation_gap")


def levels(methods: Sequence[str]) -> Callable[[Run], Iterator[Finding]]:
    """Figs. 1, 3, 4 and 7: accuracy and gaps of the dense model and of these methods at every
    sparsity."""

    def read(run: Run) -> Iterator[Finding]:
        table = lookup.reported(run)
        for variant in table[table["method"].isin(("dense", *methods))].to_dict("records"):
            yield from _measured(run, variant)

    return read


def _measured(run: Run, variant: dict) -> Iterator[Finding]:
    cut = "" if variant["variant"] == "dense" else f", {100 * variant['sparsity']:.3g} % cut"
    name = "dense model" if variant["variant"] == "dense" else words.method_name(variant["method"])
    for metric, axis in (("accuracy", ""), *((gap, fair_axis(run)) for gap in GAPS)):
        row = lookup.result(run, variant["variant"], metric, axis)
        if row is not None:
            yield finding(
                f"{metric.replace('_', ' ')}, {name}{cut}", row, run.meta["request"]["seeds"]
            )


def tradeoff(run: Run) -> Iterator[Finding]:
    """Fig. 5: accuracy and gap of every method and λ of the sweep."""
    if not run.has("tradeoff"):
        return
    table = run.table("tradeoff")
    counts = run.meta["data"]["counts"]
    axis = fair_axis(run)
    n = sum(count for name, count in counts.items() if name.startswith(f"test/{axis}/"))
    for row in table[table["axis"] == axis].to_dict("records"):
        at = (
            f"{words.method_name(row['method'])}, λ = {row['strength']:g},"
            f" {100 * row['sparsity']:g} % cut"
        )
        for column in ("accuracy", "gap"):
            ends = {"low": row[f"{column}_low"], "high": row[f"{column}_high"]}
            yield Finding(f"{column}, {at}", ours=row[column], **ends, n=n, seeds=row["n_trials"])


def effort(run: Run) -> Iterator[Finding]:
    """Fig. 6: updates until the stated gap and accuracy, and what BiFP saves against the best other
    method.

    Where none of the others got there in every seed, their whole training counts, so that what is
    saved is a lower bound; where BiFP did not, nothing can be said.
    """
    if not run.has("reached"):
        return
    table, printed = run.table("reached"), SAVED.get(run.meta["data"]["name"], SAVED["CelebA"])
    variants = run.table("variants")
    usual = set(variants.loc[variants["role"] == "sparsity", "variant"])
    table = table[table["variant"].isin(usual)]
    for (method, sparsity), rows in table.groupby(["method", "sparsity"], sort=False):
        got, said = (
            int(rows["reached"].sum()),
            f"{words.method_name(method)}, {100 * sparsity:.3g} % cut",
        )
        ours = float(rows["iterations"].mean()) if got == len(rows) else NAN
        yield Finding(
            f"updates until fair, {said} ({got} of {len(rows)} seeds got there)",
            ours=ours,
            n=len(rows),
            seeds=len(rows),
        )
    for sparsity, here in table[table["sparsity"] > 0].groupby("sparsity"):
        value, how = saved(here)
        said = f"share of updates saved by BiFP at {100 * float(sparsity):.3g} %{how}"
        yield Finding(
            said, printed, "Sec. 5.3", value, n=len(here), seeds=run.meta["request"]["seeds"]
        )


def saved(rows: pd.DataFrame) -> tuple[float, str]:
    """(share saved by bifp-str against the quickest method that is no form of it, how to read it)
    at one sparsity."""
    own, others = rows[rows["method"] == "bifp-str"], rows[~rows["method"].str.startswith("bifp")]
    if own.empty or others.empty or not own["reached"].all():
        return NAN, ": not all its seeds got there"
    met = others.groupby("method")["reached"].transform("all")
    means = others[met].groupby("method")["iterations"].mean()
    mine = float(own["iterations"].mean())
    if len(means):
        return 1 - mine / float(means.min()), ""
    return (
        1 - mine / float(others["total_iterations"].min()),
        ", at least: no other method got there",
    )


def barriers(run: Run) -> Iterator[Finding]:
    """Fig. 8: how far the loss rises above the straight line between BiFP and each ablation; one
    seed, no interval."""
    if not run.has("path"):
        return
    table = lookup.frame(run, "path")
    for other, rows in table.groupby("other", sort=False):
        yield Finding(
            f"height of the ridge of the loss, BiFP to {words.method_name(other)}",
            ours=barrier(rows),
            n=len(rows),
            seeds=1,
        )
