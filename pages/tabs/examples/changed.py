"""Images that changed class in one trial or seed, with pictures where they were kept."""

from __future__ import annotations

import streamlit as st

from engine.report.charts import classifier_changed
from engine.report.charts.panel import Choice
from pages.shared import panels
from pages.shared.cache import KeptRun
from pages.shared.changed_images import changed_images, one_repeat
from pages.shared.tabs import Tab

SHOWN = (classifier_changed.changed_by_group, classifier_changed.gallery)


def draw(run: KeptRun, choice: Choice) -> None:
    repeat = one_repeat(run, choice, "Images")
    if repeat is None:
        st.info("Nothing is cut here, so no image changed class. Choose another method or level.")
        return
    changed_images(run, choice, repeat)
    panels.look_ahead(run, SHOWN, choice, dict.fromkeys(SHOWN, {"trial": repeat}))


TAB = Tab("Images", draw)
