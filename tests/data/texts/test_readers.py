"""Where texts come from: GLUE's TSV files, the hub's parquet files, CSV and TSV; whole, damaged, or
of another kind."""

import json

import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest

from engine.core.errors import RequestError
from engine.data.texts.glue import GLUE_TASKS
from engine.data.texts.load import TextAsk, load_texts, look_texts
from tests.data import notes_of


def faults_of(source, **ask):
    with pytest.raises(RequestError) as caught:
        load_texts(str(source), TextAsk(**ask))
    return [str(fault) for fault in caught.value.faults]


def put(path, lines, encoding="utf-8", end="\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((end.join(lines) + end).encode(encoding))
    return path


HEADERS = {
    "sst2": "sentence\tlabel",
    "mrpc": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
    "qqp": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
    "qnli": "index\tquestion\tsentence\tlabel",
    "mnli": "index\tgenre\tsentence1\tsentence2\tlabel1\tgold_label",
    "rte": "index\tsentence1\tsentence2\tlabel",
    "wnli": "index\tsentence1\tsentence2\tlabel",
}


def line(key, at, label):
    """A row of a task's TSV; `label` as the file writes it."""
    if key == "cola":
        return (
            f"{('gj04', 'cj99')[at % 2]}\t{label}\t{'' if label == '1' else '*'}\tA sentence {at}."
        )
    cells = {"genre": ("fiction", "slate")[at % 2], GLUE_TASKS[key].label: label}
    texts = dict(zip(GLUE_TASKS[key].texts, (f'"one {at}', f"two {at}' \u2028 "), strict=False))
    return "\t".join(
        {**cells, **texts}.get(name, str(at)) for name in HEADERS[key].strip("\ufeff").split("\t")
    )


def glue(folder, key, dev="dev", change=None):
    """A task of eight training and six dev rows; `change` maps file name -> function over its
    lines."""
    labels, files = (
        list(GLUE_TASKS[key].labels),
        {"train.tsv": range(8), f"{dev}.tsv": range(100, 106)},
    )
    for name, numbers in files.items():
        lines = [HEADERS[key]] if key in HEADERS else []
        lines += [line(key, at, labels[at % len(labels)]) for at in numbers]
        lines = change[name](lines) if change and name in change else lines
        put(folder / name, lines)
    return str(folder)


@pytest.mark.parametrize("key", GLUE_TASKS)
def test_every_glue_task(tmp_path, key):
    task = GLUE_TASKS[key]
    source = glue(tmp_path / task.name.lower(), key, task.dev)
    info = look_texts(source)
    assert (info.name, info.kind, info.n, info.metric) == (task.name, "GLUE", 14, task.metric)
    assert info.groups == ((task.group,) if task.group else ()) + ("length", "class")
    texts = load_texts(source)
    assert texts.classes == task.classes and texts.groups == info.default_groups == info.groups[:1]
    assert (len(texts.rows("train")), len(texts.rows("test"))) == (8, 6) and texts.pair == (
        len(task.texts) == 2
    )
    labels = list(task.labels)
    for row in texts.table.itertuples():
        at = int(row.text.split()[-1].rstrip("."))
        assert texts.classes[row.label] == task.labels[labels[at % len(labels)]]
        assert (row.split == "train") == (at < 8)
        if task.group:
            assert (
                getattr(row, task.group)
                == {"source": ("gj04", "cj99"), "genre": ("fiction", "slate")}[task.group][at % 2]
            )
    if texts.pair:  # a quotation mark is text, and only a line feed ends a row
        assert (
            texts.table["text"].str.startswith('"one').all()
            and texts.table["text_b"].str.endswith("'").all()
        )
    assert "development texts are the test split" in notes_of(texts)


def test_folders_are_known_by_name_in_any_case_and_files_may_end_lines_as_windows_does(tmp_path):
    for name in ("sst-2", "SST2", "Sst-2"):
        rows = ["sentence\tlabel", "good film \t1", "bad film \t0"]
        put(tmp_path / name / "train.tsv", rows, end="\r\n")
        put(tmp_path / name / "dev.tsv", rows, end="\r\n")
        texts = load_texts(str(tmp_path / name))
        assert (
            texts.name == "SST-2"
            and sorted(texts.table["text"]) == ["bad film"] * 2 + ["good film"] * 2
        )
    assert "layout of the texts is not known" in str(faults_of(tmp_path))


def test_missing_files_are_all_named(tmp_path):
    (tmp_path / "MNLI").mkdir()
    found = faults_of(tmp_path / "MNLI")
    assert len(found) == 2 and "train.tsv" in found[0] and "dev_matched.tsv" in found[1]


def test_every_damaged_row_of_both_files_is_named(tmp_path):
    def train(lines):
        lines[2] = "1\tonly three\tfields"
        lines[4] = lines[4].replace("two 3' \u2028 ", "  ")
        lines[5] += "\ttoo many"
        return lines

    def dev(lines):
        lines[1] = line("rte", 0, "perhaps")
        return lines

    found = faults_of(glue(tmp_path / "RTE", "rte", change={"train.tsv": train, "dev.tsv": dev}))
    assert len(found) == 4
    assert found[0].startswith("train.tsv, row 2: It has 3 fields where 4 are needed.")
    assert found[1].startswith("train.tsv, row 4: sentence2: the text is empty.")
    assert found[2].startswith("train.tsv, row 5: It has 5 fields")
    assert found[3].startswith("dev.tsv, row 1: label is 'perhaps'") and "entailment" in found[3]


def test_twenty_rows_are_named_and_the_others_counted(tmp_path):
    spoil = {"train.tsv": lambda lines: lines + ["x"] * 50}
    found = faults_of(glue(tmp_path / "WNLI", "wnli", change=spoil))
    assert (
        len(found) == 21
        and "30 more faults" in found[-1]
        and found[19].startswith("train.tsv, row 28:")
    )


def test_rows_that_are_damaged_in_the_published_file_are_left_out_and_counted(tmp_path):
    spoil = {"train.tsv": lambda lines: [*lines, "9\t9", line("qqp", 9, "1").replace('"one 9', "")]}
    texts = load_texts(glue(tmp_path / "QQP", "qqp", change=spoil))
    assert len(texts.rows("train")) == 8 and any(
        note.startswith("2 damaged rows of train.tsv") for note in texts.notes
    )
    spoil = {"train.tsv": lambda lines: lines + ["9\t9"] * 51}
    assert len(faults_of(glue(tmp_path / "QQP", "qqp", change=spoil))) == 21


@pytest.mark.parametrize(
    "content, said",
    [
        (b"", "empty"),
        (b"index\tsentence1\tsentence2\tlabel\n", "no rows"),
        (
            b"index\tsentence1\tlabel\n1\ta\tentailment\n",
            "Columns missing, or there twice: sentence2",
        ),
        (b"sentence1\tsentence2\tlabel\tlabel\na\tb\tentailment\tx\n", "there twice: label"),
        (
            b"index\tsentence1\tsentence2\tlabel\n0\t\xff\xfe\tb\tentailment\n",
            "Not UTF-8 text (byte 34, line 2)",
        ),
        (b"a\0b", "not text"),
    ],
)
def test_glue_files_that_are_something_else(tmp_path, content, said):
    source = glue(tmp_path / "RTE", "rte")
    (tmp_path / "RTE" / "dev.tsv").write_bytes(content)
    found = faults_of(source)
    assert len(found) == 1 and found[0].startswith("dev.tsv") and said in found[0]


def test_a_task_without_a_group_does_not_have_one(tmp_path):
    found = faults_of(glue(tmp_path / "RTE", "rte"), groups=("genre",), text="sentence1")
    assert len(found) == 2 and "Known: class, length" in found[1]


# The hub


def parquet(path, key, labels, names=None, **columns):
    task = GLUE_TASKS[key]
    texts = {column: [f"{column} {at}" for at in range(len(labels))] for column in task.hub_texts}
    table = pyarrow.table({**texts, "label": labels, "idx": list(range(len(labels))), **columns})
    if names:
        features = {"info": {"features": {"label": {"names": list(names), "_type": "ClassLabel"}}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(features)})
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(table, path)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A folder in place of the hub: files below it can be downloaded; returns (folder, what was
    asked)."""
    asked = []

    def download(repository, name, repo_type, local_files_only=False):
        asked.append((name, local_files_only))
        assert (repository, repo_type) == ("nyu-mll/glue", "dataset")
        path = tmp_path / name
        if local_files_only or not path.is_file():
            raise FileNotFoundError("no connection")
        return str(path)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    return tmp_path, asked


@pytest.mark.parametrize("key", GLUE_TASKS)
def test_the_hub_has_the_same_labels_as_the_files(hub, key):
    task, (folder, _) = GLUE_TASKS[key], hub
    k = len(task.hub_classes)
    parquet(
        folder / key / "train-00000-of-00001.parquet",
        key,
        [at % k for at in range(8)],
        task.hub_classes,
    )
    parquet(
        folder / key / f"{task.hub_dev}-00000-of-00001.parquet", key, [at % k for at in range(4)]
    )
    info = look_texts(f"glue:{task.name}")
    assert (info.name, info.metric, info.groups) == (task.name, task.metric, ("length", "class"))
    texts = load_texts(f"glue:{key}")
    assert (
        texts.classes == task.classes
        and texts.metric == task.metric
        and texts.pair == (len(task.texts) == 2)
    )
    assert (len(texts.rows("train")), len(texts.rows("test"))) == (8, 4)
    for row in texts.table.itertuples():
        at = int(row.text.split()[-1])
        assert (
            texts.classes[row.label] == task.hub_classes[at % k]
            and row.text == f"{task.hub_texts[0]} {at}"
        )


def test_the_hubs_rte_has_entailment_first(hub):
    folder, asked = hub
    for split in ("train", "validation"):
        parquet(folder / "rte" / f"{split}-00000-of-00001.parquet", "rte", [0, 1])
    table = load_texts("glue:rte").table
    assert table.set_index("text")["label"].to_dict() == {"sentence1 0": 1, "sentence1 1": 0}
    assert [name for name, local in asked if not local] == [
        "rte/train-00000-of-00001.parquet",
        "rte/validation-00000-of-00001.parquet",
    ]


def test_without_a_network_it_says_so(hub):
    found = faults_of("glue:rte")
    assert (
        len(found) == 1 and "FileNotFoundError" in found[0] and "train.tsv and dev.tsv" in found[0]
    )
    assert len(hub[1]) == 2  # looked here, then there; the second file is not asked for
    assert look_texts("glue:mnli").n == 402517  # a form needs no network
    assert "Known: cola" in faults_of("glue:boolq")[0]


def test_what_was_downloaded_before_needs_no_network(tmp_path, monkeypatch):
    for split in ("train", "validation"):
        parquet(tmp_path / "rte" / f"{split}-00000-of-00001.parquet", "rte", [0, 1])

    def download(repository, name, repo_type, local_files_only=False):
        assert local_files_only, "the network was asked"
        return str(tmp_path / name)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    assert len(load_texts("glue:rte").table) == 4


def test_damaged_and_other_parquet_files(hub):
    folder, _ = hub
    train, dev = (
        folder / "rte" / f"{split}-00000-of-00001.parquet" for split in ("train", "validation")
    )
    parquet(train, "rte", [0, 1, -1, 0], sentence2=["a", "b", "c", " "])
    dev.write_bytes(b"PAR1 not really")
    found = faults_of("glue:rte")
    assert (
        len(found) == 3
        and "row 3: label is '-1'" in found[0]
        and "row 4: A text is empty" in found[1]
    )
    assert "not a parquet file" in found[2]
    parquet(train, "rte", [0, 1], names=["not_entailment", "entailment"])
    parquet(dev, "rte", ["a", "b"])
    found = faults_of("glue:rte")
    assert (
        len(found) == 2
        and "Its classes are not_entailment" in found[0]
        and "whole numbers" in found[1]
    )
    pyarrow.parquet.write_table(pyarrow.table({"premise": ["a"], "label": [0]}), dev)
    assert "Columns missing: sentence1, sentence2" in str(faults_of("glue:rte"))


# CSV and TSV


def table(n=12, **columns):
    base = {
        "text": [f"text {at}" for at in range(n)],
        "label": [str(at % 2) for at in range(n)],
        "split": ["train", "train", "test", "test"] * (n // 4),
    }
    return pd.DataFrame({**base, **columns})


def csv(path, frame, sep=","):
    frame.to_csv(path, index=False, sep=sep)
    return str(path)


@pytest.mark.parametrize("name, sep", [("a.csv", ","), ("b.TSV", "\t")])
def test_csv_and_tsv(tmp_path, name, sep):
    frame = table(
        text_b=['with, "quotes"\tand\ttabs\nand lines'] * 12,
        people=["u", "v", "w"] * 4,
        id=range(12),
    )
    frame.columns = ["Text", "LABEL", "split", "text_b", "people", "id"]
    source = csv(tmp_path / name, frame, sep)
    info = look_texts(source)
    assert info.columns == ("text", "label", "text_b", "people", "id") and info.n == 12
    assert (info.default_text, info.default_target, info.default_groups) == (
        "text",
        "label",
        ("people",),
    )
    assert info.groups == ("people", "id", "length", "class") and info.targets == (
        "label",
        "text",
        "people",
        "id",
    )
    texts = load_texts(source)
    assert texts.pair and set(texts.table["text_b"]) == {'with, "quotes"\tand\ttabs\nand lines'}
    assert (
        texts.classes == ("0", "1") and texts.groups == ("people",) and texts.metric == "accuracy"
    )
    single = load_texts(source, TextAsk(text_b=""))
    assert not single.pair and single.digest != texts.digest


def test_columns_can_be_named(tmp_path):
    frame = table(mood=["10", "9", "10", "9"] * 3).rename(
        columns={"text": "comment", "label": "toxic"}
    )
    source = csv(tmp_path / "comments.csv", frame)
    info = look_texts(source)
    assert info.default_text == "comment" and info.default_target in info.targets
    found = faults_of(source)  # nothing is guessed when it is loaded
    assert (
        len(found) == 2
        and "column for text: 'text'" in found[0]
        and "column for target: 'label'" in found[1]
    )
    texts = load_texts(source, TextAsk(text="comment", target="mood", groups=("toxic",)))
    assert texts.classes == ("9", "10") and texts.groups == ("toxic",)  # whole numbers by size


def test_split_words_and_odd_ones(tmp_path):
    words = ["Training", "dev", "TEST", "testing"] * 2 + ["train", "val", "test", "test"]
    texts = load_texts(
        csv(tmp_path / "a.csv", table(split=words, label=list("aabb") * 2 + list("bbaa")))
    )
    assert {split: len(texts.rows(split)) for split in ("train", "validation", "test")} == {
        "train": 3,
        "validation": 3,
        "test": 6,
    }
    found = faults_of(csv(tmp_path / "a.csv", table(split=["train", "held out", "", "test"] * 3)))
    assert (
        len(found) == 6
        and found[0].startswith("a.csv, row 2: split is 'held out'")
        and "validation" in found[0]
    )
    blank = load_texts(csv(tmp_path / "a.csv", table(split=[""] * 12)))
    assert "No split is given" in notes_of(blank)


def test_empty_texts_and_missing_labels_are_named_row_by_row(tmp_path):
    frame = table(text_b=["b"] * 12)
    frame.loc[1, "text"], frame.loc[3, "label"], frame.loc[5, "text_b"] = " ", "", ""
    found = faults_of(csv(tmp_path / "a.csv", frame))
    assert [fault.split(": ")[0] for fault in found] == [
        "a.csv, row 2",
        "a.csv, row 6",
        "a.csv, row 4",
    ]
    assert "label: the label is empty" in found[2]


@pytest.mark.parametrize(
    "content, where, said",
    [
        (b"text,label\na,0\nb\nc,1,2\n", "a.csv, row 2", "1 fields where the header has 2"),
        (b'text,label\na,0\n"b,1\nc,0\n', "a.csv, row 2", "quotation is broken"),
        (b'text,label\na,0\n"b" c,1\n', "a.csv, row 2", "quotation is broken"),
        (b"text,label,Text\na,0,b\n", "a.csv", "named twice: text"),
        (b"text,label,x,x\na,0,b,c\n", "a.csv", "named twice: x"),
        (b"text\na\n", "a.csv", "fewer than two columns"),
        (b"text;label\na, b, c;0\nd;1;2\n", "a.csv, row 2", "3 fields where the header has 2"),
        (b"text,label\n", "a.csv", "no rows"),
        (b"", "a.csv", "empty"),
        (b"text,label\na,0\nb\xe9,1\n", "a.csv", "Not UTF-8 text (byte 16, line 3)"),
        (b"\x89PNG\r\n\0\0", "a.csv", "Not UTF-8"),
        (b"text,label\na,0\nb\0,1\n", "a.csv", "zero byte in line 3"),
    ],
)
def test_csv_files_that_are_broken(tmp_path, content, where, said):
    (tmp_path / "a.csv").write_bytes(content)
    for found in (faults_of(tmp_path / "a.csv"), faults_of(tmp_path / "a.csv", text="text")):
        assert found[0].startswith(where) and said in found[0]
    with pytest.raises(RequestError):
        look_texts(str(tmp_path / "a.csv"))


def test_names_the_audit_uses_are_no_groups(tmp_path):
    source = csv(
        tmp_path / "a.csv", table(length=["x", "y"] * 6, text_id=range(12), people=["u", "v"] * 6)
    )
    info = look_texts(source)
    assert info.groups == ("people", "length", "class") and "length, text_id" in info.note

    texts = load_texts(source, TextAsk(groups=("length",)))
    assert set(texts.table["length"]) <= {"short", "long"}
    assert "text_id" in faults_of(source, groups=("text_id",))[0]


def test_columns_of_too_many_values_are_named(tmp_path):
    rows = [
        {"text": f"text {at}", "label": at % 2, "people": "uv"[at % 2], "writer": f"w{at}"}
        for at in range(70)
    ]
    info = look_texts(csv(tmp_path / "a.csv", pd.DataFrame(rows)))
    assert (
        info.groups == ("people", "length", "class")
        and "writer (70)" in info.note
        and "text (" not in info.note
    )


def test_groups_may_have_nearly_any_name_and_never_overwrite_a_column_of_the_task(tmp_path):
    frame = table(
        comment=[f"comment {at}" for at in range(12)], mood=["x", "y"] * 6, text_b=["second"] * 12
    )
    for name in ("target", "content", "place", "index", "label+text", "image_id"):
        frame[name] = ["u", "v", "v"] * 4
    source = csv(tmp_path / "a.csv", frame)
    groups = ("target", "content", "place", "index", "label+text", "image_id")
    texts = load_texts(source, TextAsk(text="comment", target="mood", text_b="", groups=groups))
    assert texts.groups == groups and texts.classes == ("x", "y") and not texts.pair
    for row in texts.table.itertuples(index=False):
        at = int(row.text.removeprefix("comment "))
        assert row.label == at % 2 and set(row[5:]) == {"uvv"[at % 3]}
    for name in ("text", "text_b", "label", "split"):
        found = faults_of(source, text="comment", target="mood", text_b="", groups=(name,))
        assert len(found) == 1 and (name in found[0])


def test_a_missing_file_and_other_files(tmp_path):
    assert "no such file" in faults_of(tmp_path / "no.csv")[0]
    put(tmp_path / "a.txt", ["text,label"])
    assert "not known" in faults_of(tmp_path / "a.txt")[0]
