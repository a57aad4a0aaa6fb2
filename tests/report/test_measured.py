"""How it was measured: everything that is known, once, in words."""

from __future__ import annotations

import pytest

from engine.report import measured
from engine.report.contents import default_choice
from engine.report.tracks import track_of, tracks
from tests import made_up


@pytest.mark.parametrize("track", tracks())
def test_tables_have_rows_and_no_empty_words(track):
    run = made_up.kept(track)
    choice = default_choice(run)
    for table in (
        measured.settings(run),
        measured.versions(run),
        measured.definitions(run, choice),
    ):
        assert (
            len(table) > 3 and table.iloc[:, 0].is_unique and (table.iloc[:, 1].str.len() > 0).all()
        )
    assert (measured.subgroups(run)[track_of(run).nouns.items] > 0).all()


def test_notes_name_variants_and_methods_as_people_do():
    run = made_up.kept(next(iter(tracks())))
    variant = run.table("variants").query("variant != 'dense'").iloc[0]
    label = track_of(run).variants.label(variant.to_dict())
    said = measured.in_words(run, f"Look at {variant['variant']}, not at x{variant['variant']}.")
    assert said == f"Look at “{label}”, not at x{variant['variant']}."
