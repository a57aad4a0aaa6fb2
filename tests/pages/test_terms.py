"""Words explained where one points at them: ours only, once each, and never a way for a name to
become markup."""

from __future__ import annotations

import re

import pytest

from engine.core import words
from engine.report.tracks import tracks
from pages.shared.safe import Marker

KNOWN = {
    "null band": "Where chance puts it <by & large>.",
    "P&F": "Prune, then fair.",
    "PW": "a loss",
    "PW loss": "a loss",
}


@pytest.fixture
def marker():
    return Marker(KNOWN)


def test_the_first_time_a_word_stands_there_it_can_be_reached_by_keyboard(marker):
    html = marker.marked("Inside its null band; the null band is wide.")
    assert html.count('tabindex="0"') == 1 and html.index("pa-term") < html.index(
        "; the null band is wide."
    )
    assert "Where chance puts it &lt;by &amp; large&gt;." in html
    assert "pa-term" not in marker.marked("The null band again."), (
        "once in all sentences of a panel"
    )


def test_words_of_one_meaning_are_explained_once_and_the_longest_is_found(marker):
    html = marker.marked("The PW loss, PW for short, and P&F.")
    assert html.count("pa-term") == 2 and ">PW loss<" in html and ">P&amp;F<" in html


def test_names_stay_text(marker):
    html = marker.marked('<b onclick="x">null band</b> &lt; PW-x')
    assert "<b" not in html and '"x"' not in html and "&amp;lt;" in html
    assert re.findall(r"<(\w+)", html) == [
        "span",
        "span",
    ], "our own two, and only where our word stands alone"


@pytest.mark.parametrize("track", tracks())
def test_every_track_has_words_of_its_own_that_say_what_they_mean(track):
    own = words.terms(track)
    assert len(own) > len(words.terms()) and all(
        len(text) > 15 and text[-1] in ".!?" for text in own.values()
    )
