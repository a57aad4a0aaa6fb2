"""Examples: texts or images before and after the cut, one by one. An anecdote each, beside the
intervals elsewhere."""

from __future__ import annotations

from pages.shared import navigation
from pages.shared.controls import choose
from pages.shared.frame import begin_app, boundary, heading, need_run


def page() -> None:
    heading("examples")
    run = need_run("examples")
    navigation.draw("examples", run, choose(run))


begin_app()
with boundary():
    page()
