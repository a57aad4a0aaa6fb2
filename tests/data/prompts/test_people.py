"""Our own prompts about real groups: as their script writes them, balanced, and open at the end."""

from __future__ import annotations

import csv

from assets.build.people import COLUMNS, card, rows
from tests.places import ASSETS

FILE = ASSETS / "people" / "prompts.csv"


def test_the_file_is_what_the_script_writes():
    with FILE.open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [list(COLUMNS), *map(list, rows())]
    assert FILE.with_name("CARD.md").read_text(encoding="utf-8") == card()
