"""Figures of FASP (Zayed et al. 2024) that are audits: what is asked, and how their runs are
read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.audit.experiments import Experiment, ExperimentAsk, Finding, differences
from engine.audit.request import Request
from engine.core.errors import Fault
from engine.core.types import AXES, Decoding
from engine.report.charts.panel import Choice, Panel
from engine.report.contents import default_choice
from engine.store.runs import Run
from engine.tracks.language_models.embedded import REQUEST as DEMO
from engine.tracks.language_models.request import SEARCH, AuditRequest
from engine.tracks.language_models.stopping import seeds_drawn

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
    decoding = Decoding.published()
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
        seeds=3,
        judge=ask.judge or JUDGE,
        published_perplexity=True,
        top_k=decoding.top_k,
        title=f"FASP: {model}",
    )
    return ask.over(request, levels="sparsities", trials="seeds", most="max_prompts")


def demo_request(ask: ExperimentAsk) -> AuditRequest:
    """The embedded audit, with what was asked for instead."""
    request = replace(
        DEMO, prompts=ask.data, corpus=ask.corpus, validation_corpus=ask.validation_corpus
    )
    return ask.over(
        request,
        model="model",
        judge="judge",
        levels="sparsities",
        trials="seeds",
        most="max_prompts",
    )


@dataclass(frozen=True, eq=False)
class HeadExperiment(Experiment):
    """A figure that is read from audits of heads."""

    name: str
    figure: str
    question: str
    models: tuple[str, ...]
    reads: Reads
    draws: Callable[[Run, Choice], Iterator[Panel]]

    paper = PAPER
    needs = (
        "HolisticBias v1.1, or the prompts that the published code split (--data FOLDER),"
        " WikiText-2's test and validation text (--corpus FILE --validation-corpus FILE) and the"
        " models of the hub"
    )
    stand_in = DEMO_SAID

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
            unlike = unlike_paper(run, self.models)
            for one in self.reads(run):
                yield replace(one, what=f"{run.meta['model']['name']}: {one.what}", differs=unlike)

    def panels(
        self, runs: Sequence[Run], ask: ExperimentAsk, dark: bool = False
    ) -> Iterator[Panel]:
        for run in runs:
            yield from self.draws(run, default_choice(run, _aim(run), dark=dark))


def unlike_paper(run: Run, models: Sequence[str]) -> str:
    """What a run does not share with the paper."""
    meta, request = run.meta, run.meta["request"]
    model, prompts = meta["model"]["name"], meta["prompts"]["name"]
    is_holistic = "holistic" in prompts.casefold() or meta["prompts"].get(
        "own_split"
    )  # the published pairs are of it
    return differences(
        {
            "model": ", ".join(models),
            "prompts": "HolisticBias",
            "judge": JUDGE,
            "seeds": "3",
            "top_k": "50",
            "effects of heads": "by generate",
            "validation prompts": PUBLISHED_SPLIT,
            "validation text": "a file of its own",
        },
        {
            "model": ", ".join(models) if model in models else model,
            "prompts": "HolisticBias" if is_holistic else prompts,
            "judge": meta["judge"]["name"],
            "seeds": str(seeds_drawn(meta)),
            "top_k": str(request["top_k"]),
            "effects of heads": f"by {request['estimator']}",
            "validation prompts": _validation_prompts(meta),
            "validation text": (
                "a file of its own"
                if request.get("validation_corpus")
                else "the first part of the same"
            ),
        },
    )


def _validation_prompts(meta: Mapping[str, Any]) -> str:
    return PUBLISHED_SPLIT if meta["prompts"].get("own_split") else "whole templates, a fifth"


def _aim(run: Run) -> str:
    """The axis that the paper cuts for, where the run has it."""
    axes = run.meta["request"]["axes"]
    return GENDER if GENDER in axes else axes[0]
