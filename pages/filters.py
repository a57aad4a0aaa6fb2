"""Filters: who pays, what is left of each layer, what the scores say, and whether the speedup comes
true."""

from __future__ import annotations

from typing import Any

from engine.core import words
from engine.report.charts import cost
from engine.report.charts.panel import Choice
from engine.tracks.image_classifiers import effects
from engine.tracks.image_classifiers.panels import pw, scores, speedup
from pages.shared import panels, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import choose_reading, line, segmented, select
from pages.shared.frame import draw_page, tabbed
from pages.shared.measuring import growth_of, measure
from pages.shared.navigation import Tab
from pages.tabs.changed import one_repeat
from pages.tabs.layers import LAYERS

SCORE = "score of the method"
SHOW = {"change": "Change since the dense model", "level": "Level"}


def who_pays(run: KeptRun, choice: Choice) -> None:
    """Every subgroup at every speedup, and whether the performance-weighted loss helps it: does it,
    which part of it, which images it looks at. What was not run is not offered."""
    with line():
        choice = choose_reading(run, choice)
        show = segmented("Show", SHOW, state.SHOW)
    along = speedup.groups_along_speedup
    panels.show(run, choice, along, pw.pw_difference, options={along: {"show": show}})
    if len(made(run, pw.switches)):
        panels.draw_folded(made(run, pw.ablation, choice), "ablation")
    if made(run, pw.has_loss_share, choice):
        panels.draw_folded(made(run, pw.loss_share, choice), "loss_share")


def of_scores(run: KeptRun, choice: Choice) -> None:
    """What each unit has or does, and which of them go, in one trial."""
    shown = SCORE
    with line():
        trial = one_repeat(run, choice, "Scores")
        if run.has("effects"):
            groups = made(run, effects.effects_on, choice.measured)["group"].sort_values().unique()
            named = {SCORE: "Score of the method", "": "What each does alone to all images"}
            named |= {one: f"What each does alone to {words.group_name(one)}" for one in groups}
            shown = select("Colour", named, state.EFFECT)
    options: dict[str, Any] = {} if trial is None else {"trial": trial}
    make = scores.score_map if shown == SCORE else scores.effect_map
    options |= {} if shown == SCORE else {"group": shown}
    panels.show(run, choice, make, options={make: options})
    if not run.has("effects"):
        growth, label = growth_of(run, choice, effects=True), "Measure what each does alone"
        measure(growth, label, run=run)


TABS = (
    Tab("Who pays", who_pays),
    LAYERS,
    Tab("Scores", of_scores),
    Tab("Speed", panels.shows((speedup.speed, cost.cost))),
)
draw_page(lambda: tabbed("filters", TABS))
