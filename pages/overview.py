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

SHOWN = (who_pays.who_pays, along_sparsity.bias_along_sparsity, along_sparsity.perplexity_along_sparsity)
FOLDED = (who_pays.levelling_down, who_pays.perplexity_by_group, cost.cost)


def page() -> None:
    heading(words.PAGES["overview"])
    run = need_run()
    choice = choose(run)
    panels.headline(made(run, headline, choice))
    pays, bias, perplexity = SHOWN
    for column, make in zip(st.columns(2, gap="large"), (pays, bias), strict=True):
        with column:
            panels.draw(made(run, make, choice), make.__name__)
    left, right = st.columns(2, gap="large")
    with left:
        for make in FOLDED:
            panels.draw_folded(made(run, make, choice), make.__name__)
        offer_missing(run, choice)
    with right:
        panels.draw(made(run, perplexity, choice), perplexity.__name__)
    panels.look_ahead(run, (headline, *SHOWN, *FOLDED), choice)


begin_app()
with boundary():
    page()
