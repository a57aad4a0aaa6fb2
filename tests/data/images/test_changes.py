"""What is done to images: classes made rare, the yellow square, balanced subsets."""

import numpy as np
import pandas as pd
import pytest

from engine.data.images.changes import YELLOW, image_changes
from engine.data.images.load import ImageAsk, load_images
from tests.builders import refused


@pytest.fixture(scope="module")
def digits():
    return load_images("digits")


@pytest.fixture(scope="module")
def faces():
    return load_images("avatars", ImageAsk(groups=("male", "class")))


def changed(name, images, seed=0, **settings):
    return image_changes()[name].apply(images, seed, **settings)


def faults_of(*given, **settings):
    return "\n".join(refused(changed, *given, **settings))


def counts_of(images, split="train", by="label"):
    return images.table[images.table["split"] == split].groupby(by).size()


@pytest.mark.parametrize("name", image_changes())
def test_every_change_has_its_own_digest_name_and_note(digits, faces, name):
    images = faces if name == "balance" else digits
    done, again, other = (changed(name, images, seed) for seed in (0, 0, 1))
    assert done.digest == again.digest and len({done.digest, other.digest, images.digest}) == 3
    pd.testing.assert_frame_equal(done.table, again.table)
    assert not done.table.equals(other.table)
    assert done.name == f"{images.name}, {name}" and len(done.notes) == len(images.notes) + 1
    assert isinstance(done.table.index, pd.RangeIndex) and done.stand_in == images.stand_in


def test_four_fifths_of_two_classes_go_from_training_only(digits):
    rare = changed("underrepresent", digits, 3, classes="2,7")
    before = counts_of(digits)
    gone = {i: round(0.8 * before[i]) if i in (2, 7) else 0 for i in range(10)}
    assert (before - counts_of(rare)).to_dict() == gone
    for split in ("validation", "test"):
        assert counts_of(rare, split).equals(counts_of(digits, split))
    assert rare.groups[-1] == "rarity" and "rarity" not in digits.groups
    of_rare = np.where(rare.table["label"].isin([2, 7]), "rare", "common")
    assert (rare.table["rarity"] == of_rare).all()
    assert set(rare.table["rarity"].iloc[rare.rows("test")]) == {"rare", "common"}
    assert "already" in faults_of("underrepresent", rare, 3, classes="4")
    default = counts_of(changed("underrepresent", digits, 3))
    assert np.flatnonzero(before != default).tolist() == [3, 5], "cat and dog in CIFAR-10"
    one_left = changed("underrepresent", digits, 3, classes=("2",), removed=1.0)
    assert counts_of(one_left)[2] == 1
    rows = np.array([0, 5, 900])
    at = digits.table["image_id"].isin(rare.table["image_id"].iloc[rows])
    same = digits.read(np.flatnonzero(at))
    assert (rare.read(rows) == same).all(), "pictures stay with their rows"


def squares(pixels):
    """Yellow pixels of every picture."""
    return (pixels == YELLOW).all(axis=-1).sum(axis=(1, 2))


def test_the_square_goes_with_one_class_in_training_and_with_none_in_the_test(digits):
    done = changed("artefact", digits, 1, cls="4")
    assert done.groups == ("class", "artefact") and list(done.table)[-1] == "artefact"
    rows = np.arange(len(digits.table))
    before, after = digits.read(rows), done.read(rows)
    marked = (done.table["artefact"] == "with").to_numpy()
    assert set(squares(after)[marked]) == {25}, "5 x 5 of 32 x 32 pixels"
    assert not squares(before).any() and (after[~marked] == before[~marked]).all()
    train, four = done.table["split"] == "train", done.table["label"] == 4
    assert marked[train & four].mean() > 0.93 and 0.005 < marked[train & ~four].mean() < 0.04
    test = done.table.iloc[done.rows("test")]
    for label, part in test.groupby("label"):
        assert (part["artefact"] == "with").sum() == len(part) // 2, label
    places = [np.argwhere((pixels == YELLOW).all(axis=2))[0] for pixels in after[marked][:60]]
    assert len(set(map(tuple, places))) > 40


def test_an_image_keeps_its_square_whatever_else_is_there(digits):
    whole = changed("artefact", digits, 1)
    part = changed("artefact", load_images("digits", ImageAsk(max_images=200)), 1)
    train = part.table[part.table["split"] == "train"]
    both = train.merge(whole.table, on="image_id", suffixes=("", "_whole"))
    assert (both["artefact"] == both["artefact_whole"]).all()


@pytest.mark.parametrize(
    ("subset", "times"),
    [("balanced", [1, 1, 1, 1]), ("more-of-group", [1, 5, 1, 5]), ("more-of-class", [5, 5, 1, 1])],
)
def test_balanced_subsets_are_nested_and_have_the_papers_shape(faces, subset, times):
    """Paper, Fig. 5: 3.41 % of CelebA balanced; then five times as many non-male, or not blond,
    images."""
    cells = ["label", "male"]
    least = int(counts_of(faces, by=cells).min())
    assert least == pytest.approx(0.0085 * 12000, abs=2)
    balanced, done = (changed("balance", faces, 2, subset=name) for name in ("balanced", subset))
    assert counts_of(done, by=cells).tolist() == [least * n for n in times]
    assert (done.table["split"] != "train").sum() == 10000, "validation and test stay whole"
    assert set(balanced.table["image_id"]) <= set(done.table["image_id"])
    assert len(balanced.table) - 10000 == pytest.approx(0.0341 * 12000, abs=8)


def test_too_few_for_five_times_is_said(faces):
    done = changed("balance", faces, subset="more-of-group", times=50)
    assert "too few for 50 times" in done.notes[-1]
    there = counts_of(faces, by=["label", "male"])[1, "non-male"]
    counts = counts_of(done, by=["male", "label"])["non-male"]
    assert counts.tolist() == [there, there]


def test_faults_of_changes_are_said(digits, faces):
    for name, settings, *told in (
        ("underrepresent", {"classes": "2,twelve"}, "Known: 0, 1, 2"),
        ("underrepresent", {"classes": [2, "twelve"]}, "'twelve'"),
        ("underrepresent", {"removed": 80}, "from 0 to 1"),
        ("artefact", {"cls": 12}, "'12'"),
        ("artefact", {"cls": "1,2"}, "Name one"),
        ("artefact", {"share_in": 2, "share_out": "x"}, "share_in", "share_out"),
        ("artefact", {"square": 3}, "'square' is not known"),
        ("balance", {}, "no group column"),
    ):
        fault = faults_of(name, digits, **settings)
        assert all(words in fault for words in told), fault
    assert "Known: male" in faults_of("balance", faces, group="skin")
    assert "balanced, more-of-group" in faults_of("balance", faces, subset="half")
    some = (faces.table["male"] == "non-male") | (faces.table["label"] == 0)
    few = faces.keeping(np.flatnonzero(some), {"change": "x"}, "")
    assert "No training image is blond, male." in faults_of("balance", few)


def test_the_squares_of_the_published_code(digits):
    """4 pixels, in every test image, in another place in every batch, and the same place in the
    same batch."""
    done = changed("artefact", digits, 1, cls="4", pixels=4, tested="all", redrawn=True)
    rows = done.rows("test")[:20]
    first, again, fewer = done.read(rows), done.read(rows), done.read(rows[:10])
    assert (squares(first) == 16).all()
    assert np.array_equal(first, again) and not np.array_equal(first[:10], fewer)
    assert (done.table["artefact"][done.rows("test")] == "with").all()
    assert done.digest != changed("artefact", digits, 1, cls="4").digest
