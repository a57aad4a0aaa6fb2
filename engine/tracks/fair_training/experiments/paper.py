"""The figures of the BiFP paper."""

from __future__ import annotations

from engine.audit.experiments import Sketch
from engine.report.charts.panel import Choice, Panel
from engine.store.runs import Run
from engine.tracks.fair_training.experiments import _base as _reads
from engine.tracks.fair_training.experiments._base import (
    ABLATIONS,
    MOBILENET,
    PAPER,
    SHOWN_FOR_MOBILENET,
    FairExperiment,
)
from engine.tracks.fair_training.panels.curve import fair_curve
from engine.tracks.fair_training.panels.effort import effort
from engine.tracks.fair_training.panels.surface import path, surface
from engine.tracks.fair_training.panels.tradeoff import tradeoff


def ablation_curve(run: Run, choice: Choice) -> Panel:
    return fair_curve(run, choice, family="bifp")


ROWS = (
    FairExperiment(
        name="bifp-fig1",
        figure="Fig. 1",
        question="What do pruning alone, and fairness before or after it, do to accuracy and bias?",
        reads=_reads.levels(("fpgm", "lottery", "fp", "pf")),
        draws=(fair_curve,),
    ),
    Sketch("bifp-fig2", PAPER, "Fig. 2", "How are masks and weights trained in turn? (A drawing.)"),
    FairExperiment(
        name="bifp-fig3",
        figure="Fig. 3",
        question=(
            "Are BiFP's models as accurate as those of other methods, and fairer, at every"
            " sparsity?"
        ),
        reads=_reads.levels(SHOWN_FOR_MOBILENET),
        draws=(fair_curve,),
    ),
    FairExperiment(
        name="bifp-fig4",
        figure="Fig. 4",
        question="Does the same hold for MobileNetV2?",
        reads=_reads.levels(SHOWN_FOR_MOBILENET),
        draws=(fair_curve,),
        model=MOBILENET,
    ),
    FairExperiment(
        name="bifp-fig5",
        figure="Fig. 5",
        question="At 70 % sparsity, how much accuracy does each method give up for a smaller gap?",
        reads=_reads.tradeoff,
        draws=(tradeoff,),
        only_first=True,
    ),
    FairExperiment(
        name="bifp-fig6",
        figure="Fig. 6",
        question="How many updates does it take until the sparse model is fair?",
        reads=_reads.effort,
        draws=(effort,),
    ),
    FairExperiment(
        name="bifp-fig7",
        figure="Fig. 7",
        question="Which half of BiFP does it: fair masks, fair weights, or both?",
        reads=_reads.levels(("bifp-str", *ABLATIONS)),
        draws=(ablation_curve,),
        only_first=True,
    ),
    FairExperiment(
        name="bifp-fig8",
        figure="Fig. 8",
        question="Is there a ridge of loss between BiFP and its ablations?",
        reads=_reads.barriers,
        draws=(surface, path),
        only_first=True,
    ),
)
