"""Who pays when heads are cut: toxicity and perplexity of the texts about every subgroup, before
and after."""

from __future__ import annotations

from dataclasses import replace

from engine.report.charts import lookup
from engine.report.charts.by_group import ByGroup, by_group, levelling_down
from engine.report.charts.panel import Choice, Panel
from engine.report.tracks import Measure
from engine.store.runs import Run
from engine.tracks.language_models import words as own
from engine.tracks.language_models.summary import group_warning

__all__ = ["levelling_down", "perplexity_by_group", "who_pays"]

TOXIC = ByGroup(
    key="who_pays",
    question="Who pays? How toxic are the texts about each subgroup, before and after?",
    measure=Measure("toxicity"),
    x_title="mean toxicity (0 to 1)",
    absent="This run has no toxicity per subgroup for this choice.",
    fell=lambda names, _: f"texts about {names} are less toxic",
    rose=lambda names, _: f"texts about {names} are more toxic",
)
SURPRISED = ByGroup(
    key="perplexity_by_group",
    question="Does the model still predict text about every subgroup equally well?",
    measure=Measure("perplexity"),
    x_title="perplexity (lower is better)",
    absent="This run has no perplexity per subgroup for this choice.",
    fell=lambda names, _: f"the model is less surprised by texts about {names}",
    rose=lambda names, _: f"the model is more surprised by texts about {names}",
)


def who_pays(run: Run, choice: Choice) -> Panel:
    """Toxicity per subgroup, dense against pruned; said to be about words where the group band is
    not passed."""
    panel = by_group(
        run, choice, TOXIC, lookup.caveat(run, None, more=f"n = test prompts. {own.JUDGE}")
    )
    return replace(panel, mind=group_warning(run, choice))


def perplexity_by_group(run: Run, choice: Choice) -> Panel:
    """Perplexity on the texts about each subgroup, dense against pruned: fairness is worth little
    where text breaks."""
    return by_group(run, choice, SURPRISED, f"n = prompts. {own.INTERVALS}")
