"""How it was measured: what every chart rests on, each thing once; long lists are folded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pandas as pd
import streamlit as st

from engine.report import measured
from engine.report.contents import default_choice
from pages.shared import panels, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import fold
from pages.shared.frame import draw_page, heading, need_run
from pages.shared.safe import header

FOLDS: Mapping[str, tuple[Callable[..., pd.DataFrame], bool]] = {
    "Subgroups and how much each was measured on": (measured.subgroups, False),
    "Methods, measures and terms": (measured.definitions, True),
    "What each chart rests on": (measured.caveats, True),
    "All settings": (measured.settings, False),
    "Versions, hashes, time spent": (measured.versions, False),
}
"""Tables behind folds, in reading order, and whether they are made for a choice."""


def page() -> None:
    heading("measured", notes=False)
    run = need_run("measured")
    choice = default_choice(run)
    for part in made(run, measured.parts, choice):
        if part.is_long:
            with st.expander(f"{part.title} ({len(part.told)})"):
                panels.listed(part.told)
        else:
            header(part.title)
            panels.listed(part.told)
    for title, (make, chosen) in FOLDS.items():
        draw = partial(_table, run, make, *([choice] if chosen else []))
        fold(title, state.key_of("about", make.__name__), draw)


def _table(run: KeptRun, make: Callable[..., pd.DataFrame], *choice: object) -> None:
    """A table; of two columns as names and what is known of them."""
    table = made(run, make, *choice)
    (panels.facts if table.shape[1] == 2 else panels.table)(table)


draw_page(page)
