"""Everything that can be opened is opened: every fold, popover, tab, dialog and download of every
embedded audit."""

import ast

import pytest
from streamlit.elements.widgets import button

from engine.audit.verification import refuse_unsound
from engine.report import bundle
from engine.report.tracks import track_name, tracks
from engine.store.runs import EMBEDDED, Run
from pages.shared import state
from tests.pages.checks import assert_calm, opened, own_pages
from tests.places import ROOT

RUNS = sorted(path.name for path in (EMBEDDED / "runs").iterdir())
KINDS = {
    run.id: track_name(run.meta)
    for run in sorted(
        (Run(EMBEDDED / "runs" / name) for name in RUNS),
        key=lambda run: -sum(path.stat().st_size for path in run.path.iterdir()),
    )
}
"""The track of each, the smallest last."""
SMALLEST = {track: run for run, track in KINDS.items()}
"""By track; the others are opened by the slow tests."""
CASES = [
    pytest.param(page, run, marks=[] if run in SMALLEST.values() else pytest.mark.slow)
    for run, track in KINDS.items()
    for page in own_pages(tracks()[track])
]
"""What a page says of audits that it is not about stands in tests/pages/test_every_page.py."""
LONG = (
    "figures.zip",
    "report.html",
    "report.pdf",
    "slides.pptx",
    "tables.zip",
)  # up to a minute each; the slow test below makes them, others those of small audits
BOXES = ("expander", "popover")


@pytest.fixture
def files(monkeypatch):
    """What stands behind every download button drawn from now on: name to bytes, text, or what
    makes them."""
    found, real = {}, button.marshall_file

    def marshall(coordinates, data, proto, mimetype, file_name=None, **more):
        found[file_name] = data
        return real(coordinates, data, proto, mimetype, file_name, **more)

    monkeypatch.setattr(button, "marshall_file", marshall)
    return found


@pytest.fixture(autouse=True)
def proved_once(monkeypatch):
    """An audit is checked for the first thing that is taken from it, and not for every other one:
    seconds each."""
    sound = set()

    def once(run):
        if run.id not in sound:
            refuse_unsound(run)
        sound.add(run.id)

    monkeypatch.setattr(bundle, "refuse_unsound", once)


def blocks(block):
    for child in block.children.values():
        if hasattr(child, "children"):
            yield child
            yield from blocks(child)


def keys(at, *kinds):
    """Keys of the folds, popovers or strips of tabs on the page that draw what is in them when they
    are opened."""
    found = (one for one in blocks(at._tree) if one.type in kinds and one._block_id)
    return {one._block_id.split("-", 2)[2] for one in found}


def open_all(at):
    """Open every fold and popover, and those inside them, until there is nothing new; their
    keys."""
    known = set()
    while new := keys(at, *BOXES) - known:
        known |= new
        for key in known:
            at.session_state[key] = True
        at.run()
        assert_calm(at)
    return known


def titles_of_tabs(at):
    """Titles of each strip of tabs, by its key."""
    strips = (one for one in blocks(at._tree) if one.type == "tab_container" and one._block_id)
    return {one._block_id.split("-", 2)[2]: [tab.label for tab in one.tabs] for one in strips}


def dialogs():
    """Titles of the dialogs that the pages' code holds."""
    calls = (
        call
        for path in (ROOT / "pages").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("dialog")
    )
    return {ast.literal_eval(call.args[0]) for call in calls}


def make(files):
    for name, data in files.items():
        assert data() if callable(data) else data, name


@pytest.mark.parametrize(("page", "run"), CASES)
def test_everything_that_opens_opens(page, run, files):
    at = opened(page, run=run)
    assert_calm(at)
    open_all(at)
    for strip, titles in titles_of_tabs(at).items():
        for title in titles:
            at.session_state[strip] = title
            assert_calm(at.run())
            open_all(at)
    make({name: data for name, data in files.items() if not name.endswith(LONG)})


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_what_takes_long_to_make_is_made(run, files):
    assert_calm(opened("export", run=run))
    found = {name: data for name, data in files.items() if name.endswith(LONG)}
    assert len(found) >= 2  # without a browser no PDF is offered
    make(found)


def test_every_dialog_opens():
    at = opened("summary", run=RUNS[0])
    at.button(key=state.SWITCH).click().run()
    assert_calm(at)
    shown = {one.proto.dialog.title for one in blocks(at._tree) if one.type == "dialog"}
    assert shown == dialogs(), "a dialog that no button here opens"
