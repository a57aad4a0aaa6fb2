"""How it was measured: everything that is known, once, in words."""

from __future__ import annotations

from itertools import chain

import pytest

from engine.report import measured
from engine.report.contents import axis_panels, default_choice, shared_panels
from engine.report.tracks import track_of, tracks
from engine.store.runs import Store
from tests import made_up


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    return made_up.one_of_each(tmp_path_factory.mktemp("store"))


@pytest.mark.parametrize("track", tracks())
def test_every_caveat_limit_and_note_stands_there_once(track, store):
    run = store.open(f"{track}-run")
    choice = default_choice(run)
    told = [text for part in measured.parts(run, choice) for text in part.told]
    rest = measured.caveats(run, choice)
    assert len(told) == len(set(told)) and rest.iloc[:, 1].is_unique
    assert set(track_of(run).evidence.limits(run)) <= set(told)
    everything = " ".join([*told, *rest.iloc[:, 1]])
    for panel in chain(axis_panels(run, choice), shared_panels(run, choice)):
        words = [word for word in panel.caveat.split() if len(word) > 3]
        assert all(word in everything for word in words), panel.key


@pytest.mark.parametrize("track", tracks())
def test_tables_have_rows_and_no_empty_words(track, store):
    run = store.open(f"{track}-run")
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


def test_notes_name_variants_and_methods_as_people_do(store):
    run = store.open(f"{next(iter(tracks()))}-run")
    variant = run.table("variants").query("variant != 'dense'").iloc[0]
    label = track_of(run).variants.label(variant.to_dict())
    said = measured.in_words(run, f"Look at {variant['variant']}, not at x{variant['variant']}.")
    assert said == f"Look at “{label}”, not at x{variant['variant']}."
