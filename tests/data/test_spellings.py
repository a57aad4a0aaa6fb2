"""One value in several spellings is one, and is said, whatever the source; what forms offer is what
audits read."""

import numpy as np
import pandas as pd
import pytest

import engine.data.images
import engine.data.texts
from engine.core.errors import RequestError
from engine.data.images.load import ImageReader, look_images
from engine.data.prompts.load import known_axes, load_prompts
from engine.data.sources import readers_in
from engine.data.tables import one_spelling, regression_faults
from engine.data.texts.load import TextReader, look_texts
from tests.builders import refused
from tests.data import images, notes_of, texts
from tests.data.images import noise, npz, picture


def read(*values, **how):
    found, notes = one_spelling(pd.Series(list(values), dtype=str), "x", **how)
    return found.tolist(), list(notes)


@pytest.mark.parametrize(
    "values, right",
    [
        ("0 0.0 1 1.0", "0 0 1 1"),
        ("0.0 1.0 1.", "0 1 1"),
        ("0.0 1.0", "0 1"),
        ("01 1 1e1 10 +2", "1 1 10 10 2"),
        ("-0 0 00.50 .5", "0 0 0.5 0.5"),
        ("01 02", "01 02"),
        ("0.5 1.0", "0.5 1.0"),
        ("TRUE True True FALSE", "True True True FALSE"),
        ("caf\u00e9 cafe\u0301 cafe\u0301", "cafe\u0301 cafe\u0301 cafe\u0301"),
        ("a\u200b a a", "a a a"),
        ("1 one One one", "1 one one one"),
        (f"{'9' * 24}1 {'9' * 24}2", f"{'9' * 24}1 {'9' * 24}2"),
        ("0,0 0", "0,0 0"),
        ("12345678901234567890123456789 x", "12345678901234567890123456789 x"),
    ],
)
def test_spellings(values, right):
    values, right = values.split(), right.split()
    assert read(*values)[0] == right
    assert read(*values[::-1])[0] == right[::-1], "the order of rows decides nothing"


def test_blanks_and_decimal_commas():
    names = ["New\u00a0York", "New York", "new  york", "New\u00a0York"]
    assert read(*names)[0] == read(*names[::-1])[0] == ["New York"] * 4
    assert read("0,0", "1", "1,5", decimal=",")[0] == ["0", "1", "1.5"]


def test_what_was_joined_is_counted():
    joined = "x: “TRUE” (12) and “True” (10) are read as one: “TRUE”."
    assert read(*["TRUE"] * 12, *["True"] * 10, "False")[1] == [joined]
    assert read("0", "0.0", "0.0", "0.00", "1.0")[1] == [
        "x: “0.0” (2), “0” (1) and “0.00” (1) are read as one: “0”.",
        "x: numbers are written the shortest way, “1.0” as “1”.",
    ]
    assert read("a", "b") == (["a", "b"], [])
    notes = read(*(f"{letter}{at}" for at in range(12) for letter in "vV"))[1]
    assert len(notes) == 9 and notes[-1] == "x: 4 more values had several spellings."


def test_missing_values_and_words_that_may_mean_one():
    found, (note,) = read("nan", "NaN", "NaN", "<NA>", "null", "NULL", "#N/A", "", "a")
    assert found == [""] * 8 + ["a"]
    assert note.startswith("x: “NaN” (2), “#N/A” (1)") and "read as missing" in note
    found, notes = read("None", "NA", "NA", "n/a", "-", "?", "unknown", "none", "none", "a")
    assert found == ["none", "NA", "NA", "n/a", "-", "?", "unknown", "none", "none", "a"]
    doubtful = "“none” (3), “NA” (2), “-” (1), “?” (1), “n/a” (1) and “unknown” (1)"
    assert notes[1] == f"x: {doubtful} are read as a value, not as missing."


def test_many_numbers_that_are_not_whole_are_a_regression():
    tenths = [f"{at / 10}" for at in range(11)]
    for classes in (tenths, [one.replace(".", ",") for one in tenths]):
        assert "regression" in str(regression_faults("x", classes)[0])
    for classes in (tenths[:10], [*map(str, range(64))], ["0.5", *map(str, range(11)), "b"]):
        assert regression_faults("x", classes) == []


# Sources


@pytest.mark.parametrize(
    ("folder", "kind", "names"),
    [
        (engine.data.texts, TextReader, "remarks topics CoLA glue:rte CSV"),
        (engine.data.images, ImageReader, "avatars digits CelebA LFW Fitzpatrick17k CIFAR-10 CSV"),
    ],
)
def test_every_reader_is_found_and_general_ones_come_last(folder, kind, names):
    found = readers_in(folder, kind)
    assert [reader.general for reader in found] == sorted(reader.general for reader in found)
    told = " ".join(reader.name for reader in found)
    assert [name for name in names.split() if name not in told] == []


@pytest.mark.parametrize("look", [look_texts, look_images])
@pytest.mark.parametrize(
    "source",
    ["", " ", "/no/such", "x" * 5000, "a\0b", "~nobody-here/x", "glue:sts", "avatars:x", __file__],
)
def test_odd_sources_say_what_is_known(look, source):
    faults = refused(look, source)
    assert faults and (look is look_images or all(len(fault) < 2000 for fault in faults))


# Texts


@pytest.fixture
def csv(tmp_path):
    """A table of 24 texts as a file."""

    def written(sep=",", **columns):
        base = {"text": [f"text {at}" for at in range(24)], "split": ["train"] * 12 + ["test"] * 12}
        frame = pd.DataFrame(base | {"label": ["a", "b"] * 12} | columns)
        frame.to_csv(tmp_path / "a.csv", index=False, sep=sep)
        return str(tmp_path / "a.csv")

    return written


def test_labels_and_groups_of_texts(csv):
    town = ["Ostra", "OSTRA", "Ostra", "nan", "Umbra", "Umbra "] * 4
    source = csv(label=["0", "0.0", "1", "1.0"] * 6, town=town)
    found, info = texts.load(source, groups=("town",)), look_texts(source)
    assert found.classes == ("0", "1") and found.table["label"].sum() == 12
    counts = found.table["town"].value_counts().to_dict()
    assert counts == {"Ostra": 12, "Umbra": 8, "not stated": 4}
    joined = "town: “Ostra” (8) and “OSTRA” (4) are read as one: “Ostra”."
    assert joined in found.notes and joined in info.note
    assert "label: “0” (6) and “0.0” (6) are read as one: “0”." in found.notes
    assert "town: “nan” (4) is read as missing." in found.notes
    town = ["Ostra", "Ostra", "Ostra", "", "Umbra", "Umbra"] * 4
    plain = texts.load(csv(label=["0", "0", "1", "1"] * 6, town=town), groups=("town",))
    assert plain.digest == found.digest, "what is read alike is the same data"
    assert "town" not in look_texts(csv(town=["Ostra", "ostra"] * 12)).groups, "a constant"


def test_a_missing_label_is_a_fault_that_says_what_stands_there(csv):
    faults = texts.faults_of(csv(label=["a", "nan", "b"] * 8))
    assert "row 2: label: the label is missing (“nan”)" in faults[0]


def test_texts_that_differ_by_case_stay_two_texts(csv):
    text = ["same words", "SAME WORDS", *(f"text {at}" for at in range(22))]
    assert {"same words", "SAME WORDS"} < set(texts.load(csv(text=text)).table["text"])


def test_column_names_are_found_whatever_their_capitals(csv):
    source = csv(Mood=["x", "y", "y"] * 8, town=["u", "v"] * 12)
    found = texts.load(source, text="TEXT", target="mood", groups=("Town",))
    assert found.classes == ("x", "y") and found.groups == ("Town",)
    assert set(found.table["Town"]) == {"u", "v"}
    (fault,) = texts.faults_of(source, target="Mood", groups=("mood",))
    assert "column of the task itself" in fault
    two = csv(mood=["x", "y"] * 12, Mood=["y", "x"] * 12)
    assert texts.load(two, target="Mood").classes == ("x", "y")
    (fault,) = texts.faults_of(two, target="MOOD")
    assert "'MOOD' is not known. Known: Mood, label, mood, text" in fault


def test_regressions_are_called_so(csv, tmp_path):
    numbers = [f"{at / 5}" for at in range(24)]
    for sep, label in ((",", numbers), (";", [one.replace(".", ",") for one in numbers])):
        (fault,) = texts.faults_of(csv(sep, label=label))
        assert "24 different numbers: a regression" in fault
        assert "classifiers" in fault and "into classes" in fault
    (tmp_path / "STS-B").mkdir()
    for name in (str(tmp_path / "STS-B"), "glue:stsb"):
        with pytest.raises(RequestError, match="STS-B is a regression"):
            look_texts(name)


# Images


def pictures(folder, names):
    for number, name in enumerate(names):
        picture(folder / name, number, (16, 16))


def test_labels_and_groups_of_images(tmp_path):
    names = [f"{at:02d}.png" for at in range(40)]
    pictures(tmp_path, names)
    town = ["Ostra", "OSTRA", "nan", "Umbra", "Ostra"] * 8
    rows = pd.DataFrame({"path": names, "label": ["0", "0.0", "1", "1.0"] * 10, "Town": town})
    rows.to_csv(tmp_path / "labels.csv", index=False, sep=";")
    info = look_images(str(tmp_path))
    found = images.load(tmp_path, target="LABEL", groups=("town",))
    assert found.classes == ("0", "1")
    counts = found.table["Town"].value_counts().to_dict()
    assert counts == {"Ostra": 24, "not stated": 8, "Umbra": 8}
    for told in ("label: “0” (10) and “0.0” (10) are read as one: “0”.", "semicolons between its"):
        assert told in info.note and told in notes_of(found)
    again = pd.DataFrame({"path": ["00.png"], "label": ["0.0"], "Town": ["ostra"]})
    pd.concat([rows, again]).to_csv(tmp_path / "labels.csv", index=False)
    assert len(images.load(tmp_path).table) == 40, "a row again in another spelling is no other"
    rows.assign(label=np.arange(40) / 8).to_csv(tmp_path / "labels.csv", index=False)
    assert "40 different numbers: a regression" in images.faults_of(tmp_path)


def test_arrays_group_columns_and_repeated_class_names(tmp_path):
    for split, n in (("train", 12), ("test", 8)):
        town = np.array(["Ostra", "OSTRA ", "x", "nan"] * (n // 4))
        npz(tmp_path, split, noise(n, n, 8, 8, 3), np.arange(n) % 2, town=town)
    found = images.load(tmp_path, groups=("town",))
    assert set(found.table["town"]) == {"OSTRA", "x", "not stated"}
    npz(tmp_path, "train", noise(1, 8, 8, 8, 3), np.arange(8) % 2, ("a", "a"))
    with pytest.raises(RequestError, match="holds one name twice"):
        look_images(str(tmp_path))


# Prompts


def test_axes_and_subgroups_of_prompts(tmp_path):
    groups = (("kin", "Aunt"), ("kin", "aunt"), ("Kin", "uncle"), ("kin", "uncle"))
    rows = [(f" {group} {at} ", axis, group) for axis, group in groups for at in range(4)]
    table = pd.DataFrame([*rows, ("nobody", "nan", "Aunt")], columns=["Prompt", "axis", "subgroup"])
    table.to_csv(tmp_path / "a.csv", index=False, sep="|")
    assert known_axes(tmp_path / "a.csv") == ("kin",)
    found = load_prompts(tmp_path / "a.csv", ["kin"])
    assert found.table.groupby("subgroup").size().to_dict() == {"Aunt": 8, "uncle": 4}
    assert found.table["text"].str.startswith(" ").all(), "prompts keep the blanks around them"
    for told in ("upright strokes", "“kin” (12) and “Kin” (4)", "“Aunt” (5)", "“nan” (1) is"):
        assert told in notes_of(found)
    assert "1 prompts name no axis" in notes_of(found)
