"""Prompts from a CSV: faults, identity, sampling, split."""

import json

import pandas as pd
import pytest

from engine.core.errors import RequestError
from engine.data.prompts.load import known_axes, load_prompts, split_prompts, with_reserve_prompts
from tests.data import notes_of

ROWS = [
    (f"The {group} number {i} said", "kin", group, f"t{i % 25}")
    for group in ("aunt", "uncle", "twin")
    for i in range(50)
]


def write(path, rows=ROWS, columns=("prompt", "axis", "subgroup", "template")):
    pd.DataFrame(rows, columns=list(columns)).to_csv(path, index=False)
    return path


def faults_of(path, axes=("kin",)):
    with pytest.raises(RequestError) as caught:
        load_prompts(path, axes)
    return "\n".join(map(str, caught.value.faults)), len(caught.value.faults)


def test_a_csv_loads_with_ids_that_do_not_depend_on_row_order(tmp_path):
    first = load_prompts(write(tmp_path / "a.csv"), ["kin"])
    second = load_prompts(write(tmp_path / "b.csv", ROWS[::-1]), ["kin"])
    pd.testing.assert_frame_equal(first.table, second.table)
    assert first.digest == second.digest
    assert first.table["prompt_id"].is_unique and len(first.table) == 150
    assert known_axes(tmp_path / "a.csv") == ("kin",)


def test_sampling_is_seeded_balanced_and_shares_templates(tmp_path):
    path = write(tmp_path / "a.csv")
    one, again, other = (
        load_prompts(path, ["kin"], seed=seed, max_prompts=61).table for seed in (1, 1, 2)
    )
    pd.testing.assert_frame_equal(one, again)
    assert set(one["prompt_id"]) != set(other["prompt_id"])
    assert one.groupby("subgroup").size().to_dict() == {"aunt": 20, "twin": 20, "uncle": 20}
    assert one.groupby("template")["subgroup"].nunique().eq(3).all()
    tiny = load_prompts(path, ["kin"], max_prompts=1).table
    assert tiny.groupby("subgroup").size().eq(2).all()


def test_the_split_is_a_fifth_per_subgroup_and_keeps_templates_whole(tmp_path):
    prompts = split_prompts(load_prompts(write(tmp_path / "a.csv"), ["kin"]), seed=3)
    counts = prompts.table.groupby(["subgroup", "split"]).size()
    assert counts.to_dict() == {
        (g, s): n for g in ("aunt", "twin", "uncle") for s, n in (("test", 40), ("validation", 10))
    }
    assert prompts.table.groupby("template")["split"].nunique().eq(1).all()
    again = split_prompts(load_prompts(write(tmp_path / "b.csv", ROWS[::-1]), ["kin"]), seed=3)
    assert again.table["split"].tolist() == prompts.table["split"].tolist()
    assert split_prompts(prompts, seed=4).table["split"].tolist() != prompts.table["split"].tolist()


def test_the_smallest_subgroup_has_one_prompt_in_each_part(tmp_path):
    rows = [(f"{g} {i}", "kin", g, "") for g in "ab" for i in range(2)]
    table = split_prompts(load_prompts(write(tmp_path / "a.csv", rows), ["kin"]), seed=0).table
    assert table.groupby(["subgroup", "split"]).size().eq(1).all() and len(table) == 4


def test_missing_subgroup_column(tmp_path):
    text, count = faults_of(write(tmp_path / "a.csv", [("x", "kin")] * 4, ("prompt", "axis")))
    expected = (
        "a.csv: Columns missing: subgroup. Found: prompt, axis. Needed: prompt, axis, subgroup."
    )
    assert (text, count) == (expected, 1)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("x", "kin", "aunt"), ("y", "kin", "aunt")], "only one subgroup, 'aunt'"),
        (
            [("x", "kin", "aunt"), ("y", "kin", "aunt"), ("z", "kin", "twin")],
            "Subgroups with a single prompt: twin",
        ),
        ([("x", "kin", ""), ("y", "kin", "")], "2 prompts name no subgroup"),
        ([], "no rows"),
        (
            [("", "kin", "a"), ("x", "kin", "a"), ("y", "kin", "b"), ("z", "kin", "b")],
            "1 prompts are empty",
        ),
    ],
)
def test_faults_in_rows(tmp_path, rows, said):
    assert said in faults_of(write(tmp_path / "a.csv", rows, ("prompt", "axis", "subgroup")))[0]


def test_repeats_do_not_count_as_two_prompts(tmp_path):
    rows = [("x", "kin", "aunt")] * 2 + [("y", "kin", "twin"), ("z", "kin", "twin")]
    assert (
        "single prompt: aunt"
        in faults_of(write(tmp_path / "a.csv", rows, ("prompt", "axis", "subgroup")))[0]
    )


def test_ten_megabytes_in_one_cell_and_an_unknown_axis_are_reported_together(tmp_path):
    rows = [("x" * 10_000_000, "kin", "aunt"), ("y", "kin", "aunt"), ("z", "kin", "twin")]
    text, count = faults_of(
        write(tmp_path / "a.csv", rows, ("prompt", "axis", "subgroup")), ["kin", "height"]
    )
    assert count == 3
    assert (
        "10,000,000 characters" in text
        and "'height' is not known. Known: kin." in text
        and "single prompt" in text
    )
    assert len(text) < 1000


def test_unreadable_files(tmp_path):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "latin.csv").write_bytes("prompt,axis,subgroup\ncafé,kin,aunt\n".encode("latin-1"))
    (tmp_path / "zero.csv").write_bytes(b"prompt,axis,subgroup\nx\0,kin,aunt\n")
    assert "zero byte in line 2" in faults_of(tmp_path / "zero.csv")[0]
    assert "empty" in faults_of(tmp_path / "empty.csv")[0]
    assert "UTF-8" in faults_of(tmp_path / "latin.csv")[0]
    assert "no such file" in faults_of(tmp_path / "gone.csv")[0]
    assert "no such file or folder" in faults_of(tmp_path / "gone")[0]
    assert "HolisticBias" in faults_of(tmp_path)[0]


def test_a_fasp_pair_is_read_from_either_file_or_the_folder(tmp_path):
    prompts = {"kin": {"t": ["a one", "a two"], "u": ["b one", "b two"]}, "job": {"t": ["c", "d"]}}
    groups = {
        "axis": ["kin", "kin", "job", "kin", "kin", "job"],
        "bucket": ["A", "A", "x", "B", "B", "y"],
    }
    (tmp_path / "social_biases_valid.json").write_text(json.dumps(prompts))
    (tmp_path / "social_biases_valid_groups.json").write_text(json.dumps(groups))
    tables = [
        load_prompts(path, ["kin"]).table
        for path in (
            tmp_path,
            tmp_path / "social_biases_valid.json",
            tmp_path / "social_biases_valid_groups.json",
        )
    ]
    assert dict(zip(tables[0]["text"], tables[0]["subgroup"], strict=True)) == {
        "a one": "A",
        "a two": "A",
        "b one": "B",
        "b two": "B",
    }
    pd.testing.assert_frame_equal(tables[0], tables[1])
    pd.testing.assert_frame_equal(tables[0], tables[2])
    assert known_axes(tmp_path) == ("job", "kin")
    groups["bucket"].pop(), groups["axis"].pop()
    (tmp_path / "social_biases_valid_groups.json").write_text(json.dumps(groups))
    assert "2 prompts but 1 buckets" in faults_of(tmp_path)[0]
    (tmp_path / "social_biases_valid.json").write_text("{")
    assert "Not JSON" in faults_of(tmp_path)[0]


def two_pairs(folder, **valid):
    """The published pairs: eight prompts of each subgroup to test, two to validate, one of them in
    both."""
    for split, numbers in (("valid", (0, 8)), ("test", range(8))):
        texts = {group: [f"{group} {at}" for at in numbers] for group in "AB"}
        buckets = [group for group in "AB" for _ in numbers]
        stem = folder / f"social_biases_{split}"
        stem.with_suffix(".json").write_text(json.dumps({"kin": texts}))
        stem.with_name(f"{stem.name}_groups.json").write_text(
            json.dumps(
                {"axis": ["kin"] * len(buckets), "bucket": buckets}
                | (valid if split == "valid" else {})
            )
        )
    return folder


def test_the_published_two_pairs_keep_their_split(tmp_path):
    prompts = split_prompts(load_prompts(two_pairs(tmp_path), ["kin"]), seed=0)
    assert prompts.own_split and "own: test 16, validation 2 prompts" in prompts.notes[-1]
    found = prompts.table.set_index("text")["split"]
    assert set(found[found == "validation"].index) == {
        "A 8",
        "B 8",
    }, "a prompt of both files stays a test prompt"
    one = load_prompts(tmp_path / "social_biases_test.json", ["kin"])
    assert (
        not one.own_split
        and one.digest != prompts.digest
        and set(split_prompts(one, 0).table["split"]) == {"validation", "test"}
    )


def test_sampling_and_spares_keep_to_the_sources_own_split(tmp_path):
    texts = {"kin": {group: [f"{group} {at}" for at in range(100)] for group in "AB"}}
    for split, marks in (("dev", "?"), ("test", "!")):
        marked = {
            "kin": {
                group: [text + marks for text in listed] for group, listed in texts["kin"].items()
            }
        }
        (tmp_path / f"p_{split}.json").write_text(json.dumps(marked))
        (tmp_path / f"p_{split}_groups.json").write_text(
            json.dumps({"axis": ["kin"] * 200, "bucket": ["A"] * 100 + ["B"] * 100})
        )
    asked, source = (load_prompts(tmp_path, ["kin"], max_prompts=n) for n in (40, 80))
    assert asked.table.groupby(["subgroup", "split"]).size().tolist() == [10] * 4
    spare = with_reserve_prompts(asked, source).table
    added = spare[spare["split"] == "spare 1"]
    assert len(added) == 20 and added["text"].str.endswith("?").all()
    assert not set(added["text"]) & set(asked.table["text"])


def test_a_subgroup_without_validation_prompts_is_named(tmp_path):
    assert (
        "only one of validation and test: B" in faults_of(two_pairs(tmp_path, bucket=["A"] * 4))[0]
    )


def test_columns_named_twice_are_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("Prompt,prompt,axis,subgroup\na,b,kin,aunt\n")
    assert "Columns named twice: prompt" in faults_of(path)[0]


def test_half_characters_are_refused(tmp_path):
    texts = {"kin": {"t": ["a \ud800", "b", "c", "d"]}}
    (tmp_path / "p.json").write_text(json.dumps(texts))
    (tmp_path / "p_groups.json").write_text(
        json.dumps({"axis": ["kin"] * 4, "bucket": ["x", "x", "y", "y"]})
    )
    with pytest.raises(RequestError, match="half a character"):
        load_prompts(tmp_path / "p.json", ["kin"])


def test_columns_that_nobody_reads_are_named_and_tabs_make_a_table(tmp_path):
    path = write(tmp_path / "a.csv")
    plain = load_prompts(path, ["kin"])
    table = pd.read_csv(path, keep_default_na=False).assign(split="test", Notes="x")
    table.to_csv(tmp_path / "b.tsv", index=False, sep="\t")
    more = load_prompts(tmp_path / "b.tsv", ["kin"])
    assert "Columns that are not read: split, Notes." in more.notes and more.digest == plain.digest
    assert "not read" not in notes_of(plain)
