"""Panels of every track: each asks, answers, draws and says what to be careful with."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.report.contents import all_panels, default_choice
from engine.report.tracks import tracks
from engine.store.runs import Run
from tests import made_up

EMPTY = ("That takes at least two scores.",)
"""Answers of panels that draw nothing, for the made-up run has nothing to lay beside each other."""


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
