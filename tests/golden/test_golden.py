"""Embedded audits say and show what they did: no line more, none less, none changed unseen; and no
name in it that is meant for files and code."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from engine.report.charts.panel import Panel
from engine.report.charts.pareto import pareto
from engine.report.charts.what_was_cut import what_was_cut
from engine.report.contents import default_choice
from engine.report.measured import in_words
from engine.report.tracks import track_of
from engine.store.runs import EMBEDDED, Store
from tests.golden.golden import KEPT, drawn, text_of

EMBEDDED_RUNS = Store(EMBEDDED, read_only=True)


def test_every_embedded_audit_is_kept():
    assert {path.stem for path in KEPT.iterdir()} == set(EMBEDDED_RUNS.ids())


@pytest.mark.parametrize("run_id", EMBEDDED_RUNS.ids())
def test_it_says_what_it_said(run_id, no_charts, drawn_once):
    """Where a wording was meant to change: `python -m tests.golden.golden`, and the commit shows
    it."""
    kept = (KEPT / f"{run_id}.txt").read_text(encoding="utf-8").splitlines()
    now = text_of(EMBEDDED_RUNS.open(run_id)).splitlines()
    assert now == kept, "\n".join(list(difflib.unified_diff(kept, now, lineterm="", n=0))[:40])


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


@pytest.mark.parametrize("run_id", EMBEDDED_RUNS.ids())
def test_charts_sentences_and_tables_show_words(run_id):
    """Notes are stored with ids ("autobot+pw-48x") and translated where they are shown."""
    run = EMBEDDED_RUNS.open(run_id)
    choice = default_choice(run)
    panels = [panel for _, panel in drawn(run)]
    for panel in (*panels, pareto(run, choice), what_was_cut(run, choice)):
        found = {hit for text in shown(panel) for hit in INTERNAL.findall(text)} - DEVICES
        assert not found, f"{panel.key}: {sorted(found)}"
    for note in (*run.meta["warnings"], *track_of(run).evidence.notes(run)):
        assert not INTERNAL.findall(in_words(run, note)), note
