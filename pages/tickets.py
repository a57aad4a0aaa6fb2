"""Tickets: how many heads can go, for whom it is still a winning ticket, which heads survive."""

from __future__ import annotations

from pages.shared import navigation
from pages.shared.controls import choose
from pages.shared.frame import begin_app, boundary, heading, need_run


def page() -> None:
    heading("tickets")
    run = need_run("tickets")
    navigation.draw("tickets", run, choose(run))


begin_app()
with boundary():
    page()
