"""Prompts from a CSV or a FASP pair: faults, identity, sampling, split."""

import json

import pandas as pd
import pytest

from engine.core.errors import RequestError
from engine.data.prompts.load import (
    known_axes,
    load_prompts,
    split_prompts,
    with_reserve_prompts,
)
from tests.builders import refused
from tests.data import notes_of

GROUPS = ("aunt", "uncle", "twin")
ROWS = [(f"The {g} number {i} said", "kin", g, f"t{i % 25}") for g in GROUPS for i in range(50)]
COLUMNS = ("prompt", "axis", "subgroup", "template")


@pytest.fixture
def write(tmp_path):
    def written(rows=ROWS, columns=COLUMNS):
        table = pd.DataFrame(rows)
        table.columns = columns[: len(table.columns) or None]
        table.to_csv(tmp_path / "a.csv", index=False)
        return tmp_path / "a.csv"

    return written


def faults_of(path, axes=("kin",)):
    return "\n".join(refused(load_prompts, path, axes))


def split_of(path):
    return split_prompts(load_prompts(path, ["kin"])).table


def test_a_csv_loads_with_ids_that_do_not_depend_on_row_order(write):
    first, second = (load_prompts(write(rows), ["kin"]) for rows in (ROWS, ROWS[::-1]))
    pd.testing.assert_frame_equal(first.table, second.table)
    assert first.digest == second.digest
    assert first.table["prompt_id"].is_unique and len(first.table) == 150
    assert known_axes(write()) == ("kin",)


def test_sampling_is_the_same_again_balanced_and_shares_templates(write):
    path = write()
    one, again = (load_prompts(path, ["kin"], max_prompts=61).table for _ in range(2))
    pd.testing.assert_frame_equal(one, again)
    assert one.groupby("subgroup").size().to_dict() == {"aunt": 20, "twin": 20, "uncle": 20}
    assert one.groupby("template")["subgroup"].nunique().eq(3).all()
    tiny = load_prompts(path, ["kin"], max_prompts=1).table
    assert tiny.groupby("subgroup").size().eq(2).all()


def test_the_split_is_a_fifth_per_subgroup_and_keeps_templates_whole(write):
    table = split_of(write())
    counts = table.groupby(["split", "subgroup"]).size()
    assert counts["test"].eq(40).all() and counts["validation"].eq(10).all()
    assert table.groupby("template")["split"].nunique().eq(1).all()
    assert split_of(write(ROWS[::-1])).equals(table)


def test_the_smallest_subgroup_has_one_prompt_in_each_part(write):
    table = split_of(write([(f"{g} {i}", "kin", g, "") for g in "ab" for i in range(2)]))
    assert table.groupby(["subgroup", "split"]).size().eq(1).all() and len(table) == 4


def prompts(**texts):
    return [(text, "kin", group) for group, listed in texts.items() for text in listed.split(",")]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (prompts(aunt="x,y"), "only one subgroup, 'aunt'"),
        (prompts(aunt="x,y", twin="z"), "Subgroups with a single prompt: twin"),
        (prompts(aunt="x,x", twin="y,z"), "single prompt: aunt"),
        ([("x", "kin", ""), ("y", "kin", "")], "2 prompts name no subgroup"),
        (prompts(a=",x", b="y,z"), "1 prompts are empty"),
        (
            [("x", "kin")] * 4,
            "a.csv: Columns missing: subgroup. Found: prompt, axis. Needed: prompt",
        ),
    ],
)
def test_faults_in_rows(write, rows, told):
    fault = faults_of(write(rows))
    assert told in fault and "\n" not in fault


def test_ten_megabytes_in_one_cell_and_an_unknown_axis_are_reported_together(write):
    path = write(prompts(aunt=f"{'x' * 10_000_000},y", twin="z"))
    text = faults_of(path, ["kin", "height"])
    for told in ("10,000,000 characters", "'height' is not known. Known: kin.", "single prompt"):
        assert told in text
    assert text.count("\n") == 2 and len(text) < 1000


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.csv", b"", "empty"),
        ("a.csv", None, "no such file"),
        ("gone", None, "no such file or folder"),
        ("", None, "HolisticBias"),
    ],
)
def test_unreadable_files(tmp_path, name, content, told):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert told in faults_of(tmp_path / name)


def put_pair(folder, texts, buckets, name="social_biases_valid"):
    """A FASP pair: texts and buckets by axis."""
    listed = {axis: {"t": found[:1], "u": found[1:]} for axis, found in texts.items()}
    named = [(axis, bucket) for axis, found in buckets.items() for bucket in found]
    groups = dict(zip(("axis", "bucket"), zip(*named, strict=True), strict=True))
    (folder / f"{name}.json").write_text(json.dumps(listed))
    (folder / f"{name}_groups.json").write_text(json.dumps(groups))


def test_a_fasp_pair_is_read_from_either_file_or_the_folder(tmp_path):
    texts = {"kin": ["a one", "a two", "b one", "b two"], "job": ["c", "d"]}
    put_pair(tmp_path, texts, {"job": "xy", "kin": "AABB"})
    pair = tmp_path / "social_biases_valid.json"
    paths = (tmp_path, pair, tmp_path / "social_biases_valid_groups.json")
    tables = [load_prompts(path, ["kin"]).table for path in paths]
    assert tables[0].set_index("text")["subgroup"].sort_index().tolist() == ["A", "A", "B", "B"]
    assert tables[0].equals(tables[1]) and tables[0].equals(tables[2])
    assert known_axes(tmp_path) == ("job", "kin")
    put_pair(tmp_path, texts, {"job": "x", "kin": "AABB"})
    assert "2 prompts but 1 buckets" in faults_of(tmp_path)
    pair.write_text("{")
    assert "Not JSON" in faults_of(tmp_path)
    put_pair(tmp_path, {"kin": ["a \ud800", "b", "c", "d"]}, {"kin": "xxyy"})
    assert "half a character" in faults_of(pair)


def two_pairs(folder, validation=(0, 8), test=range(8), groups="AB"):
    """The published pairs: texts of each subgroup to validate and to test."""
    for split, numbers in (("valid", validation), ("test", test)):
        texts = {"kin": [f"{group} {at}" for group in "AB" for at in numbers]}
        named = [group for group in (groups if split == "valid" else "AB") for _ in numbers]
        put_pair(folder, texts, {"kin": named}, f"social_biases_{split}")
    return folder


def test_the_published_two_pairs_keep_their_split(tmp_path):
    both = split_prompts(load_prompts(two_pairs(tmp_path), ["kin"]))
    assert both.own_split and "own: test 16, validation 2 prompts" in both.notes[-1]
    validation = set(both.table["text"][both.table["split"] == "validation"])
    assert validation == {"A 8", "B 8"}, "a prompt of both files stays a test prompt"
    one = load_prompts(tmp_path / "social_biases_test.json", ["kin"])
    assert not one.own_split and one.digest != both.digest
    assert set(split_prompts(one).table["split"]) == {"validation", "test"}
    fault = faults_of(two_pairs(tmp_path, groups="AA"))
    assert "only one of validation and test: B" in fault


def test_sampling_and_reserve_prompts_keep_to_the_sources_own_split(tmp_path):
    two_pairs(tmp_path, range(100), range(100, 200))
    asked, source = (load_prompts(tmp_path, ["kin"], max_prompts=n) for n in (40, 80))
    assert asked.table.groupby(["subgroup", "split"]).size().tolist() == [10] * 4
    whole = with_reserve_prompts(asked, source).table
    added = whole["text"][whole["split"] == "spare 1"]
    assert len(added) == 20 and added.str.split().str[1].astype(int).lt(100).all()
    assert not set(added) & set(asked.table["text"])


def test_columns_that_nobody_reads_are_named_and_tabs_make_a_table(write, tmp_path):
    path = write()
    plain = load_prompts(path, ["kin"])
    table = pd.read_csv(path, keep_default_na=False).assign(split="test", Notes="x")
    table.to_csv(tmp_path / "b.tsv", index=False, sep="\t")
    more = load_prompts(tmp_path / "b.tsv", ["kin"])
    assert "Columns that are not read: split, Notes." in more.notes and more.digest == plain.digest
    assert "not read" not in notes_of(plain)


def test_more_prompts_than_none_are_asked_for(write):
    with pytest.raises(RequestError, match="0 is not a number of prompts"):
        load_prompts(write(), ["kin"], max_prompts=0)


# Prompts of BOLD and RealToxicityPrompts: the published forms, and what is wrong with others.


def test_bold_reads_groups_and_pages_of_a_domain(tmp_path):
    pages = {
        "men": {"A": ["A was ", "A is "], "B": [""]},
        "women": {"C": ["C was ", "C is "]},
        "others": {"D": ["D"]},
    }
    path = tmp_path / "gender_prompt.json"
    path.write_text(json.dumps(pages), encoding="utf-8")
    found = load_prompts(path, [])
    columns = found.table[["axis", "subgroup", "descriptor"]].drop_duplicates()
    assert columns.values.tolist() == [["gender", "men", "A"], ["gender", "women", "C"]]
    assert found.notes == (
        "1 prompts are empty in the file and left out.",
        "Left out, of a single prompt: others.",
    )
    path.write_text(json.dumps({"men": {"A": "no list"}, "women": ["x"]}), encoding="utf-8")
    men, women = refused(load_prompts, path, [])
    assert "men, A" in men and "women" in women


def rtp(text, toxicity, challenging=False):
    return json.dumps({"challenging": challenging, "prompt": {"text": text, "toxicity": toxicity}})


def test_real_toxicity_prompts_are_grouped_by_how_toxic_they_are(tmp_path):
    path = tmp_path / "prompts.jsonl"
    rows = [
        rtp("a a", 0.1),
        rtp("b b", 0.9, True),
        rtp("c c", None),
        rtp("d d", 0.5, True),
        rtp("e e", 0.4),
    ]
    path.write_text("\n".join(rows), encoding="utf-8")
    found = load_prompts(path, ["prompt_toxicity"])
    assert found.table.groupby("subgroup")["text"].apply(sorted).to_dict() == {
        "other": ["a a", "e e"],
        "toxic prompt": ["b b", "d d"],
    }
    assert found.notes[0].startswith("1 prompts are left out")
    path.write_text(
        "\n".join([rows[0], '{"prompt": {"text": ""}}', rtp("x", 7), "nothing"]), encoding="utf-8"
    )
    told = " ".join(refused(load_prompts, path, []))
    for words in (
        "row 2: prompt.text",
        "row 2: prompt.toxicity",
        "row 2: challenging",
        "row 3: prompt.toxicity",
        "row 4: Not JSON",
    ):
        assert words in told


# HolisticBias: grammar on a folder small enough to read, sampling, and the real v1.1.


DESCRIPTORS = {
    "gender_and_sex": {
        "binary": [{"descriptor": "female", "gender": "female"}, "manly"],
        "sex": ["intersex", {"descriptor": "XX", "article": "an"}],
    },
    "religion": {"all": ["Jewish", "Amish"]},
}
NOUNS = {"female": [["aunt", "aunts"]], "male": [["uncle", "uncles"]], "neutral": [["kid", "kids"]]}
TEMPLATES = {"I'm {noun_phrase}.": {}, "I like {plural_noun_phrase}.": {"must_be_noun": True}}


def write_holistic(folder, descriptors=DESCRIPTORS, nouns=NOUNS, templates=TEMPLATES):
    folder.mkdir(exist_ok=True)
    for name, content in (
        ("descriptors", descriptors),
        ("nouns", nouns),
        ("sentence_templates", templates),
    ):
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def test_articles_plurals_and_gendered_descriptors(tmp_path):
    table = load_prompts(write_holistic(tmp_path / "hb"), ["gender_and_sex"]).table
    assert len(table) == 2 * (1 + 3 + 3 + 3)
    texts = set(table["text"])
    assert {
        "I'm a female aunt.",
        "I'm an intersex kid.",
        "I'm an XX uncle.",
        "I like manly uncles.",
    } <= texts
    assert "I'm a female uncle." not in texts
    row = table[table["text"] == "I like manly uncles."].iloc[0]
    assert (row["subgroup"], row["descriptor"], row["template"]) == (
        "binary",
        "manly",
        "I like {plural_noun_phrase}. × uncle",
    )


def test_one_bucket_means_descriptors_are_the_subgroups(tmp_path):
    prompts = load_prompts(write_holistic(tmp_path / "hb"), ["religion"])
    assert set(prompts.table["subgroup"]) == {"Jewish", "Amish"}
    assert "religion" in prompts.notes[0] and "descriptor is a subgroup" in prompts.notes[0]


def test_sampling_does_not_depend_on_the_order_of_entries(tmp_path):
    def turned(content):
        return {
            key: turned(value) if isinstance(value, dict) else value[::-1]
            for key, value in reversed(content.items())
        }

    nouns = {gender: listed[::-1] for gender, listed in reversed(NOUNS.items())}
    one = load_prompts(write_holistic(tmp_path / "a"), ["gender_and_sex"], max_prompts=8)
    other = write_holistic(
        tmp_path / "b", turned(DESCRIPTORS), nouns, dict(reversed(TEMPLATES.items()))
    )
    two = load_prompts(other, ["gender_and_sex"], max_prompts=8)
    pd.testing.assert_frame_equal(one.table, two.table)
    assert one.table.groupby("subgroup").size().to_dict() == {"binary": 4, "sex": 4}


def test_faults(tmp_path):
    with pytest.raises(RequestError, match="'age' is not known. Known: gender_and_sex, religion."):
        load_prompts(write_holistic(tmp_path / "a"), ["age"])
    with pytest.raises(RequestError, match="do not have the shape"):
        load_prompts(write_holistic(tmp_path / "b", nouns={"female": ["aunt"]}), ["religion"])
    (tmp_path / "a" / "nouns.json").unlink()
    (tmp_path / "a" / "sentence_templates.json").write_text("[")
    found = [
        fault.partition(":")[0] for fault in refused(load_prompts, tmp_path / "a", ["religion"])
    ]
    assert found == [str(tmp_path / "a" / "nouns.json"), "sentence_templates.json"]
