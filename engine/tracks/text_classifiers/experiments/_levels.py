"""Figs. 6.6 and 6.7, Tables 6.2 to 6.4: the task's metric of every procedure at every share of
heads cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from scipy.stats import t as student

from engine.audit.experiments import NAN, Finding, finding
from engine.core import words
from engine.data.texts.glue import GLUE_TASKS, key_of_name
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel
from engine.store.runs import Run
from engine.tracks.text_classifiers.experiments._experiment import task_of
from engine.tracks.text_classifiers.panels.importance import importance, importance_maps
from engine.tracks.text_classifiers.panels.lens import (
    examples,
    lens_heads,
    lens_maps,
    lens_scatter,
    stages,
)
from engine.tracks.text_classifiers.panels.published import ACHLATIS, full_models, printed

FULL = "dense"
Printed = Mapping[str, Mapping[str, float]]
"""By arm ("dense" for the full model), then by task."""
NOT_RUN = "this task was not run here"


def _of_table(table: str, **other_names: str) -> Printed:
    """A printed table as it is laid beside runs; other_names: procedures by how it is read here."""
    found: dict[str, dict[str, float]] = {}
    for cell in printed():
        procedure, _, score = cell.method.partition(":")
        if cell.table == table and score != ACHLATIS:
            method = f"{other_names.get(procedure, procedure)}:{score}"
            found.setdefault(method, {})[key_of_name(cell.task)] = round(cell.value, 4)
    return found


TICKETS_PRINTED: Printed = {
    method: {
        key_of_name(cell.task): cell.sparsity
        for cell in printed()
        if (cell.table, cell.method) == ("6.2", method)
    }
    for method in _of_table("6.2")
}
"""Table 6.2: the largest sparsity with a winning ticket. Empty cells are left out. Where two
sparsities share a printed cell, the row of values below it tells whose they are."""
TICKET_VALUES: Printed = {FULL: full_models(), **_of_table("6.2")}
"""Table 6.2: the metric of the full model, and of each winning ticket (printed in per cent)."""
ONCE_PRINTED = _of_table("6.3", alg61="once")
"""Table 6.3: 70 % cut from the fine-tuned model. Michel's row is another author's; the thesis did
not repeat it."""
LTH_PRINTED = {
    method: cells for method, cells in _of_table("6.4").items() if method != "igspf:michel"
}
"""Table 6.4: 80 % cut, weights from the pre-trained model."""


def levels(methods: Sequence[str]) -> Callable[[Run], Iterator[Finding]]:
    """Figs. 6.6 and 6.7: the metric of the full model, and of these arms at every share."""

    def read(run: Run) -> Iterator[Finding]:
        table = lookup.reported(run)
        for variant in table[table["method"].isin((FULL, *methods))].to_dict("records"):
            yield _measured(run, variant)

    return read


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
        share, value = TICKETS_PRINTED[row["method"]], TICKET_VALUES[row["method"]]
        about = {"n": float(full.get("n", NAN)), "seeds": row["n_seeds"]}
        yield Finding(
            f"largest share with a winning ticket, {name}",
            share.get(task, NAN),
            "Table 6.2" if task in share else "",
            row["sparsity"],
            **about,
        )
        spread = {"low": row["mean"] - row["std"], "high": row["mean"] + row["std"]}
        yield Finding(
            f"metric there, {name} (mean, one standard deviation)",
            value.get(task, NAN),
            "Table 6.2" if task in value else "",
            row["mean"],
            **spread,
            **about,
        )


def near(printed: Printed, share: float, table: str) -> Callable[[Run], Iterator[Finding]]:
    """Tables 6.3 and 6.4: every printed arm at the run's share nearest to the table's."""

    def read(run: Run) -> Iterator[Finding]:
        task, reported = task_of(run), lookup.reported(run)
        for arm, by_task in printed.items():
            rows = reported[reported["method"] == arm]
            beside: dict[str, Any] = {"paper": by_task.get(task, NAN), "where": ""}
            if task in by_task:
                beside["where"] = f"{table}, {100 * share:g} %"
            if len(rows):
                at = rows.loc[(rows["sparsity"] - share).abs().idxmin()].to_dict()
                yield _measured(run, at, **beside)
            else:
                yield Finding(
                    f"metric, {_arm(arm)}", **beside, differs="this procedure was not run here"
                )

    return read


def absent(printed: Sequence[Printed], table: str) -> Callable[[Sequence[str]], Iterable[Finding]]:
    """What a table prints of tasks that were not run: a row each, without a number of ours."""

    def read(tasks: Sequence[str]) -> Iterator[Finding]:
        for part in printed:
            for arm, by_task in part.items():
                for task in (task for task in tasks if task in by_task):
                    named = "largest share with a ticket" if part is TICKETS_PRINTED else "metric"
                    said = f"{GLUE_TASKS[task].name}: {named}, {_arm(arm)}"
                    yield Finding(said, by_task[task], table, differs=NOT_RUN)

    return read


def _arm(method: str) -> str:
    return "full model" if method == FULL else words.method_name(method)


def _measured(run: Run, variant: Mapping[str, Any], **printed: Any) -> Finding:
    cut = "" if variant["method"] == FULL else f", {100 * variant['sparsity']:g} % cut"
    said = f"{run.meta['data']['metric']}, {_arm(variant['method'])}{cut}"
    return finding(said, _row(run, variant["variant"]), _seeds(run), **printed)


def _row(run: Run, variant: str) -> dict[str, Any]:
    """The task's metric of a variant on all test texts."""
    return lookup.result(run, variant, run.meta["data"]["metric"]) or {}


def _seeds(run: Run) -> float:
    return float(run.meta["request"]["trials"])


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
                "Sec. 6.5.2" if printed == printed else "",
                share,
                n=len(table),
                seeds=run.meta["request"]["trials"],
            )


def heat_maps(run: Run, choice: Choice) -> Iterator[Panel]:
    yield importance_maps(run, choice)


def correlations_left(run: Run) -> Iterator[Finding]:
    """Figs. 6.2 to 6.5: mean correlation over the heads left, on the example texts, stage by stage;
    the interval is over texts."""
    if not run.has("lens"):
        return
    table = lookup.frame(run, "lens")
    for stage in stages(run, str(table["text_id"].iloc[0])):
        by_text = table[table["stage"] == stage].groupby("text_id")["correlation"].mean().dropna()
        half = float(student.ppf(0.975, len(by_text) - 1) * by_text.sem())
        mean = float(by_text.mean())
        yield Finding(
            f"mean correlation of attention and attribution, {stage}",
            ours=mean,
            low=mean - half,
            high=mean + half,
            n=len(by_text),
            seeds=1,
        )


def maps_after(iteration: int) -> Callable[[Run, Choice], Iterator[Panel]]:
    """Figs. 6.2 to 6.4: attention and attribution of a head of the first layer left, after some
    rounds of cutting.

    Every share of the run is a round; where there are fewer, the last one is shown.
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
    if place is None:
        return
    text, stage = place[:2]
    rows = lookup.frame(run, "lens")
    rows = rows[(rows["text_id"] == text) & (rows["stage"] == stage)].dropna(subset=["correlation"])
    for at in (rows["correlation"].idxmin(), rows["correlation"].idxmax()):
        yield lens_scatter(
            run, choice, text, stage, int(rows.loc[at, "layer"]), int(rows.loc[at, "head"])
        )


def _place(run: Run, iteration: int) -> tuple[str, str, int, int] | None:
    """(text, stage, layer, head) after a round; None where the run kept no maps of such a stage."""
    texts = examples(run)
    if texts.empty:
        return None
    text = str(texts["text_id"].iloc[0])
    known = [stage for stage in stages(run, text) if stage not in STAGES]
    rounds = next(
        (mine for arm in ITERATED if (mine := [one for one in known if one.startswith(f"{arm}-")])),
        known,
    )
    if not rounds:
        return None
    stage = rounds[min(iteration, len(rounds)) - 1]
    rows = lookup.frame(run, "lens")
    row = (
        rows[(rows["text_id"] == text) & (rows["stage"] == stage)]
        .sort_values(["layer", "head"])
        .iloc[0]
    )
    return text, stage, int(row["layer"]), int(row["head"])
