"""Figures and tables of the thesis (chapter 6): what is asked, and how their runs are read.

At the thesis' scale `--data` is one GLUE task ("glue:rte", a task's folder), "glue" for all of the
hub's, or a folder that holds tasks' folders. `quick` is the embedded audit, whose texts stand in
for SST-2: one text, two classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.audit.experiments import (
    NAN,
    ExperimentAsk,
    Finding,
    Stated,
    differences,
    finding,
    mean_of,
    stated,
)
from engine.audit.request import Request
from engine.core import words
from engine.core.types import Values
from engine.data.texts.glue import GLUE_TASKS, key_of_name
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel
from engine.report.contents import Drawn
from engine.report.tracks import Some
from engine.store.runs import Run, where
from engine.tracks.text_classifiers.panels.curve import tickets_curve, tickets_table
from engine.tracks.text_classifiers.panels.importance import importance, importance_maps
from engine.tracks.text_classifiers.panels.lens import (
    examples,
    heads_here,
    lens_heads,
    lens_maps,
    lens_scatter,
    stages,
)
from engine.tracks.text_classifiers.panels.published import (
    ACHLATIS,
    BERT,
    FULL_62,
    STANDS_FOR,
    printed,
    unlike_thesis,
)
from engine.tracks.text_classifiers.request import (
    REMARKS,
    SCORE_TEXTS,
    THESIS,
    TextRequest,
    usual_axes,
)

PAPER = "IG-BERT"
HUB = "glue"
"""Stands for all tasks of an experiment, from the hub."""
METHODS = (
    "once:conductance",
    "once:michel",
    "once:random",
    "alg61:conductance",
    "alg61:michel",
    "one-shot-isp:conductance",
    "igspf:conductance",
    "igspp:conductance",
)
SHARES = tuple(round(0.1 * step, 1) for step in range(1, 10))
Reads = Callable[[Run], Iterable[Finding]]


@dataclass(frozen=True, eq=False)
class TicketExperiment(Drawn):
    """A figure or table that is read from audits of text classifiers, one per task."""

    name: str
    figure: str
    question: str
    tasks: tuple[str, ...]
    """Keys of GLUE_TASKS that the thesis shows."""
    reads: Reads
    draws: tuple[Some, ...]
    methods: tuple[str, ...] = METHODS
    stated: tuple[Stated, ...] = ()
    seeds: int = 3
    absent: Callable[[Sequence[str]], Iterable[Finding]] = lambda tasks: ()
    """What the thesis prints of tasks that were not run, by their keys."""

    paper = PAPER
    stand_in = "the demo's audit: demo-bert on its written remarks, which stand in for SST-2"

    @property
    def needs(self) -> str:
        names = ", ".join(GLUE_TASKS[task].name for task in self.tasks)
        return f"{names} of GLUE (--data glue, glue:TASK, or a folder) and {BERT}"

    def requests(self, ask: ExperimentAsk) -> list[Request]:
        sizes = {"levels": "sparsities", "trials": "trials", "most": "max_texts", "model": "model"}
        asked = [REMARKS]
        if ask.data is not None or not ask.quick:
            asked = [self._request(data, ask.quick) for data in self._sources(str(ask.data))]
        return [ask.over(one, **sizes) for one in asked]

    def _request(self, data: str, quick: bool) -> TextRequest:
        """The thesis' audit of one task (Sec. 6.6); `quick`: the demo's model and sizes on that
        task."""
        axes = usual_axes(data)
        if quick:
            return replace(REMARKS, data=data, axes=axes, title=f"{self.name}: {Path(data).name}")
        return TextRequest(
            model=BERT,
            data=data,
            axes=axes,
            methods=self.methods,
            sparsities=SHARES,
            step=0.1,
            trials=self.seeds,
            tune=THESIS,
            score_texts=SCORE_TEXTS,
            title=f"Thesis: {Path(data).name}",
        )

    def _sources(self, data: str) -> list[str]:
        """The tasks that are meant: of the hub, of a folder's folders, or this one."""
        if data == HUB:
            return [f"glue:{task}" for task in self.tasks]
        inside = sorted(Path(data).iterdir()) if Path(data).is_dir() else []
        found = [
            str(path) for path in inside if path.is_dir() and key_of_name(path.name) in self.tasks
        ]
        return found or [data]

    def read(self, runs: Sequence[Run], ask: ExperimentAsk) -> Iterator[Finding]:
        for run in runs:
            unlike, name = unlike_thesis(run, self.tasks), run.data["name"]
            yield from (
                replace(
                    one,
                    what=f"{name}: {one.what}",
                    differs="; ".join(filter(None, [one.differs, unlike])),
                )
                for one in self.reads(run)
            )
        beside = {task_of(run) for run in runs}
        yield from self.absent([task for task in self.tasks if task not in beside])


def task_of(run: Run) -> str:
    """The key of the GLUE task whose printed numbers a run is laid beside."""
    key = key_of_name(run.data["name"])
    return key if key in GLUE_TASKS else STANDS_FOR


FULL = "dense"
Printed = Mapping[str, Mapping[str, float]]
"""By arm ("dense" for the full model), then by task."""


def _of_table(table: str, column: str = "value") -> Printed:
    """A printed table as it is laid beside runs."""
    cells = printed()
    cells = cells[(cells["table"] == table) & ~cells["method"].str.endswith(f":{ACHLATIS}")]
    tasks = cells["task"].map(key_of_name)
    return {
        str(method): dict(zip(tasks[rows.index], rows[column], strict=True))
        for method, rows in cells.groupby("method", sort=False)
    }


TICKETS_PRINTED = _of_table("6.2", "sparsity")
"""Table 6.2: the largest sparsity with a winning ticket."""
FULL_PRINTED = {key_of_name(task): round(mean / 100, 4) for task, (mean, _) in FULL_62.items()}
TICKET_VALUES: Printed = {FULL: FULL_PRINTED, **_of_table("6.2")}
"""Table 6.2: the metric of the full model, and of each winning ticket."""
MASKED_PRINTED = _of_table("6.3")
LTH_PRINTED = {name: cells for name, cells in _of_table("6.4").items() if name != "igspf:michel"}


def levels(methods: Sequence[str]) -> Callable[[Run], Iterator[Finding]]:
    """Figs. 6.6 and 6.7: the metric of the full model, and of these arms at every share."""

    def read(run: Run) -> Iterator[Finding]:
        table = lookup.reported(run)
        for variant in table[table["method"].isin((FULL, *methods))].to_dict("records"):
            yield _measured(run, variant)

    return read


def step_by_step(run: Run) -> Iterator[Finding]:
    """Fig. 6.7: the levels, and ISP minus its one-shot version, with intervals over seeds alone."""
    yield from levels(WITH_ISP)(run)
    variants = run.table("variants").query("seed >= 0")
    rows = where(run.table("results"), split="test", axis="", metric=run.data["metric"])
    wide = rows.merge(variants, on="variant").pivot_table("value", ["sparsity", "seed"], "method")
    minus = wide.reindex(columns=WITH_ISP[::-1]).diff(axis=1)[WITH_ISP[0]]
    for share, apart in minus.dropna().groupby("sparsity"):
        said = f"{MINUS_ONE_SHOT}, {100 * float(share):g} % cut"
        yield mean_of(said, apart, n=rows["n"].max(), seeds=len(apart))


MINUS_ONE_SHOT = "ISP minus one-shot ISP, seed by seed"


def tickets(run: Run) -> Iterator[Finding]:
    """Table 6.2: the largest share with a winning ticket, and the metric there."""
    task, table = task_of(run), run.table("tickets")
    full = _row(run, FULL)
    yield finding(
        "full model", full, _seeds(run), paper=TICKET_VALUES[FULL].get(task, NAN), where="Table 6.2"
    )
    mine = table[(table["axis"] == "") & table["method"].isin(TICKETS_PRINTED)]
    for row in mine.to_dict("records"):
        name = words.method_name(row["method"])
        about = {"n": float(full.get("n", NAN)), "seeds": row["n_seeds"]}
        for said, cells, ours in (
            (f"largest share with a winning ticket, {name}", TICKETS_PRINTED, row["sparsity"]),
            (f"metric there, {name} (± {row['std']:.3f} over seeds)", TICKET_VALUES, row["mean"]),
        ):
            yield Finding(said, cells[row["method"]].get(task, NAN), "Table 6.2", ours, **about)


def near(
    printed: Printed, share: float, table: str, ours: tuple[str, ...] = ()
) -> Callable[[Run], Iterator[Finding]]:
    """Tables 6.3 and 6.4: every printed arm at the run's share nearest to the table's; `ours`: arms
    that are shown beside them."""

    def read(run: Run) -> Iterator[Finding]:
        task, reported = task_of(run), lookup.reported(run)
        for arm, by_task in {**printed, **dict.fromkeys(ours, {})}.items():
            rows = reported[reported["method"] == arm]
            place = f"{table}, {100 * share:g} %"
            beside: dict[str, Any] = {"paper": by_task.get(task, NAN), "where": place}
            if len(rows):
                at = rows.loc[(rows["sparsity"] - share).abs().idxmin()].to_dict()
                cut = [{"share cut": f"{100 * one:g} %"} for one in (share, at["sparsity"])]
                yield _measured(run, at, **beside, differs=differences(*cut))
            else:
                yield Finding(
                    f"metric, {_arm(arm)}", **beside, differs="this procedure was not run here"
                )
        if ours:
            yield from against_michel(run, share)

    return read


def against_michel(run: Run, share: float) -> Iterator[Finding]:
    """Conductance minus Michel's score in single scoring, at the share nearest to the table's."""
    asked = {"base": "once", "score": "conductance", "other": "michel"}
    mine = where(run.table("arm_differences"), axis="", metric=run.data["metric"], **asked)
    if len(mine):
        row = mine.loc[(mine["sparsity"] - share).abs().idxmin()].to_dict()
        yield finding(f"{MINUS_MICHEL}, {100 * row['sparsity']:g} % cut", row, row["n_trials"])


MINUS_MICHEL = "conductance minus Michel in single scoring"


def absent(printed: Sequence[Printed], table: str) -> Callable[[Sequence[str]], Iterable[Finding]]:
    """What a table prints of tasks that were not run: a row each, without a number of ours."""

    def read(tasks: Sequence[str]) -> Iterator[Finding]:
        for part in printed:
            for arm, by_task in part.items():
                for task in (task for task in tasks if task in by_task):
                    named = "largest share with a ticket" if part is TICKETS_PRINTED else "metric"
                    said = f"{GLUE_TASKS[task].name}: {named}, {_arm(arm)}"
                    yield Finding(said, by_task[task], table, differs="this task was not run here")

    return read


def _arm(method: str) -> str:
    return "full model" if method == FULL else words.method_name(method)


def _measured(run: Run, variant: Values, **printed: Any) -> Finding:
    cut = "" if variant["method"] == FULL else f", {100 * variant['sparsity']:g} % cut"
    said = f"{run.data['metric']}, {_arm(variant['method'])}{cut}"
    return finding(said, _row(run, variant["variant"]), _seeds(run), **printed)


def _row(run: Run, variant: str) -> Values:
    """The task's metric of a variant on all test texts."""
    return lookup.result(run, variant, run.data["metric"]) or {}


def _seeds(run: Run) -> float:
    return float(run.request["trials"])


IN_RANGE = {"sst2": 0.0486}
"""Share of heads with a correlation between .2 and .4, as printed (IMDB .0347 and RTT .0208 too,
which are no GLUE tasks)."""
RANGE = (0.2, 0.4)
STAGES = ("fine-tuned", "pre-trained")
ITERATED = ("igspp:conductance", "isp:conductance", "igspf:conductance")
"""Procedures whose rounds leave a fine-tuned model; the first that was run is shown."""


def in_range(run: Run) -> Iterator[Finding]:
    """Fig. 6.1: the share of heads in the printed range, counted over all heads, at both stages."""
    for stage in STAGES:
        table = importance(run, "conductance", stage)
        if len(table):
            share = float(table["value"].between(*RANGE).mean())
            printed = IN_RANGE.get(task_of(run), NAN) if stage == STAGES[0] else NAN
            yield Finding(
                f"share of heads with a correlation of .2 to .4, {stage}",
                printed,
                "Sec. 6.5.2",
                share,
                n=len(table),
                seeds=run.request["trials"],
            )


def correlations_left(iteration: int) -> Reads:
    """Figs. 6.2 to 6.5: mean correlation over the heads left after this iteration, on the example
    texts, and what changed since fine-tuning; intervals are over texts."""

    def read(run: Run) -> Iterator[Finding]:
        place = _place(run, iteration)
        if place is None:
            return
        table, stage = lookup.frame(run, "lens"), place[1]
        means = table.pivot_table(index="text_id", columns="stage", values="correlation")
        known = _rounds(run, place[0])
        paper = {"iteration": f"{iteration}, of which each cuts 10 %"}
        found = {"iteration": f"{known.index(stage) + 1} of {len(known)} ({stage})"}
        said, unlike = CORRELATION, differences(paper, found)
        for what, values in (
            (f"{said}, iteration {iteration}", means[stage]),
            (f"change of the {said}, iteration {iteration}", means[stage] - means[STAGES[0]]),
        ):
            yield mean_of(what, values, n=values.count(), seeds=1, differs=unlike)

    return read


CORRELATION = "mean correlation of attention and attribution"
FIGURES = (2, 3, 6)
"""Iterations that Figs. 6.2 to 6.4 show."""


def maps_after(iteration: int) -> Callable[[Run, Choice], Iterator[Panel]]:
    """Figs. 6.2 to 6.4: attention and attribution of a head of the first layer left, after some
    rounds of cutting.

    Every share of the run is a round. Where there are fewer than the figures show, the first, the
    middle and the last stand for them.
    """

    def draw(run: Run, choice: Choice) -> Iterator[Panel]:
        place = _place(run, iteration)
        if place is not None:
            text, stage, layer, head = place
            yield lens_heads(run, choice, text, stage, (layer, head))
            yield lens_maps(run, choice, text, stage, layer, head)

    return draw


def scatter(run: Run, choice: Choice) -> Iterator[Panel]:
    """Fig. 6.5: attention against attribution of the head with the highest and with the lowest
    correlation."""
    place = _place(run, 2)
    if place is not None:
        text, stage = place[:2]
        known = where(lookup.frame(run, "lens"), text_id=text, stage=stage)
        order = known.dropna(subset=["correlation"]).sort_values("correlation", kind="stable")
        for row in (order.iloc[0], order.iloc[-1]):
            yield lens_scatter(run, choice, text, stage, int(row["layer"]), int(row["head"]))


def _place(run: Run, iteration: int) -> tuple[str, str, int, int] | None:
    """(text, stage, layer, head) after a round; None where the run kept no maps of such a stage."""
    texts = examples(run)
    if texts.empty:
        return None
    text = str(texts["text_id"].iloc[0])
    rounds = _rounds(run, text)
    if not rounds:
        return None
    at, last = iteration - 1, len(rounds) - 1
    if last + 1 < FIGURES[-1]:
        at = (0, last // 2 + last % 2, last)[FIGURES.index(iteration)]
    stage = rounds[at]
    layer, head = heads_here(run, text, stage)[0]
    return text, stage, layer, head


def _rounds(run: Run, text: str) -> list[str]:
    """Stages of a text's maps that one procedure left, in order: the first of ITERATED that was
    run."""
    known = [stage for stage in stages(run, text) if stage not in STAGES]
    of = ([one for one in known if one.startswith(f"{arm}-")] for arm in ITERATED)
    return next(filter(None, of), known)


GLUE = ("mnli", "qqp", "qnli", "mrpc", "sst2", "cola", "rte", "wnli")
WITH_ISP = ("isp:conductance", "one-shot-isp:conductance")


ROWS = (
    TicketExperiment(
        name="thesis-fig6.1",
        figure="Fig. 6.1",
        question="Does fine-tuning change which heads attend to what decides?",
        tasks=("sst2",),
        reads=in_range,
        draws=(importance_maps,),
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
            stated=stated("Sec. 6.5.2", f"change of the {CORRELATION}, iteration 6", rises=("",)),
            reads=correlations_left(iteration),
            draws=(maps_after(iteration),),
        )
        for place, iteration in enumerate(FIGURES, 2)
    ),
    TicketExperiment(
        name="thesis-fig6.5",
        figure="Fig. 6.5",
        question=(
            "What does a head look like that is cut, and one that stays, pair of tokens by pair?"
        ),
        tasks=("mnli",),
        reads=correlations_left(2),
        draws=(scatter,),
    ),
    TicketExperiment(
        name="thesis-fig6.6",
        figure="Fig. 6.6",
        question="What is left of the task as heads are cut, by every variant of Algorithm 6.1?",
        tasks=GLUE,
        reads=levels(METHODS),
        draws=(tickets_curve,),
    ),
    TicketExperiment(
        name="thesis-fig6.7",
        figure="Fig. 6.7",
        question="Is cutting step by step (ISP) better than cutting once and fine-tuning?",
        tasks=("mnli", "qnli"),
        stated=stated("Sec. 6.6.3", MINUS_ONE_SHOT, not_above=("",)),
        reads=step_by_step,
        draws=(tickets_curve,),
        methods=WITH_ISP,
        seeds=1,
    ),
    TicketExperiment(
        name="thesis-table6.2",
        figure="Table 6.2",
        question="Up to which share of heads are there winning tickets?",
        tasks=("qnli", "qqp", "mrpc", "wnli", "rte", "sst2", "cola"),
        reads=tickets,
        draws=(tickets_curve, tickets_table),
        absent=absent((TICKETS_PRINTED, TICKET_VALUES), "Table 6.2"),
    ),
    TicketExperiment(
        name="thesis-table6.3",
        figure="Table 6.3",
        question=(
            "Cut from the fine-tuned model by Algorithm 6.1: is conductance a better score than"
            " Michel's?"
        ),
        tasks=("mnli", "qnli", "qqp", "sst2", "mrpc", "cola"),
        stated=stated("Sec. 6.6.4", MINUS_MICHEL, not_above=("",)),
        reads=near(MASKED_PRINTED, 0.7, "Table 6.3", ("once:conductance", "once:michel")),
        draws=(tickets_curve, tickets_table),
        absent=absent((MASKED_PRINTED,), "Table 6.3"),
    ),
    TicketExperiment(
        name="thesis-table6.4",
        figure="Table 6.4",
        question="From pre-trained weights: what do IGSPF and IGSPP keep of the task?",
        tasks=("mnli", "qnli", "mrpc", "sst2", "cola"),
        reads=near(LTH_PRINTED, 0.8, "Table 6.4"),
        draws=(tickets_curve, tickets_table),
        absent=absent((LTH_PRINTED,), "Table 6.4"),
    ),
)
