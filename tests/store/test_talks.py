"""Words kept beside an audit: other windows are told of, damage is said, nothing else is touched."""

from __future__ import annotations

import json

import pytest

from engine.core.errors import StoreError
from engine.store.talks import LONGEST_NOTE, Said, Talk, path_of, read_talk, write_said

HOSTILE = "<script>alert(1)</script> **a** \u202e"


def test_words_come_back_as_typed_and_steps_do_not_meet(tmp_path):
    assert read_talk(tmp_path, "run") == Talk()
    first, lost = write_said(tmp_path, "run", "problem", Said(f" {HOSTILE} ", "note " * 2000), Said())
    assert (first.version, lost) == (1, None)
    assert first.of("problem") == Said(HOSTILE, ("note " * 2000).strip()[:LONGEST_NOTE])
    second, lost = write_said(tmp_path, "run", "cut", Said("Nine heads"), Said())
    assert (second.version, lost) == (2, None)
    assert read_talk(tmp_path, "run") == second and second.of("problem") == first.of("problem")
    assert set(json.loads(path_of(tmp_path, "run").read_text())) == {"schema", "version", "run", "steps"}


def test_the_last_writer_wins_and_is_told_what_the_other_wrote(tmp_path):
    write_said(tmp_path, "run", "cut", Said("Theirs"), Said())
    talk, lost = write_said(tmp_path, "run", "cut", Said("Mine"), Said())
    assert talk.of("cut") == Said("Mine") and lost == Said("Theirs")
    assert write_said(tmp_path, "run", "cut", Said("Mine"), Said())[1] is None, "both wrote the same"


def test_a_damaged_file_is_said_and_not_written_over(tmp_path):
    path = path_of(tmp_path, "run")
    path.parent.mkdir()
    for text in ("{", "[]", '{"schema": 9}', '{"schema": 1, "version": 1, "steps": {"cut": "x"}}'):
        path.write_text(text)
        with pytest.raises(StoreError, match="notes"):
            read_talk(tmp_path, "run")
        with pytest.raises(StoreError):
            write_said(tmp_path, "run", "cut", Said("Mine"), Said())
        assert path.read_text() == text
    with pytest.raises(StoreError):
        path_of(tmp_path, "../../etc/passwd")
