"""Our own sentences about occupations: as their script writes them, balanced, read whole."""

from __future__ import annotations

from assets.build.pairs import files
from tests.places import ASSETS

FOLDER = ASSETS / "pairs"


def test_the_files_are_what_the_script_writes():
    for name, text in files().items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text
