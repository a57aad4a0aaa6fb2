"""The figures and tables of the thesis, chapter 6."""

from __future__ import annotations

from collections.abc import Iterator

from engine.report.charts.panel import Choice, Panel
from engine.store.runs import Run
from engine.tracks.text_classifiers.experiments import _levels
from engine.tracks.text_classifiers.experiments._experiment import METHODS, TicketExperiment
from engine.tracks.text_classifiers.panels.curve import tickets_curve, tickets_table

GLUE = ("mnli", "qqp", "qnli", "mrpc", "sst2", "cola", "rte", "wnli")
WITH_ISP = ("isp:conductance", "one-shot-isp:conductance")


def curves(run: Run, choice: Choice) -> Iterator[Panel]:
    yield tickets_curve(run, choice)


def curves_and_table(run: Run, choice: Choice) -> Iterator[Panel]:
    yield tickets_curve(run, choice)
    yield tickets_table(run, choice)


ROWS = (
    TicketExperiment(
        name="thesis-fig6.1",
        figure="Fig. 6.1",
        question="Does fine-tuning change which heads attend to what decides?",
        tasks=("sst2",),
        reads=_levels.in_range,
        draws=_levels.heat_maps,
    ),
    *(
        TicketExperiment(
            name=f"thesis-fig6.{place}",
            figure=f"Fig. 6.{place}",
            question=(
                "Do attention and attribution look alike in the heads that are left after"
                f" iteration {iteration}?"
            ),
            tasks=("mnli",),
            reads=_levels.correlations_left,
            draws=_levels.maps_after(iteration),
        )
        for place, iteration in ((2, 2), (3, 3), (4, 6))
    ),
    TicketExperiment(
        name="thesis-fig6.5",
        figure="Fig. 6.5",
        question=(
            "What does a head look like that is cut, and one that stays, pair of tokens by pair?"
        ),
        tasks=("mnli",),
        reads=_levels.correlations_left,
        draws=_levels.scatter,
    ),
    TicketExperiment(
        name="thesis-fig6.6",
        figure="Fig. 6.6",
        question="What is left of the task as heads are cut, by every variant of Algorithm 6.1?",
        tasks=GLUE,
        reads=_levels.levels(METHODS),
        draws=curves,
    ),
    TicketExperiment(
        name="thesis-fig6.7",
        figure="Fig. 6.7",
        question="Is cutting step by step (ISP) better than cutting once and fine-tuning?",
        tasks=("mnli", "qnli"),
        reads=_levels.levels(WITH_ISP),
        draws=curves,
        methods=WITH_ISP,
        seeds=1,
    ),
    TicketExperiment(
        name="thesis-table6.2",
        figure="Table 6.2",
        question="Up to which share of heads are there winning tickets?",
        tasks=("qnli", "qqp", "mrpc", "wnli", "rte", "sst2", "cola"),
        reads=_levels.tickets,
        draws=curves_and_table,
        absent=_levels.absent((_levels.TICKETS_PRINTED, _levels.TICKET_VALUES), "Table 6.2"),
    ),
    TicketExperiment(
        name="thesis-table6.3",
        figure="Table 6.3",
        question="Cut once from the fine-tuned model: is conductance a better score than Michel's?",
        tasks=("mnli", "qnli", "qqp", "sst2", "mrpc", "cola"),
        reads=_levels.near(_levels.ONCE_PRINTED, 0.7, "Table 6.3"),
        draws=curves_and_table,
        absent=_levels.absent((_levels.ONCE_PRINTED,), "Table 6.3"),
    ),
    TicketExperiment(
        name="thesis-table6.4",
        figure="Table 6.4",
        question="From pre-trained weights: what do IGSPF and IGSPP keep of the task?",
        tasks=("mnli", "qnli", "mrpc", "sst2", "cola"),
        reads=_levels.near(_levels.LTH_PRINTED, 0.8, "Table 6.4"),
        draws=curves_and_table,
        absent=_levels.absent((_levels.LTH_PRINTED,), "Table 6.4"),
    ),
)
