"""The store: whole or not at all, nothing outside it, damage noticed."""

import errno

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from engine.core.errors import RequestError, StoreError
from engine.core.files import explained, folder_whole, new_folder, write_json, write_whole
from engine.store import runs as stored
from engine.store.runs import SCHEMA, Store, find_run
from engine.store.sealed import read_document, write_document
from tests.store import META


def write(store, run_id="run1"):
    return store.write(run_id, META, {"results": pd.DataFrame({"x": [1, 2]})})


def test_a_table_is_written_in_pieces_and_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "ROWS", 50)
    monkeypatch.setattr(stored, "AT_ONCE", 16)
    each = [
        pd.DataFrame({"variant": f"v{at}", "id": np.arange(20, dtype="int32"), "x": at})
        for at in range(10)
    ]
    listed = stored.write_tables(tmp_path, {"rows": stored.Pieces(200, lambda: iter(each))})
    whole = pd.concat(each, ignore_index=True)
    read = lambda *more: stored.read_table(tmp_path, "rows", listed["rows"]["sha256"], "it", *more)  # noqa: E731
    pd.testing.assert_frame_equal(read(), whole)
    file = pq.ParquetFile(tmp_path / "rows.parquet")
    assert (
        listed["rows"]["rows"] == 200
        and max(file.metadata.row_group(at).num_rows for at in range(5)) <= 50
    )
    for where, columns in (
        ({"variant": ["v3", "v7"], "id": [1, 2]}, ["x", "id"]),
        ({"variant": ["none"]}, None),
        ({"id": []}, ["x"]),
        ({"variant": [None]}, None),
    ):
        pd.testing.assert_frame_equal(read(where, columns), stored.matching(whole, where, columns))
    with pytest.raises(StoreError, match="other bytes"):
        stored.read_table(tmp_path, "rows", "another", "it", {})
    with pytest.raises(KeyError):  # the table is sound, who asks is wrong
        read({"nothing": [1]})


@pytest.mark.parametrize(
    "name", ["../x", "a/../../x", "/etc", "", "a b", "..", ".hidden", "a\x00b", "x" * 200]
)
def test_no_id_leads_out_of_the_store(tmp_path, name):
    store = Store(tmp_path / "store")
    with pytest.raises(StoreError, match="is not valid"):
        store.open(name)
    with pytest.raises(StoreError, match="is not valid"):
        write(store, name)
    assert not (tmp_path / "store").exists() and not (tmp_path / "x").exists()


def test_an_unknown_run_lists_the_known_ones(tmp_path):
    store = Store(tmp_path)
    write(store)
    with pytest.raises(RequestError, match="run1"):
        store.open("run2")
    with pytest.raises(RequestError, match="run1"):
        find_run("run2", [store])


def test_a_write_that_fails_leaves_nothing(tmp_path):
    def fail(path):
        path.write_text("half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_whole(tmp_path / "file", fail)
    with pytest.raises(RuntimeError), folder_whole(tmp_path / "folder") as draft:
        fail(draft / "file")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_rewrite_keeps_the_old_file(tmp_path):
    write_json(tmp_path / "a.json", {"x": 1})
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert '"x": 1' in (tmp_path / "a.json").read_text()


@pytest.mark.parametrize(
    ("code", "words"),
    [(errno.ENOSPC, "full"), (errno.EROFS, "read-only"), (errno.EACCES, "may not")],
)
def test_a_full_or_read_only_disk_is_explained(tmp_path, code, words):
    with pytest.raises(StoreError, match=words), explained(tmp_path):
        raise OSError(code, "from the system")
    with pytest.raises(StoreError, match=words), explained(tmp_path):
        raise RuntimeError(f"Error while serializing: I/O error: told in words (os error {code})")


def test_a_store_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="is a file"):
        Store(tmp_path / "file" / "store").prove_writable()


@pytest.mark.parametrize("text", ["{", "{}", '{"schema": 99}', "[]", ""])
def test_one_damaged_run_does_not_hide_the_others(tmp_path, text):
    store = Store(tmp_path)
    write(store)
    (store.runs_folder / "zzz").mkdir()
    (store.runs_folder / "zzz" / "run.json").write_text(text)
    assert [summary.id for summary in store.list()] == ["run1"] and list(store.damaged()) == ["zzz"]
    with pytest.raises(StoreError, match="run zzz"):
        store.open("zzz").summary  # noqa: B018


@pytest.mark.parametrize("change", [{"tables": None}, {"request": {"axes": "a"}}, {"title": 3}])
def test_a_run_that_lacks_what_all_have_is_damaged_whoever_asks(tmp_path, change):
    store = Store(tmp_path)
    path = write(store).path / "run.json"
    write_document(path, {**read_document(path, "it", SCHEMA), **change}, SCHEMA)
    for ask in (lambda run: run.names, lambda run: run.table("results"), lambda run: run.request):
        with pytest.raises(StoreError, match="is damaged: its run.json l"):
            ask(store.open("run1"))


def test_what_came_to_lie_in_a_new_folder_meanwhile_stays(tmp_path):
    with pytest.raises(RequestError, match="not an empty folder"), new_folder(tmp_path / "to"):
        (tmp_path / "to").mkdir()
        (tmp_path / "to" / "mine").write_text("x")
    assert [path.name for path in tmp_path.rglob("*")] == ["to", "mine"]


def test_two_who_want_one_run_go_one_after_the_other(tmp_path):
    store, asked = Store(tmp_path), []

    def check():
        asked.append(1)
        if len(asked) > 2:
            raise InterruptedError

    with store.alone("run1", lambda: None):
        with store.alone("run2", lambda: None):
            pass
        with pytest.raises(InterruptedError), store.alone("run1", check):
            raise AssertionError("two at once")
    with store.alone("run1", check):
        assert len(asked) == 3
