"""Figures and tables of the thesis (chapter 6): what is asked, and how their runs are read.

At the thesis' scale `--data` is one GLUE task ("glue:rte", a task's folder), "glue" for all of the
hub's, or a folder that holds tasks' folders. `quick` is the embedded audit, whose texts stand in
for SST-2: one text, two classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.audit.experiments import Experiment, ExperimentAsk, Finding, differences
from engine.audit.request import Request
from engine.data.texts.glue import GLUE_TASKS, key_of_name
from engine.report.charts.panel import Choice, Panel
from engine.report.contents import default_choice
from engine.store.runs import Run
from engine.tracks.text_classifiers.embedded import REMARKS
from engine.tracks.text_classifiers.request import SCORE_TEXTS, THESIS, TextRequest, usual_axes

PAPER = "IG-BERT"
BERT = "bert-base-uncased"
HUB = "glue"
"""Stands for all tasks of an experiment, from the hub."""
STANDS_FOR = "sst2"
"""The task that texts which are no GLUE task are laid beside."""
METHODS = (
    "once:conductance",
    "once:michel",
    "once:random",
    "alg61:conductance",
    "one-shot-isp:conductance",
    "igspf:conductance",
    "igspp:conductance",
)
SHARES = tuple(round(0.1 * step, 1) for step in range(1, 10))
Reads = Callable[[Run], Iterable[Finding]]
Draws = Callable[[Run, Choice], Iterable[Panel]]


@dataclass(frozen=True, eq=False)
class TicketExperiment(Experiment):
    """A figure or table that is read from audits of text classifiers, one per task."""

    name: str
    figure: str
    question: str
    tasks: tuple[str, ...]
    """Keys of GLUE_TASKS that the thesis shows."""
    reads: Reads
    draws: Draws
    methods: tuple[str, ...] = METHODS
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
        if ask.quick and ask.data is None:
            return [ask.over(REMARKS, **sizes)]
        return [
            ask.over(self._request(data, ask.quick), **sizes)
            for data in self._sources(str(ask.data))
        ]

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
            unlike, name = unlike_thesis(run, self.tasks), run.meta["data"]["name"]
            yield from (
                replace(one, what=f"{name}: {one.what}", differs=one.differs or unlike)
                for one in self.reads(run)
            )
        beside = {task_of(run) for run in runs}
        yield from self.absent([task for task in self.tasks if task not in beside])

    def panels(
        self, runs: Sequence[Run], ask: ExperimentAsk, dark: bool = False
    ) -> Iterator[Panel]:
        for run in runs:
            yield from self.draws(run, default_choice(run, dark=dark))


def task_of(run: Run) -> str:
    """The key of the GLUE task whose printed numbers a run is laid beside."""
    key = key_of_name(run.meta["data"]["name"])
    return key if key in GLUE_TASKS else STANDS_FOR


def unlike_thesis(run: Run, tasks: Sequence[str]) -> str:
    """What a run does not share with the thesis, which shows these tasks."""
    meta, request, name = run.meta, run.meta["request"], run.meta["data"]["name"]
    near = next(task for task in (key_of_name(name), STANDS_FOR, tasks[0]) if task in tasks)
    task = GLUE_TASKS[near].name
    return differences(
        {
            "model": BERT,
            "task": task,
            "seeds": "3",
            "training texts a score reads": str(SCORE_TEXTS),
            "epochs": str(THESIS["epochs"]),
        },
        {
            "model": meta["model"]["name"],
            "task": task if key_of_name(name) == near else name,
            "seeds": str(request["trials"]),
            "training texts a score reads": str(request["score_texts"]),
            "epochs": str(request["tune"].get("epochs")),
        },
    )
