"""One value in several spellings is one, and is said, whatever the source; what forms offer is what
audits read."""

import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from engine.core.errors import RequestError
from engine.data.images.load import ImageAsk, load_images, look
from engine.data.prompts.load import known_axes, load_prompts
from engine.data.tables import one_spelling, regression_faults
from engine.data.texts.load import TextAsk, load_texts, look_texts
from tests.data import notes_of


def read(*values, **how):
    found, notes = one_spelling(pd.Series(list(values), dtype=str), "x", **how)
    return found.tolist(), list(notes)


@pytest.mark.parametrize(
    "values, right",
    [
        (["0", "0.0", "1", "1.0"], ["0", "0", "1", "1"]),
        (["0.0", "1.0", "1."], ["0", "1", "1"]),
        (["0.0", "1.0"], ["0", "1"]),
        (["01", "1", "1e1", "10", "+2"], ["1", "1", "10", "10", "2"]),
        (["-0", "0", "00.50", ".5"], ["0", "0", "0.5", "0.5"]),
        (["01", "02"], ["01", "02"]),
        (["0.5", "1.0"], ["0.5", "1.0"]),
        (["TRUE", "True", "True", "FALSE"], ["True", "True", "True", "FALSE"]),
        (["caf\u00e9", "cafe\u0301", "cafe\u0301"], ["cafe\u0301"] * 3),
        (["New\u00a0York", "New York", "new  york", "New\u00a0York"], ["New York"] * 4),
        (["a\u200b", "a", "a"], ["a", "a", "a"]),
        (["1", "one", "One", "one"], ["1", "one", "one", "one"]),
        (["9" * 24 + "1", "9" * 24 + "2"], ["9" * 24 + "1", "9" * 24 + "2"]),
        (["0,0", "0"], ["0,0", "0"]),
        (["12345678901234567890123456789", "x"], ["12345678901234567890123456789", "x"]),
    ],
)
def test_spellings(values, right):
    assert read(*values)[0] == right
    assert read(*values[::-1])[0] == right[::-1], "the order of rows decides nothing"


def test_numbers_with_decimal_commas_are_numbers_where_they_may_be():
    assert read("0,0", "1", "1,5", decimal=",")[0] == ["0", "1", "1.5"]


def test_what_was_joined_is_counted():
    assert read(*["TRUE"] * 12, *["True"] * 10, "False")[1] == [
        "x: “TRUE” (12) and “True” (10) are read as one: “TRUE”."
    ]
    assert read("0", "0.0", "0.0", "0.00", "1.0")[1] == [
        "x: “0.0” (2), “0” (1) and “0.00” (1) are read as one: “0”.",
        "x: numbers are written the shortest way, “1.0” as “1”.",
    ]
    assert read("a", "b") == (["a", "b"], [])
    many = [value for at in range(12) for value in (f"v{at}", f"V{at}")]
    assert (
        len(read(*many)[1]) == 9 and read(*many)[1][-1] == "x: 4 more values had several spellings."
    )


def test_missing_values_and_words_that_may_mean_one():
    values = ["nan", "NaN", "NaN", "<NA>", "null", "NULL", "#N/A", "", "a"]
    assert read(*values)[0] == [""] * 8 + ["a"]
    said = read(*values)[1]
    assert (
        len(said) == 1
        and said[0].startswith("x: “NaN” (2), “#N/A” (1)")
        and "read as missing" in said[0]
    )
    found, said = read("None", "NA", "NA", "n/a", "-", "?", "unknown", "none", "none", "a")
    assert found == ["none", "NA", "NA", "n/a", "-", "?", "unknown", "none", "none", "a"]
    assert (
        said[1]
        == "x: “none” (3), “NA” (2), “-” (1), “?” (1), “n/a” (1) and “unknown” (1) are read as a"
        " value, not as missing."
    )


def test_many_numbers_that_are_not_whole_are_a_regression():
    for mark in ".,":
        assert "regression" in str(
            regression_faults("x", [f"{at / 10}".replace(".", mark) for at in range(11)])[0]
        )
    for classes in (
        [str(at / 2) for at in range(10)],
        [str(at) for at in range(64)],
        ["0.5", *map(str, range(11)), "b"],
    ):
        assert regression_faults("x", classes) == []


# Texts


def texts(path, sep=",", **columns):
    base = {"text": [f"text {at}" for at in range(24)], "split": ["train"] * 12 + ["test"] * 12}
    pd.DataFrame({**base, **columns}).to_csv(path, index=False, sep=sep)
    return str(path)


def test_labels_and_groups_of_texts(tmp_path):
    town = ["Ostra", "OSTRA", "Ostra", "nan", "Umbra", "Umbra "]
    source = texts(tmp_path / "a.csv", label=["0", "0.0", "1", "1.0"] * 6, town=town * 4)
    found, info = load_texts(source, TextAsk(groups=("town",))), look_texts(source)
    assert found.classes == ("0", "1") and found.table["label"].value_counts().to_dict() == {
        0: 12,
        1: 12,
    }
    assert found.table["town"].value_counts().to_dict() == {
        "Ostra": 12,
        "Umbra": 8,
        "not stated": 4,
    }
    joined = "town: “Ostra” (8) and “OSTRA” (4) are read as one: “Ostra”."
    assert joined in found.notes and joined in info.note
    assert "label: “0” (6) and “0.0” (6) are read as one: “0”." in found.notes
    assert "town: “nan” (4) is read as missing." in found.notes
    plain = texts(
        tmp_path / "b.csv",
        label=["0", "0", "1", "1"] * 6,
        town=["Ostra", "Ostra", "Ostra", "", "Umbra", "Umbra"] * 4,
    )
    assert load_texts(plain, TextAsk(groups=("town",))).digest == found.digest, (
        "what is read alike is the same data"
    )


def test_a_constant_in_two_spellings_is_no_group_in_the_form_either(tmp_path):
    source = texts(tmp_path / "a.csv", label=["a", "b"] * 12, town=["Ostra", "ostra"] * 12)
    assert "town" not in look_texts(source).groups


def test_a_missing_label_is_a_fault_that_says_what_stands_there(tmp_path):
    with pytest.raises(RequestError, match="row 2: label: the label is missing .“nan”."):
        load_texts(texts(tmp_path / "a.csv", label=["a", "nan", "b"] * 8))


def test_texts_that_differ_by_case_stay_two_texts(tmp_path):
    text = ["same words", "SAME WORDS", *(f"text {at}" for at in range(22))]
    found = load_texts(texts(tmp_path / "a.csv", text=text, label=["a", "b"] * 12))
    assert {"same words", "SAME WORDS"} < set(found.table["text"])


def test_column_names_are_found_whatever_their_capitals(tmp_path):
    source = texts(
        tmp_path / "a.csv", label=["a", "b"] * 12, Mood=["x", "y", "y"] * 8, town=["u", "v"] * 12
    )
    found = load_texts(source, TextAsk(text="TEXT", target="mood", groups=("Town",)))
    assert (
        found.classes == ("x", "y")
        and found.groups == ("Town",)
        and set(found.table["Town"]) == {"u", "v"}
    )
    two = texts(
        tmp_path / "b.csv", label=["a", "b"] * 12, mood=["x", "y"] * 12, Mood=["y", "x"] * 12
    )
    assert load_texts(two, TextAsk(target="Mood")).classes == ("x", "y")
    with pytest.raises(RequestError, match="'MOOD' is not known. Known: Mood, label, mood, text"):
        load_texts(two, TextAsk(target="MOOD"))
    with pytest.raises(RequestError, match="column of the task itself"):
        load_texts(source, TextAsk(target="Mood", groups=("mood",)))


def test_regressions_are_called_so(tmp_path):
    source = texts(tmp_path / "a.csv", label=[f"{at / 5}" for at in range(24)])
    with pytest.raises(
        RequestError, match="24 different numbers: a regression.*classifiers.*into classes"
    ) as caught:
        load_texts(source)
    assert len(caught.value.faults) == 1
    comma = texts(
        tmp_path / "b.csv", sep=";", label=[f"{at / 5}".replace(".", ",") for at in range(24)]
    )
    with pytest.raises(RequestError, match="24 different numbers: a regression"):
        load_texts(comma)
    (tmp_path / "STS-B").mkdir()
    for name in (str(tmp_path / "STS-B"), "glue:stsb"):
        with pytest.raises(RequestError, match="STS-B is a regression"):
            look_texts(name)


# Images


def pictures(folder, names):
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 255, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / name)


def test_labels_and_groups_of_images(tmp_path):
    names = [f"{at:02d}.png" for at in range(40)]
    pictures(tmp_path, names)
    rows = {
        "path": names,
        "label": ["0", "0.0", "1", "1.0"] * 10,
        "Town": ["Ostra", "OSTRA", "nan", "Umbra", "Ostra"] * 8,
    }
    pd.DataFrame(rows).to_csv(tmp_path / "labels.csv", index=False, sep=";")
    info, found = (
        look(str(tmp_path)),
        load_images(str(tmp_path), ImageAsk("LABEL", ("town",), size=8)),
    )
    assert info.classes == found.classes == ("0", "1")
    assert found.table["town"].value_counts().to_dict() == {
        "Ostra": 24,
        "not stated": 8,
        "Umbra": 8,
    }
    for said in (
        "label: “0” (10) and “0.0” (10) are read as one: “0”.",
        "semicolons between its cells",
    ):
        assert said in info.note and any(said in note for note in found.notes)
    again = pd.DataFrame({"path": ["00.png"], "label": ["0.0"], "Town": ["ostra"]})
    pd.concat([pd.DataFrame(rows), again]).to_csv(tmp_path / "labels.csv", index=False)
    assert len(load_images(str(tmp_path), ImageAsk(size=8)).table) == 40, (
        "a row again in another spelling is no other"
    )


def test_an_image_csv_of_measurements_is_a_regression(tmp_path):
    names = [f"{at:02d}.png" for at in range(12)]
    pictures(tmp_path, names)
    pd.DataFrame({"path": names, "label": [at / 8 for at in range(12)]}).to_csv(
        tmp_path / "labels.csv", index=False
    )
    with pytest.raises(RequestError, match="12 different numbers: a regression"):
        load_images(str(tmp_path), ImageAsk(size=8))


def test_labels_of_fitzpatrick17k(tmp_path):
    rows = [
        (f"h{at:03d}", f"{1 + at % 6}", ("benign", "Benign", "malignant")[at // 6 % 3])
        for at in range(72)
    ]
    rows = [
        (name, scale if at % 4 else f"{scale}.0", kind)
        for at, (name, scale, kind) in enumerate(rows)
    ]
    pictures(tmp_path / "images", [f"{row[0]}.jpg" for row in rows])
    table = pd.DataFrame(rows, columns=["md5hash", "fitzpatrick_scale", "three_partition_label"])
    table.to_csv(tmp_path / "f.csv", index=False)
    found = load_images(str(tmp_path), ImageAsk(groups=("fitzpatrick_scale",), size=8))
    assert look(str(tmp_path)).classes == found.classes and len(found.classes) == 2
    assert set(found.table["fitzpatrick_scale"]) <= set("123456")
    assert any("benign" in note and "read as one" in note for note in found.notes)


def test_class_folders_in_two_spellings_are_one_class(tmp_path):
    names = [
        f"{split}/{kind}/{split}{at}.png"
        for split, kinds in (("train", ("Cat", "dog")), ("test", ("cat", "dog")))
        for kind in kinds
        for at in range(12 if split == "train" else 4)
    ]
    pictures(tmp_path, [name.replace("/train", f"/{at}") for at, name in enumerate(names)])
    info, found = look(str(tmp_path)), load_images(str(tmp_path), ImageAsk(size=8))
    assert info.classes == found.classes == ("Cat", "dog")
    assert (
        "“Cat” (12) and “cat” (4) are read as one" in notes_of(found) and "“cat” (4)" in info.note
    )


def test_arrays_group_columns_and_repeated_class_names(tmp_path):
    for split, n in (("train", 12), ("test", 8)):
        images = np.random.default_rng(n).integers(0, 255, (n, 8, 8, 3), dtype=np.uint8)
        same = {
            "images": images,
            "labels": np.arange(n) % 2,
            "town": np.array(["Ostra", "OSTRA ", "x", "nan"] * (n // 4)),
        }
        np.savez(tmp_path / f"{split}.npz", class_names=np.array(["a", "b"]), **same)
    found = load_images(str(tmp_path), ImageAsk(groups=("town",), size=8))
    assert set(found.table["town"]) == {"OSTRA", "x", "not stated"}
    np.savez(tmp_path / "train.npz", class_names=np.array(["a", "a"]), **same)
    with pytest.raises(RequestError, match="holds one name twice"):
        look(str(tmp_path))


# Prompts


def test_axes_and_subgroups_of_prompts(tmp_path):
    rows = [
        (f" {group} {at} ", axis, group)
        for axis, group in (("kin", "Aunt"), ("kin", "aunt"), ("Kin", "uncle"), ("kin", "uncle"))
        for at in range(4)
    ]
    rows += [("nobody", "nan", "Aunt")]
    path = tmp_path / "a.csv"
    pd.DataFrame(rows, columns=["Prompt", "axis", "subgroup"]).to_csv(path, index=False, sep="|")
    assert known_axes(path) == ("kin",)
    found = load_prompts(path, ["kin"])
    assert found.table.groupby("subgroup").size().to_dict() == {"Aunt": 8, "uncle": 4}
    assert found.table["text"].str.startswith(" ").all(), "prompts keep the blanks around them"
    for said in (
        "upright strokes",
        "“kin” (12) and “Kin” (4)",
        "“Aunt” (5)",
        "1 prompts name no axis",
        "“nan” (1) is",
    ):
        assert any(said in note for note in found.notes), said


def test_groups_of_bold(tmp_path):
    pages = {
        "men": {"A": ["A was", "A is"]},
        "Men": {"B": ["B was"]},
        "women": {"C": ["C was", "C is"]},
    }
    (tmp_path / "gender_prompt.json").write_text(json.dumps(pages))
    found = load_prompts(tmp_path / "gender_prompt.json", [])
    assert found.table.groupby("subgroup").size().to_dict() == {"men": 3, "women": 2}
    assert "read as one: “men”" in notes_of(found)


def test_buckets_of_a_fasp_pair(tmp_path):
    (tmp_path / "p.json").write_text(json.dumps({"kin": {"t": [f"text {at}" for at in range(6)]}}))
    groups = {"axis": ["kin"] * 6, "bucket": ["Aunt", "aunt", "Aunt", "uncle", "uncle", "uncle"]}
    (tmp_path / "p_groups.json").write_text(json.dumps(groups))
    found = load_prompts(tmp_path / "p.json", [])
    assert found.table.groupby("subgroup").size().to_dict() == {"Aunt": 3, "uncle": 3}
    assert "bucket: “Aunt” (2) and “aunt” (1) are read as one: “Aunt”." in found.notes
    (tmp_path / "p_groups.json").write_text(
        json.dumps({**groups, "bucket": [None, *groups["bucket"][1:]]})
    )
    with pytest.raises(RequestError, match="1 prompts name no subgroup"):
        load_prompts(tmp_path / "p.json", [])
