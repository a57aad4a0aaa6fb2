"""Overview: the answer in a sentence, four numbers, who pays, and how it goes along the slider."""

from __future__ import annotations

import streamlit as st

from engine import words
from engine.export.panels import along_sparsity, cost, who_pays
from engine.export.panels.headline import headline
from pages.shared import panels
from pages.shared.cache import made
from pages.shared.controls import choose, offer_missing
from pages.shared.frame import begin_app, boundary, heading, need_run

FIRST = (who_pays.who_pays, along_sparsity.bias_along_sparsity)
SECOND = (who_pays.levelling_down, along_sparsity.perplexity_along_sparsity)
THIRD = (who_pays.perplexity_by_group, cost.cost)


def page() -> None:
    heading(words.PAGES["overview"])
    run = need_run()
    choice = choose(run)
    panels.headline(made(run, headline, choice))
    for makes, draw in ((FIRST, panels.draw), (SECOND, panels.draw_folded), (THIRD, panels.draw_folded)):
        for column, make in zip(st.columns(2, gap="large"), makes, strict=True):
            with column:
                draw(made(run, make, choice), make.__name__)
    offer_missing(run, choice)
    panels.look_ahead(run, (headline, *FIRST, *SECOND, *THIRD), choice)


begin_app()
with boundary():
    page()
