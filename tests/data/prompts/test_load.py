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
