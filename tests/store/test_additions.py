"""What is added to a run: whole or not at all, joined to its tables, never changing the run
itself."""

import json
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest

from engine.report.charts import lookup
from engine.store import runs as additions
from engine.store.runs import Run, Store, find_run, id_of, is_sound, open_run, write_addition
from pages.shared.cache import KeptRun
from tests.store import META

KEYS = {"results": ["variant", "split"], "generations": ["variant"]}
SAID = {"title": "t", "asked": {}, "keys": KEYS, "numbered": {"text_id": "texts"}}
NEW = ("new", "test", 2.0)


def results(*rows):
    return pd.DataFrame(rows, columns=["variant", "split", "value"])


def texts(variant, *words):
    table = pd.DataFrame({"text_id": range(len(words)), "text": words}).astype({"text_id": "int32"})
    return {"generations": table[["text_id"]].tail(1).assign(variant=variant), "texts": table}


@pytest.fixture
def store(tmp_path):
    """The user's own; the run lies in another, which is only read."""
    return Store(tmp_path / "own")


@pytest.fixture
def stores(store, tmp_path):
    shipped = Store(tmp_path / "shipped", read_only=True)
    tables = {
        "results": results(("dense", "test", 1.0)),
        "prompts": pd.DataFrame({"prompt": ["p"]}),
    }
    shipped.write("run1", META, {**tables, **texts("dense", "zero", "one")})
    return [store, shipped]


def add(store, name="x", created="2026-02-01", **tables):
    """What is added; without tables, one new result."""
    tables = tables or {"results": results(NEW)}
    return write_addition(store.root, "run1", name, {**SAID, "created": created}, tables)


def test_what_is_added_joins_the_tables_and_the_run_itself_is_as_it_was(stores, store):
    before = {path.name: path.read_bytes() for path in find_run("run1", stores).path.iterdir()}
    add(store)
    run = find_run("run1", stores)
    assert run.table("results")["variant"].tolist() == ["dense", "new"]
    assert run.table("prompts")["prompt"].tolist() == ["p"]
    assert {path.name: path.read_bytes() for path in run.path.iterdir()} == before
    assert run.path.is_relative_to(stores[1].root) and not (stores[1].root / "additions").exists()


def test_numbers_of_rows_go_on_where_those_before_end(stores, store):
    add(store, "x", "2026-02-02", **texts("later", "three", "four"))
    add(store, "y", "2026-02-01", **texts("sooner", "two"))
    run = find_run("run1", stores)
    said = run.table("texts").set_index("text_id")["text"]
    assert said.index.is_unique and said.index.dtype == "int32"
    found = run.table("generations").set_index("variant")["text_id"].map(said)
    assert found.to_dict() == {"dense": "one", "sooner": "two", "later": "four"}


def test_of_rows_that_say_the_same_the_runs_own_counts_then_the_last_added(stores, store):
    add(store, "x", "2026-02-01", results=results(("dense", "test", 9.0), ("new", "test", 2.0)))
    add(store, "y", "2026-02-02", results=results(("new", "test", 3.0), ("new", "validation", 4.0)))
    found = find_run("run1", stores).table("results").values.tolist()
    kept = [["dense", "test", 1.0], ["new", "test", 3.0], ["new", "validation", 4.0]]
    assert sorted(found) == kept


def test_the_same_is_written_once_and_by_two_at_once_too(stores, store):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: add(store), range(8)))
    run = find_run("run1", stores)
    assert [one.id for one in run.added] == ["x"] and len(run.table("results")) == 2
    assert [path.name for path in (store.root / "additions" / "run1").iterdir()] == ["x"]


def test_a_write_that_fails_leaves_nothing(stores, store, monkeypatch):
    monkeypatch.setattr(additions, "write_document", lambda path, value, schema: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        add(store)
    assert list((store.root / "additions" / "run1").iterdir()) == []
    assert find_run("run1", stores).added == []


@pytest.mark.parametrize(
    "damage", ["bytes", "json", "list", "schema", "elsewhere", "missing", "empty"]
)
def test_a_damaged_addition_is_left_out_and_named_and_the_others_stay(stores, store, damage):
    path = add(store)
    add(store, "y", results=results(("other", "test", 3.0)))
    said, table = path / "addition.json", path / "results.parquet"
    meta = json.loads(said.read_text())
    {
        "bytes": lambda: table.write_bytes(b"PAR1"),
        "json": lambda: said.write_text("{"),
        "list": lambda: said.write_text("[]"),
        "schema": lambda: said.write_text(json.dumps({**meta, "schema": 9})),
        "elsewhere": lambda: said.write_text(json.dumps({**meta, "run": "run2"})),
        "missing": table.unlink,
        "empty": lambda: [file.unlink() for file in (said, table)],
    }[damage]()
    run = find_run("run1", stores)
    assert run.table("results")["variant"].tolist() == ["dense", "other"]
    assert list(run.damaged_additions) == ["x"] and "addition x" in run.damaged_additions["x"]
    assert not is_sound(path)
    assert is_sound(add(store)), "it is written again"


def test_ids_tell_apart_run_question_and_code():
    one = id_of("run1", {"level": 0.1}, {"audit": 1})
    assert one == id_of("run1", {"level": 0.1}, {"audit": 1})
    others = (("run2", 0.1, 1), ("run1", 0.2, 1), ("run1", 0.1, 2))
    assert one not in {id_of(run, {"level": level}, {"audit": code}) for run, level, code in others}


def test_charts_and_pages_see_what_was_added_at_once(stores, store):
    """A frame is read once per content, a page's results once per key: both must change with an
    addition."""
    kept = KeptRun(find_run("run1", stores).path)
    assert len(lookup.frame(kept, "results")) == 1
    add(store)
    run = find_run("run1", stores)
    again = KeptRun(run.path, run.additions)
    assert again.key != kept.key and len(again.table("results")) == 2
    assert len(lookup.frame(again, "results")) == 2 and len(lookup.frame(kept, "results")) == 1
    assert again.key == KeptRun(run.path, run.additions).key


def test_a_run_opened_by_its_folder_has_what_lies_beside_it(stores, monkeypatch):
    shipped = stores[1]
    monkeypatch.setenv("PRUNEAUDIT_STORE", str(stores[0].root))
    add(shipped, "beside", results=results(NEW))
    add(stores[0], "own", results=results(("own", "test", 3.0)))
    run = open_run(shipped.runs_folder / "run1")
    assert isinstance(run, Run) and sorted(one.id for one in run.added) == ["beside", "own"]
