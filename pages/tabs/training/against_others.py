"""Against others: BiFP beside other methods at the same share cut, what more fairness costs, and
the paths between."""

from __future__ import annotations

from engine.report.charts.panel import Choice
from engine.tracks.fair_training.panels import differences, path, surface, tradeoff
from pages.shared import panels, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import capital, choose_reading, segmented
from pages.shared.navigation import Tab


def draw(run: KeptRun, choice: Choice) -> None:
    choice = choose_reading(run, choice)
    panels.draw(made(run, differences.bifp_against, choice))
    panels.draw(made(run, tradeoff.tradeoff, choice))
    _around(run, choice)
    panels.look_ahead(run, (differences.bifp_against,), choice)


def _around(run: KeptRun, choice: Choice) -> None:
    """Surface and paths; where they were not asked for, one of them says how to get both."""
    if not made(run, surface.has_surface, choice):
        make = path.path if made(run, path.has_path, choice) else surface.surface
        panels.draw(made(run, make, choice))
        return
    show = segmented("Colour shows", list(surface.SHOWN), state.SURFACE, _shown)
    panels.draw(made(run, surface.surface, choice, show=show))
    panels.draw(made(run, path.path, choice))


def _shown(name: str) -> str:
    return capital(surface.SHOWN[name])


TAB = Tab("Against others", draw)
