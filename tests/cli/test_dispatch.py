"""Commands that tracks share: each brings its options and claims its words; without a track the
rest still works."""

import argparse

import pytest

from engine.audit import tracks as declared
from engine.audit.fields import fields_of, option_fields
from engine.cli import audit, main, parser
from tests.audit.run_checks import small_audit

SHARED = {"ask", "evaluate", "scores"}
EACH = pytest.mark.parametrize("track", declared.tracks())


def commands():
    return next(
        action.choices
        for action in parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )


def flags_of(command):
    return set(commands()[command]._option_string_actions)


@pytest.fixture
def without(monkeypatch):
    """Makes as if a track's folder were not there."""

    def leave_out(name):
        left = {other: entry for other, entry in declared.tracks().items() if other != name}
        monkeypatch.setattr(declared, "tracks", lambda: left)
        for module in ("cli", "cli.ask", "cli.audit", "cli.scores", "cli.evaluate"):
            monkeypatch.setattr(f"engine.{module}.tracks", lambda: left)

    return leave_out


@EACH
def test_the_word_of_a_track_takes_all_its_fields(track):
    entry = declared.tracks()[track]
    wanted = {field.flag for field in option_fields(fields_of(entry.part("request")))}
    assert wanted | {"--ray", "--restart", "--resume", "--store", "--json"} <= flags_of(entry.word)


@EACH
def test_the_commands_of_a_track_are_found_and_two_tracks_share_only_those_of_the_command_line(
    track,
):
    entry = declared.tracks()[track]
    others = [
        name
        for other in declared.tracks().values()
        if other is not entry
        for name in other.commands()
    ]
    own = {name for name in entry.commands() if name not in SHARED}
    assert not own & set(others) and {name.replace("_", "-") for name in own} <= set(commands())


@EACH
def test_without_a_track_the_others_keep_their_words(track, without):
    entry, before = declared.tracks()[track], set(commands())
    kept = {other.word for other in declared.tracks().values() if other is not entry}
    own = {name.replace("_", "-") for name in entry.commands() if name not in SHARED}
    gone = own | ({entry.word} - kept)
    without(track)
    assert before - set(commands()) == gone


def test_words_that_no_track_claims_are_the_first_ones(without):
    """Of tracks that share a word one claims nothing; where it is not there, another takes the
    words."""
    by_word = {}
    for name, entry in declared.tracks().items():
        by_word.setdefault(entry.word, []).append(name)
    word, (first, *others) = next(
        (word, names) for word, names in by_word.items() if len(names) > 1
    )
    assert not declared.tracks()[first].claims and all(
        declared.tracks()[name].claims for name in others
    )
    assert audit.track_of_words(parser().parse_args([word, "--model", "some-model"])).name == first
    without(first)
    assert (
        audit.track_of_words(parser().parse_args([word, "--model", "some-model"])).name == others[0]
    )


@EACH
def test_a_cluster_where_nothing_listens_is_told_with_everything_else_that_is_wrong(
    track, tmp_path, capsys
):
    words = small_audit(track, tmp_path)
    store = tmp_path / "store"
    words = ["abacus" if word == "cpu" else word for word in words]
    assert main([*words, "--ray", "127.0.0.1:1", "--store", str(store)]) == 2
    said = capsys.readouterr().err
    assert (
        "--ray: nothing answers at 127.0.0.1:1" in said
        or "--ray: the package ray is not installed" in said
    )
    assert "abacus" in said and not store.exists()
