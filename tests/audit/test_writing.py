"""A request as words of the command line: only those that give it back."""

from __future__ import annotations

import shlex

from engine.audit.command_line import command_of
from engine.audit.tracks import tracks
from tests.made_up import small


def test_words_say_the_request_or_nothing(tmp_path):
    said = 0
    for track in tracks():
        asked = {
            **small(track, tmp_path, f"of-{track}").meta["request"],
            "track": track,
            "title": "it's mine; rm -rf",
        }
        words = shlex.split(command_of(asked))
        if words:
            said += 1
            assert words[:4] == ["python", "-m", "engine", tracks()[track].word]
            assert "it's mine; rm -rf" in words, "quoted as one word"
    assert said, "some requests can be said"


def test_a_request_that_nobody_knows_has_no_words():
    assert (
        command_of({"track": "no_such_track"})
        == ""
        == command_of({"track": next(iter(tracks())), "odd": 1})
    )
