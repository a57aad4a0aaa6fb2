"""Labelled texts: what is asked, split, grouped, sampled and digested, whatever the source; the
real GLUE tasks."""

import numpy as np
import pandas as pd
import pytest

import engine.data.texts
from engine.core.errors import RequestError
from engine.data.sources import readers_in
from engine.data.texts import remark_task
from engine.data.texts.load import SPLITS, TextAsk, TextReader, load_texts, look_texts
from tests.data import notes_of
from tests.places import SHARED

GLUE = SHARED / "glue"


def glue(task):
    if not (GLUE / task).is_dir():
        pytest.skip(f"{task} does not lie in {GLUE}")
    return str(GLUE / task)


def rows(n=60, seed=0):
    draw = np.random.default_rng(seed)
    words = draw.integers(0, 1000, (n, 8))
    return pd.DataFrame(
        {
            "text": [
                " ".join(f"w{word}" for word in line[: 3 + at % 6]) for at, line in enumerate(words)
            ],
            "label": [("no", "yes")[at % 2] for at in range(n)],
            "split": [("train", "train", "test")[at // 2 % 3] for at in range(n)],
            "people": [("a", "b", "c")[at // 2 % 7 % 3] for at in range(n)],
        }
    )


def written(folder, table, name="texts.csv"):
    table.to_csv(folder / name, index=False)
    return str(folder / name)


def faults_of(source, **ask):
    with pytest.raises(RequestError) as caught:
        load_texts(str(source), TextAsk(**ask))
    return "\n".join(map(str, caught.value.faults)), len(caught.value.faults)


def test_every_reader_is_found_and_general_ones_come_last():
    found = readers_in(engine.data.texts, TextReader)
    assert [reader.general for reader in found] == sorted(reader.general for reader in found)
    names = " ".join(reader.name for reader in found)
    assert all(word in names for word in ("remarks", "topics", "CoLA", "glue:rte", "CSV"))


@pytest.mark.parametrize(
    "source", ["", " ", "/no/such", "x" * 5000, "a\0b", "~nobody-here/x", "glue:sts", __file__]
)
def test_odd_sources_say_what_is_known(source):
    with pytest.raises(RequestError) as caught:
        look_texts(source)
    assert all(len(str(fault)) < 2000 for fault in caught.value.faults)


@pytest.mark.parametrize("task", ["remarks", "topics"])
def test_the_embedded_tasks(task):
    info = look_texts(task)
    groups = tuple(remark_task.GROUPS[task])
    assert info.groups == (*groups, "length", "class") and info.default_groups == groups[:1]
    assert (
        info.note == remark_task.CARDS[task] and info.columns == () and info.targets == ("label",)
    )
    texts = load_texts(task, TextAsk(groups=(*groups, "length")))
    assert texts.classes == tuple(remark_task.CLASSES[task]) and texts.groups == (*groups, "length")
    assert (
        texts.stand_in == remark_task.CARDS[task] and texts.metric == "accuracy" and not texts.pair
    )
    source = remark_task.tables()[task].set_index("text")
    assert len(texts.table) == len(source) == info.n
    for row in texts.table.iloc[::97].itertuples():
        assert (texts.classes[row.label], row.split) == tuple(
            source.loc[row.text, ["label", "split"]]
        )
    assert load_texts(task, TextAsk(groups=(*groups, "length"))).digest == texts.digest


def test_the_table_has_its_columns_and_its_order(tmp_path):
    texts = load_texts(written(tmp_path, rows()), TextAsk(groups=("people", "length", "class")))
    table = texts.table
    assert list(table) == ["text_id", "text", "text_b", "label", "split", "people", "length"]
    assert (
        texts.groups == ("people", "length")
        and texts.name == "texts"
        and texts.classes == ("no", "yes")
    )
    assert isinstance(table.index, pd.RangeIndex) and table["label"].dtype == np.int64
    assert all(table[name].map(type).eq(str).all() for name in table if name != "label")
    assert table["text_id"].is_unique and set(table["split"]) == {"train", "test"}
    place = table["split"].map({name: at for at, name in enumerate(SPLITS)})
    assert (
        place.is_monotonic_increasing
        and table[table["split"] == "test"]["text_id"].is_monotonic_increasing
    )
    assert (table["split"].to_numpy()[texts.rows("test")] == "test").all() and len(
        texts.rows("validation")
    ) == 0


def test_neither_digest_nor_ids_depend_on_the_order_of_rows(tmp_path):
    # Texts repeat: within a split, across splits, with other labels and other groups.
    table = rows()
    table = pd.concat(
        [
            table,
            table.iloc[:6],
            table.iloc[:8].assign(split="test", people="c"),
            table.iloc[[1, 2, 5]],
        ]
    )
    ask = TextAsk(groups=("people", "length"), max_texts=25, seed=4)
    first = load_texts(written(tmp_path, table), ask)
    for seed in range(3):
        mixed = load_texts(written(tmp_path, table.sample(frac=1, random_state=seed)), ask)
        assert mixed.digest == first.digest
        pd.testing.assert_frame_equal(mixed.table, first.table)
    unsplit = [
        load_texts(written(tmp_path, part.drop(columns="split")))
        for part in (table, table.iloc[::-1])
    ]
    assert unsplit[0].digest == unsplit[1].digest


def test_the_digest_depends_on_everything_a_number_can(tmp_path):
    table, ask = rows(), TextAsk(groups=("people",))
    first = load_texts(written(tmp_path, table), ask)
    changes = {"text": "other words", "label": "no", "split": "test", "people": "b"}
    for column, value in changes.items():
        place = next(at for at in range(len(table)) if table[column].iloc[at] != value)
        other = table.copy()
        other.loc[place, column] = value
        assert load_texts(written(tmp_path, other), ask).digest != first.digest, column
    pairs = load_texts(written(tmp_path, table.assign(text_b="b")), ask)
    assert pairs.pair and pairs.digest != first.digest
    swapped = table.assign(label=table["label"].map({"no": "yes", "yes": "no"}))
    assert load_texts(written(tmp_path, swapped), ask).digest != first.digest
    assert load_texts(written(tmp_path, table), TextAsk(groups=("length",))).digest != first.digest


def test_ids_stay_when_groups_or_samples_change(tmp_path):
    source = written(tmp_path, rows())
    every = set(load_texts(source).table["text_id"])
    assert set(load_texts(source, TextAsk(groups=("length",))).table["text_id"]) == every
    assert set(load_texts(source, TextAsk(max_texts=8)).table["text_id"]) < every


def test_samples_keep_the_shares_of_labels_and_groups(tmp_path):
    table = pd.DataFrame(
        {
            "text": [f"text {at}" for at in range(1000)],
            "label": np.where(np.arange(1000) % 10 < 3, "yes", "no"),
            "people": np.where(np.arange(1000) % 50 < 2, "few", "many"),
            "split": np.where(np.arange(1000) < 500, "train", "test"),
        }
    )
    source = written(tmp_path, table)
    texts = load_texts(source, TextAsk(groups=("people",), max_texts=100))
    for split in ("train", "test"):
        part = texts.table.iloc[texts.rows(split)]
        assert (
            len(part) == 100
            and (part["label"] == 1).sum() == 30
            and (part["people"] == "few").sum() == 4
        )
    again = [load_texts(source, TextAsk(max_texts=100, seed=seed)).digest for seed in (0, 0, 1)]
    assert again[0] == again[1] != again[2]
    # A smaller sample is no other sample where the shares allow it: each cell takes its first ones.
    small = load_texts(source, TextAsk(groups=("people",), max_texts=50))
    assert set(small.table["text_id"]) < set(texts.table["text_id"])
    assert "cannot show 2 classes" in faults_of(source, max_texts=1)[0]
    assert "max_texts" in faults_of(source, max_texts=0)[0]


def test_length_is_split_at_the_median_of_all_training_texts(tmp_path):
    words = [2, 3, 4, 5, 6, 7, 4, 9]
    table = pd.DataFrame(
        {
            "text": [" ".join([f"t{at}"] + ["w"] * (count - 2)) for at, count in enumerate(words)],
            "text_b": ["b"] * 8,
            "label": ["no", "yes"] * 4,
            "split": ["train"] * 5 + ["test"] * 3,
        }
    )
    texts = load_texts(written(tmp_path, table), TextAsk(groups=("length",)))
    counts = (texts.table["text"] + " " + texts.table["text_b"]).str.split().str.len()
    assert texts.table["length"].tolist() == ["long" if count > 4 else "short" for count in counts]
    assert "more than 4 words" in notes_of(texts)
    # The middle is that of all training texts, sampled or not.
    sampled = load_texts(written(tmp_path, table), TextAsk(groups=("length",), max_texts=2)).table
    whole = texts.table.set_index("text_id")["length"]
    assert (sampled["length"].to_numpy() == whole[sampled["text_id"]].to_numpy()).all()


def test_texts_in_train_and_test_are_counted_and_stay(tmp_path):
    table = pd.concat([rows(), rows().iloc[:4].assign(split="test")])
    texts = load_texts(written(tmp_path, table))
    assert len(texts.table) == 64 and any(
        note.startswith("4 of 24 test texts also occur") for note in texts.notes
    )
    assert texts.table["text"].duplicated().sum() == 4 and texts.table["text_id"].is_unique


def test_without_a_split_a_fifth_is_tested_on_and_repeats_stay_together(tmp_path):
    table = rows(200).drop(columns="split")
    texts = load_texts(written(tmp_path, pd.concat([table, table.iloc[:60]])))
    assert "80 % train and 20 % test" in notes_of(texts)
    assert "also occur" not in notes_of(texts)
    test = texts.table.iloc[texts.rows("test")].drop_duplicates("text")
    assert len(test) == 40 and (test["label"] == 1).sum() == 20
    other = load_texts(written(tmp_path, pd.concat([table, table.iloc[:60]])), TextAsk(seed=1))
    assert other.digest != texts.digest


def test_an_empty_class_is_a_fault(tmp_path):
    table = rows()
    table.loc[table["split"] == "test", "label"] = "no"
    text, n = faults_of(written(tmp_path, table))
    assert n == 1 and "No test text has the class 'yes'" in text
    table = rows().assign(split="train")
    assert "No test text has the class 'no', 'yes'" in faults_of(written(tmp_path, table))[0]
    assert (
        "fewer than two classes (no)" in faults_of(written(tmp_path, rows().assign(label="no")))[0]
    )
    many = rows(200).assign(label=[f"{at}" for at in range(200)])
    assert "200 values" in faults_of(written(tmp_path, many))[0]


def test_groups_that_are_empty_alone_or_too_many(tmp_path):
    table = rows(200)
    table.loc[:4, "people"] = " "
    table["one"], table["many"] = "same", [f"v{at}" for at in range(200)]
    source = written(tmp_path, table)
    texts = load_texts(source, TextAsk(groups=("people", "one")))
    assert (texts.table["people"] == "not stated").sum() == 5
    assert "one value only" in notes_of(texts) and "5 texts have no people" in notes_of(texts)
    text, n = faults_of(source, groups=("many", "people"))
    assert n == 1 and "many" in text and "200 values" in text and "64" in text


def test_all_faults_of_an_ask_come_together(tmp_path):
    source = written(tmp_path, rows())
    text, n = faults_of(source, target="mood", groups=("hair", "people"), max_texts=-1)
    assert (
        n == 3 and "'mood'" in text and "'hair'" in text and "Known: class, length, people" in text
    )
    text, n = faults_of(source, target="people", groups=("people",))
    assert n == 1 and "column of the task itself" in text
    assert "different columns" in faults_of(source, text="label")[0]
    text, n = faults_of("remarks", text="label", groups=("hair",))
    assert n == 2 and "columns are fixed" in text


def test_intersections_name_single_columns(tmp_path):
    texts = load_texts(written(tmp_path, rows()), TextAsk(groups=("people+length", "class+people")))
    assert texts.groups == ("people", "length")


def test_hostile_texts_stay_as_they_are(tmp_path):
    table = rows()
    nasty = [
        "<script>alert(1)</script>",
        '=cmd|"/c calc"!A1',
        "a\x1b[31mred",
        "\u202eturned",
        'x\ny, "z"',
        "e\u0301\U0001f600",
    ]
    table.loc[: len(nasty) - 1, "text"] = nasty
    texts = load_texts(written(tmp_path, table))
    assert (
        set(nasty) <= set(texts.table["text"])
        and texts.table["text_id"].str.fullmatch(r"[0-9a-f]{16}(-\d+)?").all()
    )


@pytest.mark.parametrize(
    "task, classes, groups, metric, pair, counts",
    [
        ("CoLA", ("unacceptable", "acceptable"), ("source",), "matthews", False, (8551, 1043)),
        ("RTE", ("not_entailment", "entailment"), ("length",), "accuracy", True, (2490, 277)),
        ("WNLI", ("not_entailment", "entailment"), ("length",), "accuracy", True, (635, 71)),
    ],
)
def test_real_glue_tasks(task, classes, groups, metric, pair, counts):
    source = glue(task)
    info = look_texts(source)
    assert info.n == sum(counts) and info.metric == metric and info.default_groups == groups
    texts = load_texts(source)
    assert (texts.name, texts.classes, texts.groups, texts.metric) == (
        task,
        classes,
        groups,
        metric,
    )
    assert texts.pair == pair and (len(texts.rows("train")), len(texts.rows("test"))) == counts
    assert len(texts.rows("validation")) == 0


def test_real_labels_are_the_files():
    rte = load_texts(glue("RTE")).table
    rte = rte[rte["split"] == "test"]
    assert rte.loc[rte["text_b"] == "Christopher Reeve had an accident.", "label"].tolist() == [0]
    bacteria = rte["text"].str.startswith("Yet, we now are discovering that antibiotics")
    assert rte.loc[
        bacteria & rte["text_b"].str.startswith("Bacteria is winning"), "label"
    ].tolist() == [1]  # entailment
    cola = load_texts(glue("CoLA")).table.drop_duplicates("text").set_index("text")
    assert cola.loc["As you eat the most, you want the least.", "label"] == 0
    assert tuple(
        cola.loc["The sailors rode the breeze clear of the rocks.", ["label", "source", "split"]]
    ) == (
        1,
        "gj04",
        "test",
    )


def test_texts_that_have_several_labels_are_counted(tmp_path):
    """Before, nothing said why no model could be right on all of them."""
    table = rows()
    assert not any("several labels" in note for note in load_texts(written(tmp_path, table)).notes)
    test = table[table["split"] == "test"].head(3)
    again = pd.concat([table, test.assign(label=test["label"].map({"no": "yes", "yes": "no"}))])
    said = "6 of 23 test texts have several labels: no model is right on all of them."
    assert said in load_texts(written(tmp_path, again)).notes
