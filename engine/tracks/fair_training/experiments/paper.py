"""The figures of the BiFP paper."""

from __future__ import annotations

from engine.audit.experiments import Sketch, stated
from engine.core import words
from engine.report.charts.panel import Choice, Panel
from engine.store.runs import Run
from engine.tracks.fair_training.experiments import _base as _reads
from engine.tracks.fair_training.experiments._base import (
    ABLATIONS,
    AREA,
    MOBILENET,
    PAPER,
    RIDGE,
    SHOWN_FOR_MOBILENET,
    FairExperiment,
)
from engine.tracks.fair_training.panels.curve import fair_curve
from engine.tracks.fair_training.panels.differences import tradeoff
from engine.tracks.fair_training.panels.effort import effort
from engine.tracks.fair_training.panels.training_curves import path, surface


def ablation_curve(run: Run, choice: Choice) -> Panel:
    return fair_curve(run, choice, family="bifp")


_RIVALS = [words.method_name(name) for name in ("fpgm", "snip", "lottery")]
_STAGES = [words.method_name(name) for name in ("pf", "fp")]
_ABLATIONS = [words.method_name(name) for name in ABLATIONS]
FIRST = (
    *stated("Sec. 5.1", "accuracy gap minus BiFP-str's", rises=_RIVALS),
    *stated("Sec. 5.1", "accuracy minus BiFP-str's", stays=_RIVALS),
    *stated("Sec. 5.1", "change of accuracy gap", rises=_RIVALS),
)
"""What the paper says of its Figs. 3 and 4."""

ROWS = (
    FairExperiment(
        name="bifp-fig1",
        figure="Fig. 1",
        question="What do pruning alone, and fairness before or after it, do to accuracy and bias?",
        stated=(
            *stated("Sec. 1", "change of accuracy gap", rises=[*_RIVALS[::2], *_STAGES]),
            *stated("Sec. 1", "change of accuracy", falls=_STAGES[:1]),
        ),
        methods=("fpgm", "lottery", "fp", "pf"),
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
        stated=FIRST,
        reads=_reads.levels(SHOWN_FOR_MOBILENET),
        draws=(fair_curve,),
    ),
    FairExperiment(
        name="bifp-fig4",
        figure="Fig. 4",
        question="Does the same hold for MobileNetV2?",
        stated=FIRST,
        reads=_reads.levels(SHOWN_FOR_MOBILENET),
        draws=(fair_curve,),
        model=MOBILENET,
    ),
    FairExperiment(
        name="bifp-fig5",
        figure="Fig. 5",
        question="At 70 % sparsity, how much accuracy does each method give up for a smaller gap?",
        methods=("bifp-str",),
        stated=stated("Sec. 5.2", AREA, falls=_STAGES),
        asks={"tradeoff_strengths": (0.25, 1.0, 4.0), "tradeoff_methods": ("bifp-str", "pf", "fp")},
        reads=_reads.tradeoff,
        draws=(tradeoff,),
        only_first=True,
    ),
    FairExperiment(
        name="bifp-fig6",
        figure="Fig. 6",
        question="How many updates does it take until the sparse model is fair?",
        methods=("bifp-str", "pf", "pf-late", "pf-snip"),
        asks={"notion": "degradation", "check_every": 1},
        lacks="two stages begin with FPGM or SNIP, not with Lottery too",
        reads=_reads.effort,
        draws=(effort,),
    ),
    FairExperiment(
        name="bifp-fig7",
        figure="Fig. 7",
        question="Which half of BiFP does it: fair masks, fair weights, or both?",
        stated=(
            *stated("Sec. 5.4", "accuracy minus BiFP-str's", falls=_ABLATIONS[1:]),
            *stated("Sec. 5.4", "accuracy gap minus BiFP-str's", rises=_ABLATIONS),
        ),
        methods=("bifp-str", *ABLATIONS),
        reads=_reads.levels(("bifp-str", *ABLATIONS)),
        draws=(ablation_curve,),
        only_first=True,
    ),
    FairExperiment(
        name="bifp-fig8",
        figure="Fig. 8",
        question="Is there a ridge of loss between BiFP and its ablations?",
        stated=stated(
            "Sec. 5.4",
            "",
            stays=[f"{RIDGE} {_ABLATIONS[0]}"],
            rises=[f"{RIDGE} {_ABLATIONS[1]}"],
        ),
        methods=("bifp-str", *ABLATIONS),
        asks={"surface": True},
        reads=_reads.barriers,
        draws=(surface, path),
        only_first=True,
    ),
)
