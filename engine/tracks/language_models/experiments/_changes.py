"""Figs. 2 and 5: changes of bias and perplexity in per cent of the dense model, method by
method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from engine.audit.experiments import Finding, finding
from engine.core import words
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel
from engine.store.runs import Run
from engine.tracks.language_models.experiments._base import GENDER
from engine.tracks.language_models.panels.along_sparsity import (
    bias_along_sparsity,
    perplexity_along_sparsity,
)
from engine.tracks.language_models.panels.per_cent import changes_in_per_cent
from engine.tracks.language_models.per_cent import per_cent
from engine.tracks.language_models.stopping import seeds_drawn

TEST = "test"
PAPER_GAMMA = 0.3


def gender_changes(run: Run) -> Iterator[Finding]:
    """Fig. 2: gamma*, and what every cut for gender does to gender bias and to perplexity."""
    gamma = run.meta["gamma"].get(GENDER)
    if gamma is not None:
        yield Finding(
            "γ* for gender (paper: in five of six models)",
            PAPER_GAMMA,
            "Experiment 1",
            float(gamma),
            seeds=run.meta["request"]["seeds"],
        )
    yield from changes(run, (GENDER, ""))


def other_axes(run: Run) -> Iterator[Finding]:
    """Fig. 5: what every cut for gender does to the bias of the other axes, and to perplexity."""
    axes = run.meta["request"]["axes"]
    yield from changes(run, (*(axis for axis in axes if axis != GENDER), ""))


def changes(run: Run, axes: tuple[str, ...]) -> Iterator[Finding]:
    """Per cent of the dense value; axis "": perplexity. Of random cuts the first only."""
    results = run.table("results")
    tests, reading = results[results["split"] == TEST], run.meta["request"]["reading"]
    seeds = seeds_drawn(run.meta)
    for axis in axes:
        metric = f"bias:{reading}" if axis else "perplexity"
        rows = tests[(tests["axis"] == axis) & (tests["metric"] == metric)].set_index("variant")
        if "dense" not in rows.index:
            continue
        found = per_cent(rows, rows.loc["dense"].to_dict()).join(rows["n"])
        for variant in cuts_for_gender(run).to_dict("records"):
            if variant["variant"] in found.index:
                said = f"change of {_named(axis)} in %, {words.method_name(variant['method'])}, "
                yield finding(
                    f"{said}{100 * variant['sparsity']:g} % cut",
                    found.loc[variant["variant"]],
                    seeds,
                )


def draw_aimed(run: Run, choice: Choice) -> Iterator[Panel]:
    """Fig. 2: bias of the axis that was aimed at and perplexity along the share of heads cut, in
    per cent and as levels."""
    yield changes_in_per_cent(run, choice)
    yield bias_along_sparsity(run, choice)
    yield perplexity_along_sparsity(run, choice)


def draw_elsewhere(run: Run, choice: Choice) -> Iterator[Panel]:
    """Fig. 5: bias of every other axis and perplexity along the share of heads cut, in per cent and
    as levels."""
    for axis in run.meta["request"]["axes"]:
        if axis != choice.axis:
            yield changes_in_per_cent(run, replace(choice, measured_axis=axis))
            yield bias_along_sparsity(run, replace(choice, measured_axis=axis))
    yield perplexity_along_sparsity(run, choice)


def cuts_for_gender(run: Run) -> pd.DataFrame:
    """Reported variants that were cut for gender, or that are cut for no axis; of random ones the
    first."""
    table = lookup.reported(run)
    mine = table[(table["variant"] != "dense") & table["target_axis"].isin([GENDER, ""])]
    return mine.drop_duplicates(["method", "sparsity"])


def _named(axis: str) -> str:
    return f"bias, {words.axis_name(axis)}," if axis else "perplexity"
