"""Fair training: accuracy and gaps against sparsity, BiFP beside the others, trade-off, cost, curves, loss surface."""

from __future__ import annotations

import streamlit as st

from engine import words
from engine.export.panels import (
    classifier_changed,
    classifier_groups,
    fair_curve,
    fair_differences,
    fair_effort,
    fair_lookup,
    fair_path,
    fair_saved,
    fair_surface,
    fair_tradeoff,
    fair_training,
    filters_layers,
    levelling,
)
from engine.export.panels.base import Choice
from engine.export.tracks import track_of
from pages.shared import fair_live, panels, state
from pages.shared.cache import KeptRun, made
from pages.shared.changed_images import changed_images, one_repeat
from pages.shared.controls import capital, choose, choose_reading, method_label, segmented
from pages.shared.frame import begin_app, boundary, heading, need_run
from pages.shared.safe import plain

SHOWN = (
    classifier_groups.paid_by_group,
    levelling.levelling_down,
    fair_differences.bifp_against,
    fair_training.training,
    filters_layers.layer_survival,
    filters_layers.layers_by_speedup,
    fair_saved.saved,
)
OF_A_SEED = (classifier_changed.changed_by_group, classifier_changed.gallery)
COUNTED = {"examples": "Images read", "iterations": "Weight updates", "seconds": "Seconds"}
"""The first is the usual: as many updates of BiFP read more images."""


def page() -> None:
    heading("fair_training")
    fair_live.watch()
    run = need_run("fair_training")
    choice = choose(run)
    with st.container(horizontal=True, gap="medium"):
        family = segmented("Methods shown", fair_lookup.families(run), state.FAMILY, _family)
        choice = choose_reading(run, choice)
    panels.draw(made(run, fair_curve.fair_curve, choice, family=family))
    _definitions(run, family, choice)
    _beside(run, choice, classifier_groups.paid_by_group, levelling.levelling_down)
    panels.draw(made(run, fair_differences.bifp_against, choice))
    panels.draw(made(run, fair_tradeoff.tradeoff, choice))
    st.divider()
    by = segmented("Training counted in", list(COUNTED), state.EFFORT, COUNTED.get)
    panels.draw(made(run, fair_effort.effort, choice, by=by, family=family))
    panels.draw(made(run, fair_training.training, choice))
    st.divider()
    _beside(run, choice, filters_layers.layer_survival, filters_layers.layers_by_speedup)
    panels.draw(made(run, fair_saved.saved, choice))
    st.divider()
    seed = one_repeat(run, choice, "Images")
    if seed is not None:
        changed_images(run, choice, seed)
        st.divider()
    _around(run, choice)
    options = {fair_curve.fair_curve: {"family": family}, fair_effort.effort: {"by": by, "family": family}}
    options |= dict.fromkeys(OF_A_SEED, {"trial": seed or 0})
    panels.look_ahead(run, (*options, *SHOWN), choice, options)


def _beside(run: KeptRun, choice: Choice, *makes: object) -> None:
    for column, make in zip(st.columns(len(makes), gap="large"), makes, strict=True):
        with column:
            panels.draw(made(run, make, choice))


def _around(run: KeptRun, choice: Choice) -> None:
    """Surface and paths; where they were not asked for, one of them says how to get both."""
    if not made(run, fair_surface.has_surface, choice):
        make = fair_path.path if made(run, fair_path.has_path, choice) else fair_surface.surface
        panels.draw(made(run, make, choice))
        return
    show = segmented("Colour shows", list(fair_surface.SHOWN), state.SURFACE, _shown)
    panels.draw(made(run, fair_surface.surface, choice, show=show))
    panels.draw(made(run, fair_path.path, choice))


def _definitions(run: KeptRun, family: str, choice: Choice) -> None:
    """What the methods of the charts do, in a sentence each."""
    offered = made(run, fair_lookup.known_methods)
    with st.expander("What do these methods do?", icon=":material/help:"):
        for name in fair_lookup.shown_of(offered, family, choice.method):
            st.markdown(f"**{plain(method_label(name))}**: {track_of(run).definition(name)}")


def _family(name: str) -> str:
    return words.FAIR_FAMILIES[name].name


def _shown(name: str) -> str:
    return capital(fair_surface.SHOWN[name])


begin_app()
with boundary():
    page()
