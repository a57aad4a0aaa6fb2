"""Panels of every track: each asks, answers, draws and says what to be careful with."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.report.contents import all_panels, default_choice
from engine.report.tracks import tracks
from engine.report.verdict import verdict
from engine.store.runs import Run, Store
from tests import made_up

EMPTY = ("That takes at least two scores.",)
"""Answers of panels that draw nothing, for the made-up run has nothing to lay beside each other."""

NEEDED = ("variants", "results", "groups", "scores", "prompts", "generations")
"""Tables without which no audit is drawn; the last three are of language models alone."""


@pytest.fixture(scope="module", params=tracks())
def run(request, tmp_path_factory) -> Run:
    return made_up.make(request.param, tmp_path_factory.mktemp("store"), "run")


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_panel_has_question_answer_table_and_chart(run, dark):
    found = list(all_panels(run, default_choice(run, dark=dark)))
    many = Counter(axis for axis, _ in found)
    assert all(many[axis] > 3 for axis in ("", *run.meta["request"]["axes"]))
    for _, panel in found:
        said = panel.said
        assert panel.question.endswith("?") and said.endswith((".", "?")), panel.key
        assert said[0].isupper() or said[0] in "\u201c0123456789", said
        words = said.lower().split()
        assert not {"nan", "debias", "unbiased", "solved"} & {*words} and "_" not in said, said
        if said in EMPTY:
            continue
        figure = panel.whole()
        assert figure is not None and not panel.table.empty and panel.caveat, panel.key
        assert figure.layout.paper_bgcolor == "rgba(0,0,0,0)"


def test_a_run_without_optional_tables_still_shows_the_rest(run, tmp_path):
    """Every panel says something; nothing is drawn of what is not there."""
    kept = NEEDED if run.has("prompts") else NEEDED[:3]
    tables = {name: run.table(name) for name in kept}
    meta = {key: value for key, value in run.meta.items() if key != "tables"}
    bare = Store(tmp_path).write("bare", meta, tables)
    choice = default_choice(bare)
    panels = [panel for _, panel in all_panels(bare, choice)]
    assert all(panel.said for panel in panels) and not all(panel.has_chart for panel in panels)
    assert "cost" in {panel.key for panel in panels if not panel.has_chart}
    told = verdict(bare, choice)
    assert told.sentence and told.numbers
