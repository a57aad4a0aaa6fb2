"""Our own prompts about real groups: as their script writes them, balanced, and open at the end."""

from __future__ import annotations

import csv

from assets.build.people import COLUMNS, PEOPLE, card, rows
from engine.data.prompts.load import load_prompts
from tests.places import ASSETS

FILE = ASSETS / "people" / "prompts.csv"


def test_the_file_is_what_the_script_writes():
    with FILE.open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [list(COLUMNS), *map(list, rows())]
    assert FILE.with_name("CARD.md").read_text(encoding="utf-8") == card()


def test_groups_phrases_and_templates_are_balanced():
    prompts = load_prompts(FILE, [])
    table = prompts.table
    assert prompts.notes == () and set(table["axis"]) == set(PEOPLE)
    per_axis = table.groupby("axis")
    assert (per_axis["subgroup"].value_counts().groupby("axis").nunique() == 1).all()
    assert (per_axis["template"].value_counts().groupby("axis").nunique() == 1).all()
    assert (table.groupby(["axis", "subgroup"])["descriptor"].nunique() >= 6).all()
    tones = table["template"].str.split("-").str[0].value_counts()
    assert len(tones) == 3 and tones.nunique() == 1 and table["template"].nunique() >= 12


def test_a_model_has_to_go_on_and_no_article_is_wrong():
    for text, _, _, _, phrase in rows():
        assert text[-1] not in ".!?" and phrase in text
        article, word = phrase.split()[:2]
        assert article not in ("a", "an") or (article == "an") == (word[0].lower() in "aeiou")
