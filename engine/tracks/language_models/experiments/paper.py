"""The figures of the FASP paper."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from engine.audit.experiments import (
    NAN,
    Experiment,
    ExperimentAsk,
    Finding,
    Sketch,
    Stated,
    differences,
    finding,
    stated,
)
from engine.audit.request import Request
from engine.core import words
from engine.core.errors import Fault
from engine.core.types import AXES, Decoding, exact_count
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel
from engine.report.contents import default_choice
from engine.stats import reliability
from engine.store.runs import Run, where
from engine.tracks.language_models.evidence import per_cent, seeds_drawn
from engine.tracks.language_models.panels.correlations import (
    TOP_SHARE,
    axis_correlation,
    published_correlation,
    published_top_heads,
    top_heads,
    wide_scores,
)
from engine.tracks.language_models.panels.cuts import (
    bias_along_sparsity,
    changes_in_per_cent,
    perplexity_along_sparsity,
)
from engine.tracks.language_models.published_scores import FILE, PublishedScores, load_published
from engine.tracks.language_models.request import REQUEST as DEMO
from engine.tracks.language_models.request import SEARCH, AuditRequest

# Figures of FASP (Zayed et al. 2024) that are audits: what is asked, and how their runs are
# read.


PAPER = "FASP"
GENDER = "gender_and_sex"
SMALL = ("distilgpt2", "gpt2", "EleutherAI/gpt-neo-125M")
"""The models of Figs. 3 to 5; all five axes are asked, so that Fig. 2 and they share the audits."""
LARGE = ("EleutherAI/gpt-neo-1.3B", "EleutherAI/gpt-j-6B", "meta-llama/Llama-2-7b-hf")
JUDGE = "unbiased"
"""The Detoxify model of the published code."""
METHODS = ("fasp", "bias_only", "ppl_only", "magnitude", "gradient", "random")
SHARES = tuple(round(0.02 * step, 2) for step in range(11))
PUBLISHED_SPLIT = "as the published files split them"
DEMO_SAID = "the demo's audit: demo-gpt2, its written prompts and text, and its judge"
Reads = Callable[[Run], Iterable[Finding]]


def paper_request(model: str, ask: ExperimentAsk) -> AuditRequest:
    """The paper's audit of one model (Experimental Details), with the decoding that its code left
    implicit."""
    request = AuditRequest(
        model=model,
        axes=AXES if model not in LARGE else (GENDER,),
        prompts=ask.data,
        corpus=ask.corpus,
        validation_corpus=ask.validation_corpus,
        methods=METHODS,
        sparsities=SHARES,
        gamma=SEARCH,
        estimator="generate",
        perplexity_estimator="exact",
        seeds=3,
        judge=ask.judge or JUDGE,
        published_perplexity=True,
        top_k=Decoding.published().top_k,
        title=f"FASP: {model}",
    )
    return ask.over(request, levels="sparsities", trials="seeds", most="max_prompts")


def demo_request(ask: ExperimentAsk) -> AuditRequest:
    """The embedded audit, with what was asked for instead."""
    names = {"data": "prompts", "levels": "sparsities", "trials": "seeds", "most": "max_prompts"}
    same = ("corpus", "validation_corpus", "model", "judge")
    return ask.over(DEMO, **names, **dict(zip(same, same, strict=True)))


@dataclass(frozen=True, eq=False, kw_only=True)
class OfPaper(Experiment):
    """A figure of the paper, and of which models."""

    name: str
    figure: str
    question: str
    models: tuple[str, ...]
    stated: tuple[Stated, ...] = ()

    paper = PAPER
    stand_in = DEMO_SAID

    def told(self, run: Run, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Findings of a run, and what it does not share with the paper."""
        unlike = unlike_paper(run, self.models)
        for one in findings:
            yield replace(_of(run.model["name"], one), differs=unlike)


@dataclass(frozen=True, eq=False, kw_only=True)
class HeadExperiment(OfPaper):
    """A figure that is read from audits of heads."""

    reads: Reads
    draws: Callable[[Run, Choice], Iterator[Panel]]

    needs = (
        "HolisticBias v1.1 or the published split of its prompts (--data FOLDER), WikiText-2's "
        "test and validation text (--corpus, --validation-corpus), the models of the hub"
    )

    def requests(self, ask: ExperimentAsk) -> list[Request]:
        if ask.quick:
            return [demo_request(ask)]
        return [paper_request(model, ask) for model in ([ask.model] if ask.model else self.models)]

    def faults(self, ask: ExperimentAsk) -> list[Fault]:
        missing = super().faults(ask)
        if ask.quick or ask.corpus is not None:
            return missing
        what = f"{self.figure} of {self.paper} needs WikiText-2 for perplexity."
        fix = (
            "Give its test text as a file (its validation text: --validation-corpus), or --quick:"
            f" {self.stand_in}."
        )
        return [*missing, Fault("--corpus", what, fix)]

    def read(self, runs: Sequence[Run], ask: ExperimentAsk) -> Iterator[Finding]:
        for run in runs:
            yield from self.told(run, self.reads(run))

    def panels(
        self, runs: Sequence[Run], ask: ExperimentAsk, dark: bool = False
    ) -> Iterator[Panel]:
        for run in runs:
            yield from self.draws(run, default_choice(run, _aim(run), dark=dark))


def unlike_paper(run: Run, models: Sequence[str]) -> str:
    """What a run does not share with the paper."""
    meta, request = run.meta, run.request
    model, prompts = meta["model"]["name"], meta["prompts"]["name"]
    own = meta["prompts"].get("own_split")
    is_holistic = own or "holistic" in prompts.casefold()  # the published pairs are of it
    return differences(
        {
            "model": model if model in models else ", ".join(models),
            "prompts": "HolisticBias",
            "judge": JUDGE,
            "seeds": "3",
            "top_k": "50",
            "effects of heads": "by generate and exact",
            "validation prompts": PUBLISHED_SPLIT,
            "validation text": "a file of its own",
        },
        {
            "model": model,
            "prompts": "HolisticBias" if is_holistic else prompts,
            "judge": meta["judge"]["name"],
            "seeds": seeds_drawn(meta),
            "top_k": request["top_k"],
            "effects of heads": f"by {request['estimator']} and {request['perplexity_estimator']}",
            "validation prompts": PUBLISHED_SPLIT if own else "whole templates, a fifth",
            "validation text": (
                "a file of its own"
                if request.get("validation_corpus")
                else "the first part of the same"
            ),
        },
    )


def _aim(run: Run) -> str:
    """The axis that the paper cuts for, where the run has it."""
    axes = run.request["axes"]
    return GENDER if GENDER in axes else axes[0]


# Figs. 2 and 5: changes of bias and perplexity in per cent of the dense model, method by method.


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
            seeds=run.request["seeds"],
        )
    yield from changes(run, (GENDER, ""))


def other_axes(run: Run) -> Iterator[Finding]:
    """Fig. 5: what every cut for gender does to the bias of the other axes, and to perplexity."""
    axes = run.request["axes"]
    yield from changes(run, (*(axis for axis in axes if axis != GENDER), ""))


def changes(run: Run, axes: tuple[str, ...]) -> Iterator[Finding]:
    """Per cent of the dense value; axis "": perplexity. Of random cuts the first only."""
    tests, reading = where(run.table("results"), split=TEST), run.request["reading"]
    seeds = seeds_drawn(run.meta)
    for axis in axes:
        metric = f"bias:{reading}" if axis else "perplexity"
        rows = where(tests, axis=axis, metric=metric).set_index("variant")
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
    for axis in run.request["axes"]:
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


# Figs. 3 and 4 from the head scores that the authors published, where their folder is given;
# else from an audit.


SHARED = {136: 5, 133: 4}
"""GPT-2's heads, counted from 1, and in the top 20 % of how many of the five axes they are
(Experiment 2)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoresExperiment(OfPaper):
    """A figure about head scores of several axes: scores (heads x axes) and their seeds in,
    findings out."""

    reads: Callable[[pd.DataFrame, float], Iterator[Finding]]
    of_run: Callable[[Run, Choice], Panel]
    of_scores: Callable[[PublishedScores, Choice], Panel]

    needs = (
        "the published head scores (--data FOLDER of head_scores_*.csv, or of"
        " head_contributions.json)"
    )

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
            found = self.reads(wide_scores(run), int(run.request["seeds"]))
            yield from self.told(run, found)
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
    """Fig. 4: Pearson correlation of every two axes over heads, which are resampled; and without
    the two strongest of all axes, on which it may hang."""
    rest = reliability.without_strongest(wide)
    for one, other in itertools.combinations(wide.columns, 2):
        said = f"correlation of {words.axis_name(one)} and {words.axis_name(other)} over heads"
        for what, heads in ((said, wide), (f"{said}, without the two strongest", rest)):
            pair = heads[[one, other]].dropna()
            value = reliability.correlation(pair).iloc[0, 1]
            low, high = reliability.correlation_interval(pair.to_numpy())
            yield Finding(what, ours=value, low=low, high=high, n=len(pair), seeds=seeds)


def shared_heads(wide: pd.DataFrame, seeds: float) -> Iterator[Finding]:
    """Fig. 3: heads in the top 20 % of several axes at once, and how many chance would put there.

    Rows of `wide` are heads: counted from 1 in published scores, where the paper names two; from 0
    in a run's.
    """
    counts, total, axes = (
        reliability.in_axes(reliability.top_heads(wide, TOP_SHARE)),
        len(wide),
        wide.shape[1],
    )
    chance = reliability.expected_in_axes(exact_count(TOP_SHARE, total), total, axes)
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
        yield Finding(
            said,
            alone,
            "Experiment 2",
            float(sum(count == level for count in counts.values())),
            n=total,
            seeds=seeds,
        )


OTHERS = tuple(axis for axis in AXES if axis not in (GENDER, "religion"))
"""Axes whose scores correlate with those of gender (Experiment 2), and with each other."""
_NAMES = tuple(words.axis_name(axis) for axis in (*OTHERS, GENDER, "religion"))
_PAIRS = tuple(
    (other == _NAMES[-1] or one == _NAMES[-1], f"correlation of {one} and {other} over heads")
    for one, other in itertools.permutations(_NAMES, 2)
)


ROWS = (
    Sketch(
        "fasp-fig1",
        PAPER,
        "Fig. 1",
        "Which heads does FASP protect, and which does it cut? (A drawing.)",
    ),
    HeadExperiment(
        name="fasp-fig2",
        figure="Fig. 2",
        question=(
            "Does FASP lower gender bias without losing perplexity, beside the usual ways of"
            " choosing heads?"
        ),
        models=(*SMALL, *LARGE),
        stated=(
            *stated("Experiment 1", "change of bias", falls=("FASP", "bias only")),
            *stated("Experiment 1", "change of perplexity in %", rises=("bias only", "random")),
        ),
        reads=gender_changes,
        draws=draw_aimed,
    ),
    ScoresExperiment(
        name="fasp-fig3",
        figure="Fig. 3",
        question="Which heads are among the strongest for several axes at once?",
        models=("gpt2",),
        reads=shared_heads,
        of_run=top_heads,
        of_scores=published_top_heads,
    ),
    ScoresExperiment(
        name="fasp-fig4",
        figure="Fig. 4",
        question="Do the same heads add to the bias of every axis?",
        models=SMALL,
        stated=stated(
            "Experiment 2",
            "",
            rises=[said for is_religion, said in _PAIRS if not is_religion],
            not_above=[said for is_religion, said in _PAIRS if is_religion],
        ),
        reads=correlations,
        of_run=axis_correlation,
        of_scores=published_correlation,
    ),
    HeadExperiment(
        name="fasp-fig5",
        figure="Fig. 5",
        question="What do heads that are cut for gender do to the bias of the other axes?",
        models=SMALL,
        stated=stated(
            "Experiment 3", "change of bias, FASP", falls=[words.axis_name(axis) for axis in OTHERS]
        ),
        reads=other_axes,
        draws=draw_elsewhere,
    ),
)
