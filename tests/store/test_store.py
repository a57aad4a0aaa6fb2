"""The store: whole or not at all, nothing outside it, damage noticed."""

import errno
import json
import os
import random

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

from engine.audit.session import finished
from engine.core.errors import RequestError, StoreError
from engine.core.files import explained, folder_whole, new_folder, write_json, write_whole
from engine.core.types import Hooks
from engine.store import runs as stored
from engine.store.runs import RUN, SCHEMA, Store, find_run, read_addition, write_addition
from engine.store.sealed import (
    DamagedError,
    NewerError,
    PartialFit,
    Shards,
    noted,
    read_bytes,
    read_document,
    seal_of,
    write_document,
)
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


# Every file the store rests on tells by itself whether it is as it was written.


TABLE = pd.DataFrame({"x": [1.5, 2.25, -3.0], "who": ["a", "b", "ä"]})


def flipped(path, count=60):
    """The file with one bit flipped at a time, at `count` places all over it; whole again at the
    end."""
    whole, draw = path.read_bytes(), random.Random(0)
    bits = range(8 * len(whole))
    for bit in draw.sample(bits, min(count, len(bits))):
        other = bytearray(whole)
        other[bit // 8] ^= 1 << bit % 8
        path.write_bytes(other)
        yield bit
    path.write_bytes(whole)


def test_no_flipped_bit_of_a_shard_is_given_out(tmp_path):
    Shards(tmp_path).put("key", TABLE)
    for bit in flipped(Shards(tmp_path).path("key"), 200):
        with noted() as used:
            assert Shards(tmp_path).get("key") is None and not Shards(tmp_path).has("key"), bit
        assert used.damaged == [Shards(tmp_path).path("key")] and not used.hashes
        with pytest.raises(DamagedError, match="key"):
            Shards(tmp_path).hash_of("key")
    pd.testing.assert_frame_equal(Shards(tmp_path).get("key"), TABLE)


def test_a_sound_shard_in_anothers_place_is_found_out(tmp_path):
    shards = Shards(tmp_path)
    shards.put("aa1", TABLE)
    shards.path("aa1").rename(shards.path("aa2"))
    assert Shards(tmp_path).get("aa2") is None


def test_what_is_used_is_noted_with_its_hash(tmp_path):
    shards = Shards(tmp_path)
    with noted() as used:
        shards.put("a", TABLE)
        shards.get("b")
    assert used.hashes == {"a": shards.hash_of("a")} and shards.hash_of("b") is None
    shards.get("a")
    assert len(used.hashes) == 1 and used.damaged == []


def test_no_flipped_bit_of_a_table_is_given_out(tmp_path):
    run = Store(tmp_path).write("run1", META, {"results": TABLE})
    for bit in flipped(run.path / "results.parquet", 200):
        with pytest.raises(StoreError, match="run1 is damaged: its table results"):
            pytest.fail(f"bit {bit} gave {Store(tmp_path).open('run1').table('results')}")


def test_a_pipe_in_the_place_of_a_table_or_shard_is_not_waited_for(tmp_path):
    run = Store(tmp_path).write("run1", META, {"results": TABLE})
    shards = Shards(tmp_path / "shards")
    (run.path / "results.parquet").unlink()
    os.mkfifo(run.path / "results.parquet")
    said = "its table results cannot be read .neither a file nor a folder"
    with pytest.raises(StoreError, match=said):
        run.table("results")
    shards.path("key").parent.mkdir(parents=True)
    os.mkfifo(shards.path("key"))
    assert shards.get("key") is None


def test_no_flipped_bit_of_a_run_json_is_given_out(tmp_path):
    run = Store(tmp_path).write("run1", META, {"results": TABLE}, {"k": "0" * 64})
    before = run.meta
    for bit in flipped(run.path / RUN, 300):
        try:
            assert Store(tmp_path).open("run1").meta == before, (
                bit
            )  # a blank or an escape may change and mean the same
        except StoreError as error:
            assert "run1" in str(error)
            assert Store(tmp_path).list() == [] and list(Store(tmp_path).damaged()) == ["run1"]
    for _bit in flipped(run.path / "rests_on.json", 100):
        try:
            assert Store(tmp_path).open("run1").rests_on == {"k": "0" * 64}
        except StoreError as error:
            assert "run1" in str(error)


def test_no_flipped_bit_of_an_addition_is_given_out(tmp_path):
    meta = {"created": "1", "asked": {}, "keys": {}, "numbered": {}}
    path = write_addition(tmp_path, "run1", "add1", meta, {"results": TABLE})
    before = read_addition(path).meta
    for name in ("addition.json", "results.parquet"):
        for bit in flipped(path / name):
            try:
                found = read_addition(path)
                assert found.meta == before and found.table("results").equals(TABLE), (name, bit)
            except StoreError as error:
                assert "add1 is damaged" in str(error)


def test_no_flipped_bit_of_an_unfinished_fit_is_gone_on_with(tmp_path):
    PartialFit(tmp_path, "fit").save({"weights": torch.arange(5.0), "step": 3})
    for bit in flipped(PartialFit(tmp_path, "fit").path, 100):
        assert PartialFit(tmp_path, "fit").load() is None, bit
    assert PartialFit(tmp_path, "fit").load()["step"] == 3


def test_a_document_says_what_is_wrong_with_it(tmp_path):
    path = tmp_path / "a.json"
    write_document(path, {"x": [1, None, 2.5], "ä": "\u202e"}, 3)
    assert read_document(path, "it", 3) == {"x": [1, None, 2.5], "ä": "\u202e", "schema": 3}
    with pytest.raises(NewerError, match="schema 3, of a newer version; this one reads up to 2"):
        read_document(path, "it", 2)
    for text, said in [
        ("[]", "cannot be read .no JSON object"),
        ("", "cannot be read"),
        ("[" * 100000, "cannot be read"),
        ("{}", "not what was"),
        ('{"schema": true}', "no schema"),
        ('{"schema": "1"}', "no schema"),
        ('{"schema": 3, "seal": 5}', "not what"),
    ]:
        path.write_text(text)
        with pytest.raises(DamagedError, match=said):
            read_document(path, "it", 3)
    path.unlink()
    os.mkfifo(path)
    for read in (lambda: read_document(path, "it", 3), lambda: read_bytes(path, "key")):
        with pytest.raises(DamagedError, match="neither a file nor a folder"):  # and not waited for
            read()


def test_a_damaged_run_counts_as_not_finished_and_a_newer_one_is_left_alone(tmp_path):
    told = []
    hooks = Hooks(lambda event: told.append(event.note))
    store = Store(tmp_path)
    assert finished(store, "run1", hooks) is None and not told
    run = store.write("run1", META, {"results": TABLE}, {"k": "0" * 64})
    assert finished(store, "run1", hooks).table("results").equals(TABLE) and not told
    for name in ("results.parquet", "rests_on.json", RUN):
        whole = (run.path / name).read_bytes()
        (run.path / name).write_bytes(whole.replace(b"PAR1", b"PAR2").replace(b'"', b"'", 1))
        assert finished(store, "run1", hooks) is None and "It is computed again." in told.pop()
        (run.path / name).write_bytes(whole)
    newer = {**json.loads((run.path / RUN).read_text()), "schema": 99}
    (run.path / RUN).write_text(json.dumps({**newer, "seal": seal_of(newer)}))
    with pytest.raises(NewerError):
        finished(store, "run1", hooks)
