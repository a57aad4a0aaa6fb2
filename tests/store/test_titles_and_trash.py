"""An audit is renamed and deleted without a byte of it being written; what was deleted can be had
back."""

import hashlib

import pytest

from engine.core.errors import RequestError
from engine.store.runs import Store, as_called, find_run
from tests.made_up import small

TRACK = "language_models"


@pytest.fixture
def own(tmp_path):
    small(TRACK, tmp_path / "own", "a-run")
    return Store(tmp_path / "own")


def bytes_of(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_a_new_title_lies_beside_the_run(own):
    before, first = bytes_of(own.runs_folder / "a-run"), own.open("a-run").meta["title"]
    assert own.rename("a-run", "  My\n <b>audit</b>\u0000 ") == "My <b>audit</b>"
    assert own.open("a-run").meta["title"] == own.list()[0].title == "My <b>audit</b>"
    assert bytes_of(own.runs_folder / "a-run") == before
    own.rename("a-run", "")
    assert own.open("a-run").meta["title"] == first


def test_a_title_of_the_users_store_names_runs_of_other_stores(own, tmp_path):
    mine = Store(tmp_path / "mine")
    mine.rename("a-run", "Ours")
    other = Store(own.root, read_only=True)
    assert find_run("a-run", [mine, other]).meta["title"] == "Ours"
    assert [one.title for one in as_called(other.list(), [mine, other])] == ["Ours"]


def test_a_damaged_title_is_passed_over_and_a_long_one_refused(own):
    first = own.open("a-run").meta["title"]
    own.rename("a-run", "Mine")
    own.title_path("a-run").write_text('{"title": "forged", "schema": 1}', encoding="utf-8")
    assert own.open("a-run").meta["title"] == first
    with pytest.raises(RequestError, match="at most 200"):
        own.rename("a-run", "x" * 201)


def test_what_was_deleted_comes_back_as_it_was(own):
    before = bytes_of(own.runs_folder / "a-run")
    own.rename("a-run", "Mine")
    assert own.delete("a-run").title == "Mine"
    assert own.ids() == [] and list(own.deleted()) == ["a-run"]
    with pytest.raises(RequestError, match="is not in the store"):
        own.delete("a-run")
    assert own.restore("a-run").meta["title"] == "Mine"
    assert bytes_of(own.runs_folder / "a-run") == before and own.deleted() == {}


def test_what_cannot_be_deleted_or_brought_back_is_said(own):
    with pytest.raises(RequestError, match="comes with the program"):
        Store(own.root, read_only=True).delete("a-run")
    with pytest.raises(RequestError, match="not in the trash"):
        own.restore("a-run")
    own.delete("a-run")
    small(TRACK, own.root, "a-run")
    with pytest.raises(RequestError, match="there again"):
        own.restore("a-run")
    own.delete("a-run")
    assert list(own.deleted()) == ["a-run"], "the later one replaces the earlier"


def test_a_damaged_run_can_be_deleted(own):
    (own.runs_folder / "a-run" / "run.json").write_text("{", encoding="utf-8")
    assert own.delete("a-run") is None
    assert own.damaged() == {} and own.deleted() == {"a-run": None}
