"""Filters: which subgroup pays at which speedup, what is cut, and does the promised speedup come
true?"""

from __future__ import annotations

from pages.shared import navigation
from pages.shared.controls import choose
from pages.shared.frame import begin_app, boundary, heading, need_run


def page() -> None:
    heading("filters")
    run = need_run("filters")
    navigation.draw("filters", run, choose(run))


begin_app()
with boundary():
    page()
