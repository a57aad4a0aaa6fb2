"""Where texts come from: GLUE's TSV files, the hub's parquet files, CSV and TSV; whole, damaged, or
of another kind."""

import json

import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest

from engine.core.errors import RequestError
from engine.data.texts.glue import GLUE_TASKS
from engine.data.texts.load import look_texts
from tests.data import notes_of, sizes
from tests.data.texts import faults_of, load


def put(path, lines, end="\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((end.join(lines) + end).encode())
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
GROUPS = {"source": ("gj04", "cj99"), "genre": ("fiction", "slate")}


def line(key, at, label):
    """A row of a task's TSV; `label` as the file writes it."""
    if key == "cola":
        return (
            f"{GROUPS['source'][at % 2]}\t{label}\t{'' if label == '1' else '*'}\tA sentence {at}."
        )
    cells = {"genre": GROUPS["genre"][at % 2], GLUE_TASKS[key].label: label}
    cells |= zip(GLUE_TASKS[key].texts, (f'"one {at}', f"two {at}' \u2028 "), strict=False)
    return "\t".join(cells.get(name, str(at)) for name in HEADERS[key].strip("\ufeff").split("\t"))


def glue(folder, key, **change):
    """A task of eight training and six dev rows; `change`: functions over the lines of train and
    dev."""
    task, labels = GLUE_TASKS[key], list(GLUE_TASKS[key].labels)
    for split, name, numbers in (("train", "train", range(8)), ("dev", task.dev, range(100, 106))):
        lines = [HEADERS[key]] if key in HEADERS else []
        lines += [line(key, at, labels[at % len(labels)]) for at in numbers]
        put(folder / f"{name}.tsv", change.get(split, list)(lines))
    return folder


@pytest.mark.parametrize("key", GLUE_TASKS)
def test_every_glue_task(tmp_path, key):
    task = GLUE_TASKS[key]
    source = glue(tmp_path / task.name.lower(), key)
    info = look_texts(str(source))
    assert info.name == task.name
    assert info.groups == ((task.group,) if task.group else ()) + ("length", "class")
    texts = load(source)
    assert (texts.classes, texts.metric) == (task.classes, task.metric)
    assert texts.groups == info.default_groups == info.groups[:1]
    assert sizes(texts) == (8, 0, 6) and texts.pair == (len(task.texts) == 2)
    labels = list(task.labels)
    for row in texts.table.itertuples():
        at = int(row.text.split()[-1].rstrip("."))
        assert texts.classes[row.label] == task.labels[labels[at % len(labels)]]
        assert (row.split == "train") == (at < 8)
        assert not task.group or getattr(row, task.group) == GROUPS[task.group][at % 2]
    if texts.pair:  # a quotation mark is text, and only a line feed ends a row
        assert texts.table["text"].str.startswith('"one').all()
        assert texts.table["text_b"].str.endswith("'").all()
    assert "development texts are the test split" in notes_of(texts)


def test_folders_are_known_by_name_in_any_case_and_files_may_end_lines_as_windows_does(tmp_path):
    for name in ("sst-2", "SST2", "Sst-2"):
        for file in ("train.tsv", "dev.tsv"):
            rows = ["sentence\tlabel", "good film \t1", "bad film \t0"]
            put(tmp_path / name / file, rows, end="\r\n")
        texts = load(tmp_path / name)
        assert texts.name == "SST-2" and set(texts.table["text"]) == {"bad film", "good film"}
    assert "layout of the texts is not known" in str(faults_of(tmp_path))


def test_missing_files_are_all_named(tmp_path):
    (tmp_path / "MNLI").mkdir()
    train, dev = faults_of(tmp_path / "MNLI")
    assert "train.tsv" in train and "dev_matched.tsv" in dev


def test_every_damaged_row_of_both_files_is_named(tmp_path):
    def train(lines):
        lines[2] = "1\tonly three\tfields"
        lines[4] = lines[4].replace("two 3' \u2028 ", "  ")
        lines[5] += "\ttoo many"
        return lines

    dev = lambda lines: [lines[0], line("rte", 0, "perhaps"), *lines[2:]]  # noqa: E731
    found = faults_of(glue(tmp_path / "RTE", "rte", train=train, dev=dev))
    told = (
        "train.tsv, row 2: It has 3 fields where 4 are needed.",
        "train.tsv, row 4: sentence2: the text is empty.",
        "train.tsv, row 5: It has 5 fields",
        "dev.tsv, row 1: label is 'perhaps', not a label of RTE. Known: not_entailment, entailment",
    )
    assert all(fault.startswith(words) for fault, words in zip(found, told, strict=True)), found


def test_rows_that_are_damaged_in_the_published_file_are_left_out_and_counted(tmp_path):
    empty = line("qqp", 9, "1").replace('"one 9', "")
    texts = load(glue(tmp_path / "QQP", "qqp", train=lambda lines: [*lines, "9\t9", empty]))
    assert sizes(texts)[0] == 8 and "2 damaged rows of train.tsv" in notes_of(texts)
    more = glue(tmp_path / "QQP", "qqp", train=lambda lines: lines + ["9\t9"] * 51)
    assert len(faults_of(more)) == 21


@pytest.mark.parametrize(
    "content, told",
    [
        (b"", "empty"),
        (b"index\tsentence1\tsentence2\tlabel\n", "no rows"),
        (b"index\tsentence1\tlabel\n1\ta\tentailment\n", "missing, or there twice: sentence2"),
        (b"sentence1\tsentence2\tlabel\tlabel\na\tb\tentailment\tx\n", "there twice: label"),
        (
            b"sentence1\tsentence2\tlabel\n\xff\xfe\tb\tentailment\n",
            "Not UTF-8 text (byte 26, line 2)",
        ),
        (b"a\0b", "not text"),
    ],
)
def test_glue_files_that_are_something_else(tmp_path, content, told):
    (glue(tmp_path / "RTE", "rte") / "dev.tsv").write_bytes(content)
    (fault,) = faults_of(tmp_path / "RTE")
    assert fault.startswith("dev.tsv") and told in fault


# The hub


class Hub:
    """A folder in place of the hub: files below it can be downloaded; and what was asked for."""

    def __init__(self, folder):
        self.folder, self.asked, self.offline = folder, [], False

    def download(self, repository, name, repo_type, local_files_only=False):
        self.asked.append((name, local_files_only))
        assert (repository, repo_type) == ("nyu-mll/glue", "dataset")
        path = self.folder / name
        if local_files_only != self.offline or not path.is_file():
            raise FileNotFoundError("no connection")
        return str(path)

    def file(self, key, split):
        task = GLUE_TASKS[key]
        name = "train" if split == "train" else task.hub_dev
        path = self.folder / key / f"{name}-00000-of-00001.parquet"
        path.parent.mkdir(exist_ok=True)
        return path

    def put(self, key, split, labels, names=(), **columns):
        numbers = range(len(labels))
        texts = {name: [f"{name} {at}" for at in numbers] for name in GLUE_TASKS[key].on_hub[0]}
        table = pyarrow.table({**texts, "label": labels, "idx": list(numbers), **columns})
        if names:
            features = {"label": {"names": list(names), "_type": "ClassLabel"}}
            said = json.dumps({"info": {"features": features}})
            table = table.replace_schema_metadata({"huggingface": said})
        pyarrow.parquet.write_table(table, self.file(key, split))


@pytest.fixture
def hub(tmp_path, monkeypatch):
    found = Hub(tmp_path)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", found.download)
    return found


@pytest.mark.parametrize("key", GLUE_TASKS)
def test_the_hub_has_the_same_labels_as_the_files(hub, key):
    task = GLUE_TASKS[key]
    (first, *_), classes = task.on_hub
    k = len(classes)
    hub.put(key, "train", [at % k for at in range(8)], classes)
    hub.put(key, "dev", [at % k for at in range(4)])
    info, texts = look_texts(f"glue:{task.name}"), load(f"glue:{key}")
    assert (info.name, info.groups) == (task.name, ("length", "class"))
    assert (texts.classes, texts.metric) == (task.classes, task.metric)
    assert texts.pair == (len(task.texts) == 2) and sizes(texts) == (8, 0, 4)
    for row in texts.table.itertuples():
        at = int(row.text.split()[-1])
        assert texts.classes[row.label] == classes[at % k] and row.text == f"{first} {at}"


def test_the_hubs_rte_has_entailment_first_and_is_downloaded_once(hub):
    for split in ("train", "dev"):
        hub.put("rte", split, [0, 1])
    table = load("glue:rte").table
    assert table.set_index("text")["label"].to_dict() == {"sentence1 0": 1, "sentence1 1": 0}
    files = [f"rte/{split}-00000-of-00001.parquet" for split in ("train", "validation")]
    assert [name for name, local in hub.asked if not local] == files
    hub.asked, hub.offline = [], True
    assert len(load("glue:rte").table) == 4 and all(local for _, local in hub.asked)


def test_without_a_network_it_says_so(hub):
    (fault,) = faults_of("glue:rte")
    assert "FileNotFoundError" in fault and "train.tsv and dev.tsv" in fault
    assert len(hub.asked) == 2  # looked here, then there; the second file is not asked for
    assert look_texts("glue:mnli").name == "MNLI"  # a form needs no network
    assert "Known: cola" in faults_of("glue:boolq")[0]


def test_damaged_and_other_parquet_files(hub):
    hub.put("rte", "train", [0, 1, -1, 0], sentence2=["a", "b", "c", " "])
    hub.file("rte", "dev").write_bytes(b"PAR1 not really")
    label, empty, other = faults_of("glue:rte")
    assert "row 3: label is '-1'" in label and "row 4: sentence2: the text is empty" in empty
    assert "not a parquet file" in other
    hub.put("rte", "train", [0, 1], names=["not_entailment", "entailment"])
    hub.put("rte", "dev", ["a", "b"])
    names, labels = faults_of("glue:rte")
    assert "Its classes are not_entailment" in names and "whole numbers" in labels
    pyarrow.parquet.write_table(
        pyarrow.table({"premise": ["a"], "label": [0]}), hub.file("rte", "dev")
    )
    assert "Columns missing: sentence1, sentence2" in str(faults_of("glue:rte"))


# CSV and TSV


@pytest.fixture
def csv(tmp_path):
    """A table of twelve texts as a file."""

    def written(name="a.csv", sep=",", renamed=(), **columns):
        base = {
            "text": [f"text {at}" for at in range(12)],
            "label": [str(at % 2) for at in range(12)],
            "split": ["train", "train", "test", "test"] * 3,
        }
        frame = pd.DataFrame({**base, **columns}).rename(columns=dict(renamed))
        frame.to_csv(tmp_path / name, index=False, sep=sep)
        return str(tmp_path / name)

    return written


@pytest.mark.parametrize("name, sep", [("a.csv", ","), ("b.TSV", "\t")])
def test_csv_and_tsv(csv, name, sep):
    second = 'with, "quotes"\tand\ttabs\nand lines'
    columns = {"text_b": second, "people": ["u", "v", "w"] * 4, "id": range(12)}
    source = csv(name, sep, {"text": "Text", "label": "LABEL"}, **columns)
    info = look_texts(source)
    assert info.columns == ("text", "label", "text_b", "people", "id")
    assert (info.default_text, info.default_target) == ("text", "label")
    assert info.groups == ("people", "id", "length", "class")
    assert info.default_groups == ("people",)
    texts = load(source)
    assert texts.pair and set(texts.table["text_b"]) == {second}
    assert (texts.classes, texts.groups, texts.metric) == (("0", "1"), ("people",), "accuracy")
    single = load(source, text_b="")
    assert not single.pair and single.digest != texts.digest
    assert look_texts(csv(name, sep)).default_groups == ()


def test_columns_can_be_named(csv):
    source = csv(renamed={"text": "comment", "label": "toxic"}, mood=["10", "9", "10", "9"] * 3)
    info = look_texts(source)
    assert (info.default_text, info.default_target) == ("comment", "comment")
    text, target = faults_of(source)  # nothing is guessed when it is loaded
    assert "column for text: 'text'" in text and "column for target: 'label'" in target
    texts = load(source, text="comment", target="mood", groups=("toxic",))
    assert texts.classes == ("9", "10") and texts.groups == ("toxic",)  # whole numbers by size


def test_split_words_and_odd_ones(csv):
    words = ["Training", "dev", "TEST", "testing"] * 2 + ["train", "val", "test", "test"]
    assert sizes(load(csv(split=words, label=list("aabb") * 2 + list("bbaa")))) == (3, 3, 6)
    found = faults_of(csv(split=["train", "held out", "", "test"] * 3))
    assert len(found) == 6 and found[0].startswith("a.csv, row 2: split is 'held out'")
    assert "validation" in found[0]
    assert "No split is given" in notes_of(load(csv(split="")))


def test_empty_texts_and_missing_labels_are_named_row_by_row(csv):
    columns = {name: [name] * 12 for name in ("text", "text_b", "label")}
    columns["text"][1], columns["label"][3], columns["text_b"][5] = " ", "", ""
    found = faults_of(csv(**columns))
    assert [fault.split(": ")[0][-1] for fault in found] == ["2", "6", "4"]
    assert "label: the label is empty" in found[2]


@pytest.mark.parametrize(
    "content, where, told",
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
def test_csv_files_that_are_broken(tmp_path, content, where, told):
    (tmp_path / "a.csv").write_bytes(content)
    for ask in ({}, {"text": "text"}):
        fault = faults_of(tmp_path / "a.csv", **ask)[0]
        assert fault.startswith(where) and told in fault
    with pytest.raises(RequestError):
        look_texts(str(tmp_path / "a.csv"))


def test_names_the_audit_uses_are_no_groups(csv):
    source = csv(length=["x", "y"] * 6, text_id=range(12), people=["u", "v"] * 6)
    info = look_texts(source)
    assert info.groups == ("people", "length", "class") and "length, text_id" in info.note
    assert set(load(source, groups=("length",)).table["length"]) <= {"short", "long"}
    assert "text_id" in faults_of(source, groups=("text_id",))[0]


def test_groups_may_have_nearly_any_name_and_never_overwrite_a_column_of_the_task(csv):
    groups = ("target", "content", "place", "index", "label+text", "image_id")
    own = {"comment": [f"comment {at}" for at in range(12)], "mood": ["x", "y"] * 6}
    source = csv(**own, text_b="second", **dict.fromkeys(groups, ["u", "v", "v"] * 4))
    ask = {"text": "comment", "target": "mood", "text_b": ""}
    texts = load(source, **ask, groups=groups)
    assert texts.groups == groups and texts.classes == ("x", "y") and not texts.pair
    for row in texts.table.itertuples(index=False):
        at = int(row.text.removeprefix("comment "))
        assert row.label == at % 2 and set(row[5:]) == {"uvv"[at % 3]}
    for name in ("text", "text_b", "label", "split"):
        (fault,) = faults_of(source, **ask, groups=(name,))
        assert name in fault
