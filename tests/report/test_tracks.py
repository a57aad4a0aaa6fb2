"""Contracts of tracks: each declares everything and is found by its name; no page or shared panel
names one."""

import pytest

from engine.audit import tracks as entries
from engine.core import words
from engine.core.errors import RequestError
from engine.report.tracks import Measure, track_of, tracks
from engine.store.runs import Store
from tests.builders import parts_of
from tests.imports import imports_of, modules, reached
from tests.places import ROOT

pytestmark = pytest.mark.contract
PAGES = [path.stem for path in sorted((ROOT / "pages").glob("[!_]*.py"))]


@pytest.mark.parametrize("name", tracks())
def test_every_track_declares_everything(name):
    track = tracks()[name]
    assert track.name == name and track.readings.names
    for reading in track.readings.names:
        one = track.readings.of(reading)
        assert all(
            measure.metric in words.gathered("METRICS")
            for measure in (*one.cards, one.gap, one.group)
        )
        assert all(measure.word.better in ("lower", "higher") for measure in one.cards)
        assert one.harm.word.better == "lower" and one.worst.better == one.best.better
    for view in track.front.views.values():
        assert view.split and view.label
    assert next(iter(track.front.views)) == "test"


@pytest.mark.parametrize("name", tracks())
@pytest.mark.parametrize(
    "part", ["request", "validate", "run", "verify", "screen", "summary", "embedded"]
)
def test_every_part_that_a_track_names_is_there(name, part):
    found = entries.tracks()[name].part(part)
    assert callable(found) or (part in ("screen", "summary", "embedded") and found)
    if part == "request":
        assert found.track == name


def test_pages_of_one_kind_belong_to_it_alone():
    """A page that imports a track is that track's only; one that two tracks name asks them through
    the contract."""
    for page in PAGES:
        owners = {name for name, track in tracks().items() if page in track.screens.pages}
        used = {
            name.split(".")[2]
            for name in imports_of(f"pages.{page}")
            if name.startswith("engine.tracks.")
        }
        assert len(used) <= 1 and (not used or used == owners), page
    named = {page for track in tracks().values() for page in track.screens.pages}
    assert named <= set(PAGES)
    asking = {
        page for page in PAGES if "engine.report.tracks" in reached(f"pages.{page}", imports_of)
    }
    assert named & set(words.PAGES) <= asking, (
        "a page of several kinds, with words of its own, asks the run's track"
    )


def test_screens_that_all_kinds_share_name_none():
    """Pages and tabs that no track owns and what all pages share import no track."""
    owned = {f"pages.{page}" for track in tracks().values() for page in track.screens.pages}
    tabs = [
        {tab.partition(".")[0] for names in track.screens.tabs.values() for tab in names}
        for track in tracks().values()
    ]
    owned |= {f"pages.tabs.{one}" for one in set.union(*tabs) if sum(one in of for of in tabs) == 1}
    shared = [name for name in modules() if name.startswith("pages") and name not in owned]
    assert len(shared) > 10
    assert not {
        name: used
        for name in shared
        for used in imports_of(name)
        if used.startswith("engine.tracks.")
    }


def test_a_track_from_the_future_is_named_with_the_known_ones(one_of_each, tmp_path):
    run = one_of_each.open(one_of_each.ids()[0])
    meta, tables = parts_of(run)
    meta["track"] = "masks"
    with pytest.raises(RequestError, match=f"'masks' is not known.*{', '.join(sorted(tracks()))}"):
        track_of(Store(tmp_path).write("later", meta, tables))


def test_directions_of_measures():
    gap, auc = Measure("auc_gap"), Measure("auc", few="images")
    assert (gap.better, gap.worse, gap.sign) == ("fell", "rose", 1)
    assert (auc.better, auc.worse, auc.sign) == ("rose", "fell", -1)
    assert auc.title == "AUC (higher is better)"
    assert (auc.signed(2.1e-6), auc.span(-1.6e-6, 5e-6)) == ("0", "0 to 0")
    row = {"delta": -0.094, "delta_low": -0.14, "delta_high": -0.048}
    assert auc.brief(row) == "−0.094 (−0.140 to −0.048)"
    assert auc.brief({**row, "delta_high": 0.01}).endswith("includes zero)")
    assert auc.change({**row, "delta_low": float("nan")}) == "−0.094, no interval: too few images"
