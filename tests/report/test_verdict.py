"""What holds for verdicts of every kind of audit."""

from __future__ import annotations

import re

import pytest

from engine.audit.tracks import tracks
from engine.report.verdict import verdict
from tests.made_up import choices, kept

TERMS = ("null band", "95", "±", "γ", "FASP", "BiFP", "interval", "nan")


@pytest.mark.parametrize("track", list(tracks()))
def test_every_choice_has_a_verdict_in_plain_words(track):
    run = kept(track)
    for choice in choices(run):
        said = verdict(run, choice)
        assert said.sentence.endswith(".") and len(said.numbers) <= 3 and said.cost
        assert not [term for term in TERMS if term in said.sentence], said.sentence
        assert not re.search(r"\b[a-z]+_[a-z_]+\b", f"{said.whole} {said.cost} {said.advice.said}")
