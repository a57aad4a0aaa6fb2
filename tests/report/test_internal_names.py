"""No chart, sentence or table of an embedded audit shows a name that is meant for files and
code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from engine.report import contents
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel
from engine.report.charts.pareto import pareto
from engine.report.charts.what_was_cut import what_was_cut
from engine.report.measured import in_words
from engine.report.tracks import track_of
from engine.store.runs import Run
from tests.places import ROOT

RUNS = sorted((ROOT / "assets" / "demo-run" / "runs").iterdir())
INTERNAL = re.compile(
    r"\b[a-z0-9]+(?:_[a-z0-9]+)+\b"  # gender_and_sex
    r"|\b[a-z]+(?:[-:+][a-z0-9]+)*-\d+(?:\.\d+)?(?:%|x)"  # bifp-str-no-w-83.2%
    r"|\b\w+-g0\.\d"  # fasp-nationality-g0.20
    r"|Γ"
)
DEVICES = {"x86_64"}
SHOWN = {
    "text",
    "name",
    "title",
    "ticktext",
    "hovertext",
    "label",
    "labels",
    "hovertemplate",
    "x",
    "y",
}


def test_the_pattern_knows_them_from_words():
    for text in (
        "bifp-str-no-w-83.2%",
        "gender_and_sex",
        "Γ = 0.3",
        "autobot+pw-16x",
        "fasp-nationality-g0.20-s0.050",
    ):
        assert INTERNAL.search(text), text
    for text in (
        "BiFP-str, 83.2 % cut",
        "one-shot ISP",
        "a 95 % interval",
        "γ = 0.3",
        "non-critical 5 %",
    ):
        assert not INTERNAL.search(text), text


def texts_of(part: Any, key: str = "") -> Iterator[str]:
    """Everything a figure writes, hovers too."""
    if isinstance(part, dict):
        for name, one in part.items():
            yield from texts_of(one, name)
    elif isinstance(part, (list, tuple)):
        for one in part:
            yield from texts_of(one, key)
    elif hasattr(part, "tolist"):
        yield from texts_of(part.tolist(), key)
    elif isinstance(part, str) and key in SHOWN:
        yield part


def shown(panel: Panel) -> Iterator[str]:
    """Sentences, the chart, titles and cells of the table."""
    figure = panel.whole()
    yield from (panel.question, panel.said, panel.caveat)
    if figure is not None:
        yield from texts_of(figure.to_plotly_json())
    for name in panel.table.columns:
        yield str(name)
        yield from (cell for cell in panel.table[name].unique() if isinstance(cell, str))


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: folder.name)
def test_embedded_audits_show_words(folder):
    run = Run(folder)
    track, axis = track_of(run), run.meta["request"]["axes"][0]
    method = lookup.methods(run, axis)[0]
    cut = [level for level in lookup.levels(run, method, axis) if level != track.level.none]
    choice = Choice(method, axis, track.level.first(cut), reading=track.readings[0])
    own = (*contents.axis_panels(run, choice), *contents.shared_panels(run, choice))
    for panel in (*own, pareto(run, choice), what_was_cut(run, choice)):
        found = {hit for text in shown(panel) for hit in INTERNAL.findall(text)} - DEVICES
        assert not found, f"{panel.key}: {sorted(found)}"


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: folder.name)
def test_notes_are_shown_in_words(folder):
    """They are stored with ids ("autobot+pw-48x") and translated where they are shown."""
    run = Run(folder)
    for note in (*run.meta["warnings"], *track_of(run).notes(run)):
        assert not INTERNAL.findall(in_words(run, note)), note
