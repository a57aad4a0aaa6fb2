"""Figs. 3 and 4 from the head scores that the authors published, where their folder is given; else
from an audit."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
from scipy.stats import pearsonr

from engine.audit.experiments import NAN, Experiment, ExperimentAsk, Finding
from engine.audit.request import Request
from engine.core import words
from engine.core.errors import Fault
from engine.core.levels import exact_count
from engine.report.charts.panel import Choice, Panel
from engine.report.contents import default_choice
from engine.stats.correlation import expected_in_axes, in_axes, top_heads
from engine.store.runs import Run
from engine.tracks.language_models.experiments._base import (
    DEMO_SAID,
    PAPER,
    demo_request,
    unlike_paper,
)
from engine.tracks.language_models.head_contributions import FILE
from engine.tracks.language_models.panels.correlations import TOP_SHARE, wide_scores
from engine.tracks.language_models.published_scores import PublishedScores, load_published

SHARED = {136: 5, 133: 4}
"""GPT-2's heads, counted from 1, and in the top 20 % of how many of the five axes they are
(Experiment 2)."""


@dataclass(frozen=True, eq=False)
class ScoresExperiment(Experiment):
    """A figure about head scores of several axes: scores (heads x axes) and their seeds in,
    findings out."""

    name: str
    figure: str
    question: str
    models: tuple[str, ...]
    reads: Callable[[pd.DataFrame, float], Iterator[Finding]]
    of_run: Callable[[Run, Choice], Panel]
    of_scores: Callable[[PublishedScores, Choice], Panel]

    paper = PAPER
    needs = (
        "the published head scores (--data FOLDER of head_scores_*.csv, or of"
        " head_contributions.json)"
    )
    stand_in = DEMO_SAID

    def requests(self, ask: ExperimentAsk) -> list[Request]:
        return [demo_request(ask)] if ask.data is None else []

    def faults(self, ask: ExperimentAsk) -> list[Fault]:
        missing = super().faults(ask)
        if missing or ask.data is None or self._scores(ask):
            return missing
        what = f"there are no published scores of {', '.join(self._models(ask))} in {ask.data}."
        return [
            Fault(
                "--data",
                what,
                f"Give the folder with head_scores_gpt2.csv and others, or with {FILE}.",
            )
        ]

    def read(self, runs: Sequence[Run], ask: ExperimentAsk) -> Iterator[Finding]:
        for run in runs:
            found = self.reads(wide_scores(run), int(run.meta["request"]["seeds"]))
            unlike = unlike_paper(run, self.models)
            yield from (
                _of(run.meta["model"]["name"], replace(one, differs=unlike)) for one in found
            )
        for scores in self._scores(ask):
            yield from (
                _of(scores.model, one) for one in self.reads(scores.wide(), scores.seeds or NAN)
            )

    def panels(
        self, runs: Sequence[Run], ask: ExperimentAsk, dark: bool = False
    ) -> Iterator[Panel]:
        for run in runs:
            yield self.of_run(run, default_choice(run, dark=dark))
        for scores in self._scores(ask):
            yield self.of_scores(scores, Choice("dense", "", 0.0, dark=dark))

    def _scores(self, ask: ExperimentAsk) -> list[PublishedScores]:
        """Scores of this figure's models; head_contributions.json has many more."""
        wanted = self._models(ask)
        files = [] if ask.data is None else self._files(ask)
        return [one for one in load_published(files) if one.model in wanted] if files else []

    def _models(self, ask: ExperimentAsk) -> Sequence[str]:
        """This figure's models; another where one was asked for."""
        return [ask.model] if ask.model else self.models

    def _files(self, ask: ExperimentAsk) -> list[Path]:
        """The CSV files of this figure's models, seed by seed; else the means over seeds, where
        there is no more."""
        folder = Path(str(ask.data))
        names = [f"head_scores_{model.replace('/', '_')}.csv" for model in self._models(ask)]
        return [path for path in map(folder.joinpath, names) if path.is_file()] or [
            path for path in (folder / FILE, folder) if path.name == FILE and path.is_file()
        ]


def _of(model: str, one: Finding) -> Finding:
    return replace(one, what=f"{model}: {one.what}")


def correlations(wide: pd.DataFrame, seeds: float) -> Iterator[Finding]:
    """Fig. 4: Pearson correlation of every two axes over heads, intervals by Fisher's z as if heads
    were a sample."""
    for one, other in itertools.combinations(wide.columns, 2):
        pair = wide[[one, other]].dropna()
        found = pearsonr(pair[one], pair[other])
        ends = found.confidence_interval()
        said = f"correlation of {words.axis_name(one)} and {words.axis_name(other)} over heads"
        yield Finding(
            said,
            ours=float(found.statistic),
            low=ends.low,
            high=ends.high,
            n=len(pair),
            seeds=seeds,
        )


def shared_heads(wide: pd.DataFrame, seeds: float) -> Iterator[Finding]:
    """Fig. 3: heads in the top 20 % of several axes at once, and how many chance would put there.

    Rows of `wide` are heads: counted from 1 in published scores, where the paper names two; from 0
    in a run's.
    """
    counts, total, axes = in_axes(top_heads(wide, TOP_SHARE)), len(wide), wide.shape[1]
    chance = expected_in_axes(exact_count(TOP_SHARE, total), total, axes)
    named = SHARED if wide.index.name == "head" else {}
    for head, published in named.items():
        yield Finding(
            f"axes for which head {head} is in the top 20 %",
            published,
            "Experiment 2",
            float(counts.get(head, 0)),
            n=total,
            seeds=seeds,
        )
    for level in range(axes, 1, -1):
        said = f"heads in the top 20 % of exactly {level} axes (by chance {chance[level]:.2g})"
        alone = (
            1.0 if level == axes and named else NAN
        )  # "head number 136 stands as the sole contributor"
        where = "" if alone != alone else "Experiment 2"
        yield Finding(
            said,
            alone,
            where,
            float(sum(count == level for count in counts.values())),
            n=total,
            seeds=seeds,
        )
