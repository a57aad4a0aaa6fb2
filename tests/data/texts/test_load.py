"""Labelled texts: what is asked, split, grouped, sampled and digested, whatever the source."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import engine.data
import engine.data.texts
from engine.data.texts.load import SPLITS
from tests.data import notes_of, sizes
from tests.data.texts import faults_of, load


def rows(n=60):
    words = np.random.default_rng(0).integers(0, 1000, (n, 8))
    texts = [" ".join(f"w{word}" for word in line[: 3 + at % 6]) for at, line in enumerate(words)]
    return pd.DataFrame(
        {
            "text": texts,
            "label": [("no", "yes")[at % 2] for at in range(n)],
            "split": [("train", "train", "test")[at // 2 % 3] for at in range(n)],
            "people": [("a", "b", "c")[at // 2 % 7 % 3] for at in range(n)],
        }
    )


def other_label(table):
    return table.assign(label=table["label"].map({"no": "yes", "yes": "no"}))


@pytest.fixture
def read(tmp_path):
    """Texts of a table, by way of a file."""
    return lambda table, **ask: load(written(tmp_path, table), **ask)


def written(folder, table):
    table.to_csv(folder / "texts.csv", index=False)
    return folder / "texts.csv"


def test_the_table_has_its_columns_and_its_order(read):
    texts = read(rows(), groups=("people", "length", "class"))
    table, test = texts.table, texts.rows("test")
    assert list(table) == ["text_id", "text", "text_b", "label", "split", "people", "length"]
    assert texts.groups == ("people", "length") and texts.name == "texts"
    assert isinstance(table.index, pd.RangeIndex) and table["label"].dtype == np.int64
    assert texts.classes == ("no", "yes")
    assert all(table[name].map(type).eq(str).all() for name in table if name != "label")
    assert table["text_id"].is_unique and table["text_id"].iloc[test].is_monotonic_increasing
    assert table["split"].map(SPLITS.index).is_monotonic_increasing
    assert (table["split"].iloc[test] == "test").all() and sizes(texts) == (40, 0, 20)


def test_neither_digest_nor_ids_depend_on_the_order_of_rows(read):
    # Texts repeat: within a split, across splits, with other labels and other groups.
    table = rows()
    again = [table.iloc[:6], table.iloc[:8].assign(split="test", people="c"), table.iloc[[1, 2, 5]]]
    table = pd.concat([table, *again])
    ask = {"groups": ("people", "length"), "max_texts": 25}
    first = read(table, **ask)
    for seed in range(3):
        mixed = read(table.sample(frac=1, random_state=seed), **ask)
        assert mixed.digest == first.digest
        pd.testing.assert_frame_equal(mixed.table, first.table)
    unsplit = table.drop(columns="split")
    assert read(unsplit).digest == read(unsplit.iloc[::-1]).digest


def test_the_digest_depends_on_everything_a_number_can(read):
    table = rows()
    others = [table.assign(text_b="b"), other_label(table)]
    for column, value in {"text": "words", "label": "no", "split": "test", "people": "b"}.items():
        other = table.copy()
        other.loc[np.flatnonzero(table[column] != value)[0], column] = value
        others.append(other)
    found = [read(one, groups=("people",)) for one in (table, *others)]
    assert [texts.pair for texts in found[:3]] == [False, True, False]
    digests = {texts.digest for texts in found} | {read(table, groups=("length",)).digest}
    assert len(digests) == 8


def test_ids_stay_when_groups_or_samples_change(read):
    every = set(read(rows()).table["text_id"])
    assert set(read(rows(), groups=("length",)).table["text_id"]) == every
    assert set(read(rows(), max_texts=8).table["text_id"]) < every


def test_samples_keep_the_shares_of_labels_and_groups(tmp_path):
    at = np.arange(1000)
    table = pd.DataFrame(
        {
            "text": [f"text {number}" for number in at],
            "label": np.where(at % 10 < 3, "yes", "no"),
            "people": np.where(at % 50 < 2, "few", "many"),
            "split": np.where(at < 500, "train", "test"),
        }
    )
    source = written(tmp_path, table)
    texts = load(source, groups=("people",), max_texts=100)
    for split in ("train", "test"):
        part = texts.table.iloc[texts.rows(split)]
        assert (len(part), part["label"].sum()) == (100, 30)
        assert (part["people"] == "few").sum() == 4
    assert load(source, max_texts=100).digest == load(source, max_texts=100).digest
    # A smaller sample is no other sample where the shares allow it: each cell takes its first ones.
    small = load(source, groups=("people",), max_texts=50)
    assert set(small.table["text_id"]) < set(texts.table["text_id"])
    assert "cannot show 2 classes" in faults_of(source, max_texts=1)[0]
    assert "max_texts" in faults_of(source, max_texts=0)[0]


def test_length_is_split_at_the_median_of_all_training_texts(read):
    words = [2, 3, 4, 5, 6, 7, 4, 9]
    table = pd.DataFrame(
        {
            "text": [" ".join([f"t{at}"] + ["w"] * (count - 2)) for at, count in enumerate(words)],
            "text_b": "b",
            "label": ["no", "yes"] * 4,
            "split": ["train"] * 5 + ["test"] * 3,
        }
    )
    texts = read(table, groups=("length",))
    counts = (texts.table["text"] + " " + texts.table["text_b"]).str.split().str.len()
    assert texts.table["length"].tolist() == ["long" if count > 4 else "short" for count in counts]
    assert "more than 4 words" in notes_of(texts)
    # The middle is that of all training texts, sampled or not.
    sampled = read(table, groups=("length",), max_texts=2).table
    whole = texts.table.set_index("text_id")["length"]
    assert (sampled["length"].to_numpy() == whole[sampled["text_id"]].to_numpy()).all()


def test_texts_that_occur_again_stay_and_are_counted(read):
    table = rows()
    assert not read(table).notes
    texts = read(pd.concat([table, table.iloc[:4].assign(split="test")]))
    assert len(texts.table) == 64 and "4 of 24 test texts also occur" in notes_of(texts)
    assert texts.table["text"].duplicated().sum() == 4 and texts.table["text_id"].is_unique
    torn = pd.concat([table, other_label(table[table["split"] == "test"].head(3))])
    told = "6 of 23 test texts have several labels: no model is right on all of them."
    assert told in read(torn).notes


def test_without_a_split_a_fifth_is_tested_on_and_repeats_stay_together(read):
    table = rows(200).drop(columns="split")
    table = pd.concat([table, table.iloc[:60]])
    texts = read(table)
    assert "80 % train and 20 % test" in notes_of(texts) and "also occur" not in notes_of(texts)
    test = texts.table.iloc[texts.rows("test")].drop_duplicates("text")
    assert (len(test), test["label"].sum()) == (40, 20)


def test_an_empty_class_is_a_fault(tmp_path):
    for change, told in (
        ({"label": np.where(rows()["split"] == "test", "no", rows()["label"])}, "class 'yes'"),
        ({"split": "train"}, "No test text has the class 'no', 'yes'"),
        ({"label": "no"}, "fewer than two classes (no)"),
    ):
        (fault,) = faults_of(written(tmp_path, rows().assign(**change)))
        assert told in fault
    many = rows(200).assign(label=[f"{at}" for at in range(200)])
    assert "200 values" in faults_of(written(tmp_path, many))[0]


def test_groups_that_are_empty_alone_or_too_many(tmp_path):
    table = rows(200).assign(one="same", many=[f"v{at}" for at in range(200)])
    table.loc[:4, "people"] = " "
    source = written(tmp_path, table)
    texts = load(source, groups=("people", "one"))
    assert (texts.table["people"] == "not stated").sum() == 5
    assert "one value only" in notes_of(texts) and "5 texts have no people" in notes_of(texts)
    (fault,) = faults_of(source, groups=("many", "people"))
    assert all(words in fault for words in ("many", "200 values", "64"))


def test_all_faults_of_an_ask_come_together(tmp_path):
    source = written(tmp_path, rows())
    for ask, *told in (
        (
            {"target": "mood", "groups": ("hair", "people"), "max_texts": -1},
            "'mood'",
            "'hair'",
            "-1",
        ),
        ({"groups": ("hair",)}, "Known: class, length, people"),
        ({"target": "people", "groups": ("people",)}, "column of the task itself"),
        ({"text": "label"}, "different columns"),
    ):
        faults = faults_of(source, **ask)
        assert len(faults) == len(told)
        assert all(words in fault for words, fault in zip(told, faults, strict=True)), faults
    faults = faults_of("remarks", text="label", groups=("hair",))
    assert len(faults) == 2 and "columns are fixed" in faults[0]


def test_hostile_texts_stay_as_they_are(read):
    nasty = ["<script>alert(1)</script>", '=cmd|"/c calc"!A1', "a\x1b[31mred", "\u202eturned"]
    nasty += ['x\ny, "z"', "e\u0301\U0001f600"]
    table = rows()
    table.loc[: len(nasty) - 1, "text"] = nasty
    found = read(table).table
    assert set(nasty) <= set(found["text"])
    assert found["text_id"].str.fullmatch(r"[0-9a-f]{16}(-\d+)?").all()


def test_no_reader_loads_torch():
    for path in Path(engine.data.__file__).parent.rglob("*.py"):
        loads = re.search(r"(?m)^(import|from) (torch|transformers|tokenizers)", path.read_text())
        assert not loads, path
