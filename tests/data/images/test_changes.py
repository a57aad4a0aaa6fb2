"""What is done to images: classes made rare, the yellow square, balanced subsets."""

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import RequestError
from engine.data.images.changes import YELLOW, image_changes
from engine.data.images.load import ImageAsk, load_images


@pytest.fixture(scope="module")
def digits():
    return load_images("digits")


@pytest.fixture(scope="module")
def faces():
    return load_images("avatars", ImageAsk(groups=("male", "class")))


def counts_of(images, split="train", by="label"):
    return images.table[images.table["split"] == split].groupby(by).size()


def faults_of(name, images, **settings):
    with pytest.raises(RequestError) as caught:
        image_changes()[name].apply(images, 0, **settings)
    return "\n".join(map(str, caught.value.faults))


def test_every_change_has_its_own_digest_name_and_note(digits, faces):
    changes = image_changes()
    assert sorted(changes) == ["artefact", "balance", "underrepresent"]
    for name, images in (("underrepresent", digits), ("artefact", digits), ("balance", faces)):
        done, again, other = (changes[name].apply(images, seed) for seed in (0, 0, 1))
        assert done.digest == again.digest and len({done.digest, other.digest, images.digest}) == 3
        pd.testing.assert_frame_equal(done.table, again.table)
        assert not done.table.equals(other.table)
        assert done.name == f"{images.name}, {name}" and len(done.notes) == len(images.notes) + 1
        assert isinstance(done.table.index, pd.RangeIndex) and done.stand_in == images.stand_in
        assert {setting.name for setting in changes[name].settings} >= {*changes[name].of_classes}


def test_four_fifths_of_two_classes_go_from_training_only(digits):
    rare = image_changes()["underrepresent"].apply(digits, 3, classes="2,7")
    before, after = counts_of(digits), counts_of(rare)
    assert (before - after).to_dict() == {
        i: round(0.8 * before[i]) if i in (2, 7) else 0 for i in range(10)
    }
    for split in ("validation", "test"):
        assert counts_of(rare, split).equals(counts_of(digits, split))
    assert rare.groups[-1] == "rarity" and "rarity" not in digits.groups
    of_rare = rare.table["label"].isin([2, 7])
    assert ((rare.table["rarity"] == "rare") == of_rare).all() and set(rare.table["rarity"]) == {
        "rare",
        "common",
    }
    assert set(rare.table.loc[rare.table["split"] == "test", "rarity"]) == {"rare", "common"}
    with pytest.raises(RequestError, match="already"):
        image_changes()["underrepresent"].apply(rare, 3, classes="4")
    default = image_changes()["underrepresent"].apply(digits, 3)
    assert set(np.flatnonzero((before - counts_of(default)).to_numpy())) == {
        3,
        5,
    }, "cat and dog in CIFAR-10"
    assert (
        counts_of(image_changes()["underrepresent"].apply(digits, 3, classes=("2",), removed=1.0))[
            2
        ]
        == 1
    )
    rows = np.array([0, 5, 900])
    at = digits.table["image_id"].isin(rare.table["image_id"].iloc[rows])
    assert (rare.read(rows) == digits.read(np.flatnonzero(at))).all(), (
        "pictures stay with their rows"
    )


def has_square(images):
    pixels = images.read(np.arange(len(images.table)))
    return (pixels == YELLOW).all(axis=3).sum(axis=(1, 2))


def test_the_square_goes_with_one_class_in_training_and_with_none_in_the_test(digits):
    changed = image_changes()["artefact"].apply(digits, 1, cls="4")
    assert changed.groups == ("class", "artefact") and list(changed.table)[-1] == "artefact"
    drawn, said = has_square(changed), (changed.table["artefact"] == "with").to_numpy()
    assert set(drawn[said]) == {25} and not drawn[~said].any(), "5 x 5 of 32 x 32 pixels"
    train = changed.table["split"] == "train"
    four = changed.table["label"] == 4
    assert said[train & four].mean() > 0.93 and 0.005 < said[train & ~four].mean() < 0.04
    for label, rows in changed.table[changed.table["split"] == "test"].groupby("label"):
        assert (rows["artefact"] == "with").sum() == len(rows) // 2, label
    before = digits.read(np.arange(len(digits.table)))
    assert not (before == YELLOW).all(axis=3).any(), "the pictures themselves stay"
    assert (changed.read(np.flatnonzero(~said)) == before[~said]).all()
    places = {
        tuple(np.argwhere((pixels == YELLOW).all(axis=2))[0])
        for pixels in changed.read(np.flatnonzero(said)[:60])
    }
    assert len(places) > 40


def test_an_image_keeps_its_square_whatever_else_is_there(digits):
    artefact = image_changes()["artefact"]
    whole, part = (
        artefact.apply(digits, 1),
        artefact.apply(load_images("digits", ImageAsk(max_images=200)), 1),
    )
    train = part.table[part.table["split"] == "train"].merge(
        whole.table, on="image_id", suffixes=("", "_whole")
    )
    assert (train["artefact"] == train["artefact_whole"]).all()


def test_changes_can_follow_each_other(digits):
    both = image_changes()["artefact"].apply(
        image_changes()["underrepresent"].apply(digits, 0, classes="4"), 0, cls="4"
    )
    assert both.name == "digits, underrepresent, artefact"
    assert ((both.table["artefact"] == "with") == (has_square(both) > 0)).all()
    assert "artefact' already" in faults_of("artefact", both)


def test_balanced_subsets_are_nested_and_have_the_papers_shape(faces):
    """Paper, Fig. 5: 3.41 % of CelebA balanced; then five times as many non-male, or not blond,
    images."""
    balance = image_changes()["balance"]
    least = int(counts_of(faces, by=["label", "male"]).min())
    assert least == pytest.approx(0.0085 * 12000, abs=2)
    wanted = {
        "balanced": {(0, "male"): 1, (0, "non-male"): 1, (1, "male"): 1, (1, "non-male"): 1},
        "more-of-group": {(0, "male"): 1, (0, "non-male"): 5, (1, "male"): 1, (1, "non-male"): 5},
        "more-of-class": {(0, "male"): 5, (0, "non-male"): 5, (1, "male"): 1, (1, "non-male"): 1},
    }
    sets = {}
    for subset, times in wanted.items():
        done = balance.apply(faces, 2, subset=subset)
        assert counts_of(done, by=["label", "male"]).to_dict() == {
            cell: least * n for cell, n in times.items()
        }
        assert len(done.table[done.table["split"] != "train"]) == 10000, (
            "validation and test stay whole"
        )
        sets[subset] = set(done.table["image_id"])
    assert sets["balanced"] < sets["more-of-group"] and sets["balanced"] < sets["more-of-class"]
    assert len(sets["balanced"]) - 10000 == pytest.approx(0.0341 * 12000, abs=8)


def test_too_few_for_five_times_is_said(faces):
    done = image_changes()["balance"].apply(faces, 0, subset="more-of-group", times=50)
    assert "too few for 50 times" in done.notes[-1]
    counts = counts_of(done, by=["label", "male"])
    assert (
        counts[(0, "non-male")]
        == counts[(1, "non-male")]
        == counts_of(faces, by=["label", "male"])[(1, "non-male")]
    )


def test_faults_of_changes_are_said(digits, faces):
    assert "Known: 0, 1, 2" in faults_of("underrepresent", digits, classes="2,twelve")
    assert "'twelve'" in faults_of("underrepresent", digits, classes=[2, "twelve"])
    assert "'12'" in faults_of("artefact", digits, cls=12)
    assert "from 0 to 1" in faults_of("underrepresent", digits, removed=80)
    text = faults_of("artefact", digits, share_in=2, share_out="x", square=3)
    assert "share_in" in text and "share_out" in text and "'square' is not known" in text
    assert "Name one" in faults_of("artefact", digits, cls="1,2")
    assert "no group column" in faults_of("balance", digits)
    assert "Known: male" in faults_of("balance", faces, group="skin")
    assert "balanced, more-of-group" in faults_of("balance", faces, subset="half")
    few = faces.keeping(
        np.flatnonzero((faces.table["male"] == "non-male") | (faces.table["label"] == 0)),
        {"change": "x"},
        "",
    )
    assert "No training image is blond, male." in faults_of("balance", few)


def test_the_squares_of_the_published_code(digits):
    """4 pixels, in every test image, in another place in every batch, and the same place in the
    same batch."""
    changed = image_changes()["artefact"].apply(
        digits, 1, cls="4", pixels=4, tested="all", redrawn=True
    )
    rows = changed.rows("test")[:20]
    first, again, fewer = changed.read(rows), changed.read(rows), changed.read(rows[:10])
    assert ((first == YELLOW).all(axis=-1).sum(axis=(1, 2)) == 16).all()
    assert np.array_equal(first, again) and not np.array_equal(first[:10], fewer)
    usual = image_changes()["artefact"].apply(digits, 1, cls="4")
    assert (
        changed.digest != usual.digest
        and (changed.table["artefact"][changed.rows("test")] == "with").all()
    )
