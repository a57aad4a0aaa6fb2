"""Figs. 6.1 to 6.5: how attention and attribution go together, before fine-tuning, after it, and as
heads are cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from scipy.stats import t as student

from engine.audit.experiments import NAN, Finding
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
