"""Our own sentences about occupations: as their script writes them, balanced, read whole."""

from __future__ import annotations

from assets.build.pairs import OCCUPATIONS, PRONOUNS, files
from engine.data.benchmarks.preferences import Occupations
from tests.places import ASSETS

FOLDER = ASSETS / "pairs"


def test_the_files_are_what_the_script_writes():
    for name, text in files().items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text


def test_every_occupation_has_as_many_items_of_both_meanings_and_a_share_of_women():
    items, faults, notes = Occupations().read(FOLDER)
    assert not faults and not notes
    for occupation, (_, women, _) in OCCUPATIONS.items():
        mine = [item for item in items if item.cluster == occupation]
        meant = [item.group for item in mine]
        assert meant.count("the occupation") == meant.count("the other person") == 4
        assert {item.more["women"] for item in mine} == {women}


def test_sentences_of_an_item_differ_in_the_pronoun_alone():
    items, _, _ = Occupations().read(FOLDER)
    for item in items:
        frames = {
            text.replace(f" {PRONOUNS[role]} ", " {} ", 1) for role, text in item.texts.items()
        }
        assert len(frames) == 1 and " {} " in frames.pop()
    assert len({text for item in items for text in item.texts.values()}) == 3 * len(items)
