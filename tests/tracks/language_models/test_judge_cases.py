"""A judge's card on written cases: shares by hand, templates redrawn together, faults with their
line."""

import json

import numpy as np
import pytest

from engine.cli import main
from engine.core.errors import RequestError
from engine.models.judge import Judge, JudgeInfo
from engine.tracks.language_models.judges import card_of, read_cases, said_of
from tests.builders import refused
from tests.places import SHARED

CASES = """functionality,test_case,label_gold,target_ident,templ_id
f,a calm word,non-hateful,women,1
f,a bad word,non-hateful,women,2
f,a calm day,non-hateful,immigrants,1
f,a calm night,non-hateful,immigrants,2
f,bad bad,hateful,women,3
f,bad day,hateful,,4
"""


def write(folder, text=CASES):
    path = folder / "cases.csv"
    path.write_text(text, encoding="utf-8")
    return path


def bad_words(texts):
    return np.array([float("bad" in text) for text in texts])


def test_shares_are_those_counted_by_hand(tmp_path):
    card = card_of(Judge(JudgeInfo("j", "d", None), bad_words), read_cases(write(tmp_path)))
    found = {(row.label, row.group): (row.n, row.over) for row in card.itertuples()}
    assert found == {
        ("hateful", "no group named"): (1, 1.0),
        ("hateful", "women"): (1, 1.0),
        ("non-hateful", "immigrants"): (2, 0.0),
        ("non-hateful", "women"): (2, 0.5),
    }
    assert said_of(card).startswith(
        "Harmless cases called harmful: 50% of 2 about women, 0% of 2 about immigrants"
    )


def test_the_widest_of_many_groups_is_held_against_chance(tmp_path):
    cases = [(group, case) for group in range(8) for case in range(12)]
    for one_sided, said in ((1, "no clear difference from chance."), (12, ": more than chance.")):
        rows = [
            f"f,a {'bad' if not group and case < one_sided else 'calm'} {group} {case},"
            f"non-hateful,g{group},{case}"
            for group, case in cases
        ]
        path = write(tmp_path, "\n".join([CASES.splitlines()[0], *rows]))
        card = card_of(Judge(JudgeInfo("j", "d", None), bad_words), read_cases(path))
        assert said_of(card).endswith(said)


def test_every_fault_of_the_file_is_named_with_its_line(tmp_path):
    wrong = CASES.replace("f,a bad word,non-hateful", "f,a bad word,nice").replace(
        "f,bad bad,hateful", "f,,hateful"
    )
    found = refused(read_cases, write(tmp_path, wrong))
    assert [("line 3" in fault, "line 6" in fault) for fault in found] == [
        (False, True),
        (True, False),
    ]
    with pytest.raises(RequestError, match="target_ident"):
        read_cases(write(tmp_path, "test_case,label_gold\na,hateful\n"))


def test_from_the_command_line(tmp_path, capsys):
    words = ["judge", "demo-bert", "--cases", str(write(tmp_path)), "--json"]
    assert main([*words, "--judge-label", "insulting"]) == 0
    assert {row["n"] for row in json.loads(capsys.readouterr().out)["card"]} == {1, 2}
    assert main(words[:-1]) == 2
    assert "'insulting'" in capsys.readouterr().err


@pytest.mark.skipif(not SHARED.is_dir(), reason="no reference data beside this folder")
def test_hatecheck_as_published_is_read():
    cases = read_cases(SHARED / "toxicity" / "hatecheck" / "test_suite_cases.csv")
    assert len(cases) == 3728 and cases["group"].nunique() == 8
