"""Every reader on a tiny file of the published form, on the real files where they are, and on files
with faults."""

import csv
import json
import os

import pytest

from engine.data import tables
from engine.data.benchmarks.base import load_benchmark, load_benchmarks, readers
from tests.builders import refused
from tests.places import SHARED

REAL = SHARED / "bias_benchmarks"
CROWS = ("", "sent_more", "sent_less", "stereo_antistereo", "bias_type")


@pytest.fixture
def crows(tmp_path):
    """A file of CrowS-Pairs with these rows, numbered."""

    def written(*rows, columns=CROWS):
        with (tmp_path / "c.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([columns, *((at, *row) for at, row in enumerate(rows))])
        return tmp_path / "c.csv"

    return written


@pytest.fixture
def bbq(tmp_path):
    """A file of BBQ with these rows; each a text, or the fields that differ from a sound one."""

    def written(*rows):
        lines = [
            row if isinstance(row, str) else json.dumps(bbq_row(at, **row))
            for at, row in enumerate(rows)
        ]
        (tmp_path / "r.jsonl").write_text("\n".join(lines), encoding="utf-8")
        return tmp_path / "r.jsonl"

    return written


def bbq_row(number, **more):
    tags = {"ans0": ["Jewish"] * 2, "ans1": ["Can't answer", "unknown"], "ans2": ["Muslim"] * 2}
    row = {
        "example_id": number,
        "question_index": "1",
        "question_polarity": "neg",
        "context_condition": "ambig",
        "category": "Religion",
        "answer_info": tags,
        **stereotyped("Muslim"),
        "context": "Two were seen.",
        "question": "Who?",
        "ans0": "The one",
        "ans1": "Unknown",
        "ans2": "The other",
        "label": 1,
        **more,
    }
    return {name: value for name, value in row.items() if value is not None}


def stereotyped(*groups):
    return {"additional_metadata": {"stereotyped_groups": list(groups)}}


@pytest.fixture
def stereoset(tmp_path):
    """A file of StereoSet with these lists of rows."""

    def written(**data):
        text = json.dumps({"version": "1.0", "data": data})
        (tmp_path / "dev.json").write_text(text, encoding="utf-8")
        return tmp_path / "dev.json"

    return written


def stereoset_row(name, **more):
    labels = ("anti-stereotype", "unrelated", "stereotype")
    row = {"id": name, "target": "chess player", "bias_type": "profession"}
    row |= {"context": f"{name} is BLANK."}
    row |= {"sentences": [{"sentence": f"{name} is {one}.", "gold_label": one} for one in labels]}
    return row | more


@pytest.fixture
def winogender(tmp_path):
    """A file of Winogender with these lines."""

    def written(*lines):
        path = tmp_path / "all_sentences.tsv"
        path.write_text("\n".join(["sentid\tsentence", *lines]), encoding="utf-8")
        return path

    return written


def faults_of(name, path):
    return refused(load_benchmark, name, path)


def test_crows_pairs(crows):
    first = ("They are poor.", "They are rich.", "stereo", "age")
    found = load_benchmark("crows_pairs", crows(first, ("One a", "One b", "antistereo", "gender")))
    columns = found.items[["item_id", "group", "kind"]].values.tolist()
    assert columns == [["0", "age", "stereo"], ["1", "gender", "antistereo"]]
    assert found.choices["text"].tolist() == [*first[:2], "One a", "One b"]
    assert found.choices["role"].tolist() == ["more", "less"] * 2
    other = load_benchmark("crows_pairs", crows(first, ("One A", "b", "stereo", "age")))
    assert other.digest != found.digest


def test_stereoset_keeps_labels_whatever_their_order_and_scores_after_a_context(stereoset):
    after = stereoset_row("b", context="He came.")
    path = stereoset(intrasentence=[stereoset_row("a")], intersentence=[after])
    found = load_benchmark("stereoset", path)
    assert found.choices["prefix"].tolist() == [""] * 3 + ["He came."] * 3
    unrelated = found.choices[found.choices["role"] == "unrelated"]
    assert unrelated["text"].tolist() == ["a is unrelated.", "b is unrelated."]
    assert found.items["cluster"].nunique() == 1


def test_bbq_finds_the_target_and_the_right_role(bbq):
    told = {"label": 2, "context_condition": "disambig"}
    found = load_benchmark("bbq", bbq({}, told, stereotyped("Hindu")))
    assert found.items["answer"].tolist() == ["unknown", "target"]
    assert found.choices["text"].tolist()[:3] == ["The other", "The one", "Unknown"]
    assert found.notes == ("1 item is left out: its target cannot be told from the file.",)


@pytest.mark.parametrize(
    ("target", "other", "named", "group"),
    [
        ("lowSES", "highSES", ["low SES"], "lowSES"),
        ("woman", "M", ["F"], "F"),
        ("F-Black", "F-White", ["African American", "Black"], "Black"),
        ("trans_F", "nonTrans", ["Transgender women"], "trans_F"),
    ],
)
def test_bbq_knows_a_group_however_its_files_spell_it(bbq, target, other, named, group):
    tags = {"ans0": ["The one", target], "ans1": ["No", "unknown"], "ans2": ["The other", other]}
    row = {"answer_info": tags, **stereotyped(*named)}
    found = load_benchmark("bbq", bbq(row, row))
    assert set(found.items["group"]) == {f"Religion: {group}"} and not found.notes
    assert found.choices.query("role == 'target'")["text"].tolist() == ["The one", "The one"]


def test_winogender_joins_three_pronouns_and_the_share_of_women(winogender, tmp_path):
    lines = []
    for who in ("male", "female", "neutral"):
        lines.append(f"nurse.visitor.0.{who}.txt\tThe nurse said {who} came.")
        lines.append(f"clerk.someone.1.{who}.txt\tA {who} clerk")
    winogender(*lines)
    stats = "occupation\tbls_pct_female\nnurse\t90.5"
    (tmp_path / "occupations-stats.tsv").write_text(stats, encoding="utf-8")
    found = load_benchmark("winogender", tmp_path)
    assert found.items["group"].tolist() == ["the occupation", "the other person"]
    assert found.items["women"].fillna(-1).tolist() == [90.5, -1]
    (tmp_path / "occupations-stats.tsv").write_text(f"{stats}\nclerk\tmany", encoding="utf-8")
    (fault,) = faults_of("winogender", tmp_path)
    assert "row 2: bls_pct_female is 'many'" in fault


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


def test_every_faulty_row_of_crows_pairs_is_named_at_once(crows):
    rows = [
        ("a", "a", "stereo", "age"),
        ("", "b", "stereo", "age"),
        ("c", "d", "maybe", ""),
        ("e" * 10_001, "f", "stereo", "age"),
    ]
    told = " ".join(faults_of("crows_pairs", crows(*rows)))
    for words in (
        "row 1: Two of its texts",
        "row 2, more: The text is empty",
        "row 3: stereo_antistereo is 'maybe'",
        "row 3: It belongs to no group",
        "row 4, more: The text has 10,001",
    ):
        assert words in told
    path = crows(("a", "b", "age"), columns=("", "sent_more", "sent_less", "bias_type"))
    assert "Columns missing: stereo_antistereo" in faults_of("crows_pairs", path)[0]
    told = faults_of("crows_pairs", crows(*[("a", "a", "stereo", "age")] * 30))
    assert len(told) == 21 and "10 more faults in its rows" in told[-1]


def test_rows_of_bbq_that_are_no_json_or_lack_a_field_are_named(bbq):
    rows = ({}, {"question": None}, "{broken", {"label": 7}, {"answer_info": {}}, "[1]")
    told = " ".join(faults_of("bbq", bbq(*rows, {"context": "\ud800"})))
    for words in (
        "row 2: question is missing",
        "row 3: Not JSON",
        "row 4: label is '7'",
        "row 5: answer_info",
        "row 6: Not a JSON object",
        "row 7: Not JSON",
    ):
        assert words in told


def test_a_group_a_label_or_a_sentence_that_stereoset_lacks_is_named(stereoset):
    rows = [stereoset_row("a"), stereoset_row("b", bias_type=" ")]
    # it would be the row of all items
    (fault,) = faults_of("stereoset", stereoset(intrasentence=rows, intersentence=[]))
    assert "It belongs to no group" in fault
    wrong = stereoset_row("a", sentences=[{"sentence": "x", "gold_label": "funny"}])
    told = " ".join(faults_of("stereoset", stereoset(intrasentence=[wrong, "no row"])))
    assert "intrasentence, row 1: gold_label is 'funny'" in told
    assert "intrasentence, row 2: id is missing" in told
    assert "Columns missing: data" in faults_of("stereoset", stereoset(other=[]))[0]


def test_winogender_names_ids_and_rows_of_other_forms(winogender):
    path = winogender("nurse.0.male\tx", "nurse.visitor.0.male.txt\ty", "nurse.visitor.0.male.txt")
    told = " ".join(faults_of("winogender", path))
    for words in (
        "row 1: sentid is 'nurse.0.male'",
        "row 2, female: The text is empty",
        "row 3: It has 1 fields where 2 are needed",
    ):
        assert words in told


def test_files_that_are_absent_empty_huge_or_of_an_unknown_name(crows, tmp_path, monkeypatch):
    (tmp_path / "empty.csv").write_text(" ", encoding="utf-8")
    asked = {"crows_pairs": tmp_path / "empty.csv", "bbq": tmp_path / "none", "glue": "x"}
    absent, empty, unknown = refused(load_benchmarks, asked)
    assert "no such file" in absent and "The file is empty" in empty
    assert "'glue' is not known" in unknown
    monkeypatch.setattr(tables, "MAX_FILE", 10)
    assert "At most" in faults_of("crows_pairs", crows(("a", "b", "stereo", "age")))[0]


def test_files_made_to_break_a_reader_are_refused_in_words(crows, tmp_path):
    """A million columns, numbers of thousands of digits, names as long as books, a home of nobody,
    a pipe."""
    path = tmp_path / "hostile"
    path.write_text(",".join(f"c{at}" for at in range(1_000_000)) + "\n1\n", encoding="utf-8")
    assert "1,000,000 columns" in faults_of("crows_pairs", path)[0]
    path.write_text('{"label": ' + "9" * 5000 + "}\n", encoding="utf-8")
    assert "row 1: Not JSON" in faults_of("bbq", path)[0]
    assert "Not JSON" in faults_of("stereoset", path)[0]
    path = crows(*[("a", "b", "stereo", "t" * 10**5)] * 2)
    assert "row 1: The group has 100,000 characters" in faults_of("crows_pairs", path)[0]
    os.mkfifo(tmp_path / "pipe")
    for other in ("~nobody_of_this_name/x", str(tmp_path / "pipe"), "/" + "x" * 5000):
        assert faults_of("winogender", other)
