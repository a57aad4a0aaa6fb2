"""Every reader on a tiny file of the published form, on the real files where they are, and on files
with faults."""

from __future__ import annotations

import csv
import json
import os

import pytest

from engine.core.errors import RequestError
from engine.data import tables
from engine.data.benchmarks.base import load_benchmark, load_benchmarks, readers
from tests.places import SHARED

REAL = SHARED / "bias_benchmarks"
CROWS = ("", "sent_more", "sent_less", "stereo_antistereo", "bias_type")


def write_crows(path, rows, columns=CROWS):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def bbq_row(number, **more):
    tags = {
        "ans0": ["Jewish", "Jewish"],
        "ans1": ["Can't answer", "unknown"],
        "ans2": ["Muslim", "Muslim"],
    }
    return {
        "example_id": number,
        "question_index": "1",
        "question_polarity": "neg",
        "context_condition": "ambig",
        "category": "Religion",
        "answer_info": tags,
        "additional_metadata": {"stereotyped_groups": ["Muslim"]},
        "context": "Two were seen.",
        "question": "Who?",
        "ans0": "The one",
        "ans1": "Unknown",
        "ans2": "The other",
        "label": 1,
        **more,
    }


def write_lines(path, rows):
    path.write_text(
        "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows),
        encoding="utf-8",
    )
    return path


def stereoset_row(name, **more):
    labels = ("anti-stereotype", "unrelated", "stereotype")
    sentences = [
        {"sentence": f"{name} is {label}.", "gold_label": label, "id": label} for label in labels
    ]
    return {
        "id": name,
        "target": "chess player",
        "bias_type": "profession",
        "context": f"{name} is BLANK.",
        "sentences": sentences,
        **more,
    }


def faults_of(name, path):
    with pytest.raises(RequestError) as raised:
        load_benchmark(name, path)
    return [str(fault) for fault in raised.value.faults]


def test_crows_pairs(tmp_path):
    rows = [
        (0, "They are poor.", "They are rich.", "stereo", "age"),
        (1, "One a", "One b", "antistereo", "gender"),
    ]
    found = load_benchmark("crows_pairs", write_crows(tmp_path / "c.csv", rows))
    assert found.items[["item_id", "group", "kind"]].values.tolist() == [
        ["0", "age", "stereo"],
        ["1", "gender", "antistereo"],
    ]
    assert found.choices["text"].tolist() == ["They are poor.", "They are rich.", "One a", "One b"]
    assert found.choices["role"].tolist() == ["more", "less"] * 2
    other = load_benchmark(
        "crows_pairs",
        write_crows(tmp_path / "d.csv", [*rows[:1], (1, "One A", "b", "stereo", "age")]),
    )
    assert other.digest != found.digest


def test_stereoset_keeps_labels_whatever_their_order_and_scores_after_a_context(tmp_path):
    data = {
        "intrasentence": [stereoset_row("a")],
        "intersentence": [stereoset_row("b", context="He came.")],
    }
    path = tmp_path / "dev.json"
    path.write_text(json.dumps({"version": "1.0", "data": data}), encoding="utf-8")
    found = load_benchmark("stereoset", path)
    assert found.choices["prefix"].tolist() == [""] * 3 + ["He came."] * 3
    assert found.choices[found.choices["role"] == "unrelated"]["text"].tolist() == [
        "a is unrelated.",
        "b is unrelated.",
    ]
    assert found.items["cluster"].nunique() == 1


def test_bbq_finds_the_target_and_the_right_role(tmp_path):
    rows = [
        bbq_row(0),
        bbq_row(1, label=2, context_condition="disambig"),
        bbq_row(2, additional_metadata={"stereotyped_groups": ["Hindu"]}),
    ]
    found = load_benchmark("bbq", write_lines(tmp_path / "Religion.jsonl", rows))
    assert found.items["answer"].tolist() == ["unknown", "target"]
    assert found.choices["text"].tolist()[:3] == ["The other", "The one", "Unknown"]
    assert found.notes == ("1 item is left out: its target cannot be told from the file.",)


@pytest.mark.parametrize(
    ("target", "other", "stereotyped", "group"),
    [
        ("lowSES", "highSES", ["low SES"], "lowSES"),
        ("woman", "M", ["F"], "F"),
        ("F-Black", "F-White", ["African American", "Black"], "Black"),
        ("trans_F", "nonTrans", ["Transgender women"], "trans_F"),
    ],
)
def test_bbq_knows_a_group_however_its_files_spell_it(tmp_path, target, other, stereotyped, group):
    tags = {
        "ans0": ["The one", target],
        "ans1": ["Not known", "unknown"],
        "ans2": ["The other", other],
    }
    rows = [
        bbq_row(at, answer_info=tags, additional_metadata={"stereotyped_groups": stereotyped})
        for at in (0, 1)
    ]
    found = load_benchmark("bbq", write_lines(tmp_path / "one.jsonl", rows))
    assert set(found.items["group"]) == {f"Religion: {group}"} and not found.notes
    assert found.choices.query("role == 'target'")["text"].tolist() == ["The one", "The one"]


def test_winogender_joins_three_pronouns_and_the_share_of_women(tmp_path):
    lines = ["sentid\tsentence"]
    for who in ("male", "female", "neutral"):
        lines += [
            f"nurse.visitor.0.{who}.txt\tThe nurse said {who} came.",
            f"clerk.someone.1.{who}.txt\tA {who} clerk",
        ]
    (tmp_path / "all_sentences.tsv").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "occupations-stats.tsv").write_text(
        "occupation\tbls_pct_female\nnurse\t90.5", encoding="utf-8"
    )
    found = load_benchmark("winogender", tmp_path)
    assert found.items["group"].tolist() == ["the occupation", "the other person"]
    assert found.items["women"].tolist()[0] == 90.5 and found.items["women"].isna().tolist() == [
        False,
        True,
    ]


@pytest.mark.parametrize(
    "name, file, items, clusters",
    [
        ("crows_pairs", "crows_pairs/crows_pairs_anonymized.csv", 1508, 1508),
        ("winogender", "winogender", 240, 60),
        ("bbq", "bbq/Religion.jsonl", 1200, 25),
    ],
)
def test_the_published_files(name, file, items, clusters):
    if not REAL.is_dir():
        pytest.skip(f"{REAL} is not here")
    found = load_benchmark(name, REAL / file)
    assert (len(found.items), found.items["cluster"].nunique()) == (items, clusters)
    assert len(found.choices) == items * len(readers()[name].roles)


def test_a_missing_column_is_named(tmp_path):
    path = write_crows(
        tmp_path / "c.csv", [(0, "a", "b", "age")], ("", "sent_more", "sent_less", "bias_type")
    )
    assert "Columns missing: stereo_antistereo" in faults_of("crows_pairs", path)[0]


def test_every_faulty_row_is_named_at_once(tmp_path):
    rows = [
        (0, "a", "a", "stereo", "age"),
        (1, "", "b", "stereo", "age"),
        (2, "c", "d", "maybe", ""),
        (3, "e" * 10_001, "f", "stereo", "age"),
    ]
    told = " ".join(faults_of("crows_pairs", write_crows(tmp_path / "c.csv", rows)))
    for words in (
        "row 1: Two of its texts",
        "row 2, more: The text is empty",
        "row 3: stereo_antistereo is 'maybe'",
        "row 3: It belongs to no group",
        "row 4, more: The text has 10,001",
    ):
        assert words in told


def test_rows_of_bbq_that_are_no_json_or_lack_a_field_are_named(tmp_path):
    lacking = {name: value for name, value in bbq_row(1).items() if name != "question"}
    rows = [
        bbq_row(0),
        lacking,
        "{broken",
        bbq_row(3, label=7),
        bbq_row(4, answer_info={}),
        "[1]",
        bbq_row(5, context="\ud800"),
    ]
    told = " ".join(faults_of("bbq", write_lines(tmp_path / "r.jsonl", rows)))
    for words in (
        "row 2: question is missing",
        "row 3: Not JSON",
        "row 4: label is '7'",
        "row 5: answer_info",
        "row 6: Not a JSON object",
        "row 7: Not JSON",
    ):
        assert words in told


def test_an_item_without_a_group_is_refused_for_it_would_be_the_row_of_all_items(tmp_path):
    rows = [stereoset_row("a"), stereoset_row("b", bias_type=" ")]
    path = tmp_path / "s.json"
    path.write_text(
        json.dumps({"data": {"intrasentence": rows, "intersentence": []}}), encoding="utf-8"
    )
    (fault,) = faults_of("stereoset", path)
    assert "It belongs to no group" in fault


def test_a_label_or_a_sentence_that_stereoset_lacks_is_named(tmp_path):
    wrong = stereoset_row("a", sentences=[{"sentence": "x", "gold_label": "funny"}])
    path = tmp_path / "dev.json"
    path.write_text(json.dumps({"data": {"intrasentence": [wrong, "no row"]}}), encoding="utf-8")
    told = " ".join(faults_of("stereoset", path))
    assert (
        "intrasentence, row 1: gold_label is 'funny'" in told
        and "intrasentence, row 2: id is missing" in told
    )
    path.write_text('{"data": 3}', encoding="utf-8")
    assert "Columns missing: data" in faults_of("stereoset", path)[0]


def test_winogender_names_ids_and_rows_of_other_forms(tmp_path):
    path = tmp_path / "all_sentences.tsv"
    path.write_text(
        "sentid\tsentence\nnurse.0.male\tx\nnurse.visitor.0.male.txt\ty", encoding="utf-8"
    )
    told = " ".join(faults_of("winogender", path))
    assert "row 1: sentid is 'nurse.0.male'" in told and "row 2, female: The text is empty" in told
    path.write_text("sentid\tsentence\nnurse.visitor.0.male.txt", encoding="utf-8")
    assert "row 1: It has 1 fields where 2 are needed" in faults_of("winogender", path)[0]


def test_files_that_are_absent_empty_huge_or_of_an_unknown_name(tmp_path, monkeypatch):
    empty = tmp_path / "empty.csv"
    empty.write_text(" ", encoding="utf-8")
    with pytest.raises(RequestError) as raised:
        load_benchmarks({"crows_pairs": str(empty), "bbq": str(tmp_path / "none"), "glue": "x"})
    told = [str(fault) for fault in raised.value.faults]
    assert (
        "no such file" in told[0]
        and "The file is empty" in told[1]
        and "'glue' is not known" in told[2]
    )
    monkeypatch.setattr(tables, "MAX_FILE", 10)
    assert (
        "At most"
        in faults_of(
            "crows_pairs", write_crows(tmp_path / "c.csv", [(0, "a", "b", "stereo", "age")])
        )[0]
    )


def test_files_made_to_break_a_reader_are_refused_in_words(tmp_path):
    """A million columns, numbers of thousands of digits, names as long as books, a home of nobody,
    a pipe."""
    path = tmp_path / "hostile"
    path.write_text(",".join(f"c{at}" for at in range(1_000_000)) + "\n1\n", encoding="utf-8")
    assert "1,000,000 columns" in faults_of("crows_pairs", path)[0]
    path.write_text('{"label": ' + "9" * 5000 + "}\n", encoding="utf-8")
    assert (
        "row 1: Not JSON" in faults_of("bbq", path)[0]
        and "Not JSON" in faults_of("stereoset", path)[0]
    )
    write_crows(path, [(at, "a", "b", "stereo", "t" * 10**5) for at in range(2)])
    assert "row 1: The group has 100,000 characters" in faults_of("crows_pairs", path)[0]
    os.mkfifo(tmp_path / "pipe")
    for other in ("~nobody_of_this_name/x", str(tmp_path / "pipe"), "/" + "x" * 5000):
        assert faults_of("winogender", other)


def test_more_faults_than_can_be_read_are_counted(tmp_path):
    told = faults_of(
        "crows_pairs",
        write_crows(tmp_path / "c.csv", [(at, "a", "a", "stereo", "age") for at in range(30)]),
    )
    assert len(told) == 21 and "10 more rows have faults" in told[-1]
