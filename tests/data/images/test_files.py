"""Images on disk: the published layouts, any CSV, and files that are missing, broken, repeated or
elsewhere."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from engine.core.errors import RequestError
from engine.data.images.load import look_images
from engine.data.images.pixels import decoded
from tests.data import notes_of, sizes
from tests.data.images import faults_of, file_of, load, picture


def celeba(home, n=30):
    lines = [str(n), "Bald Blond_Hair Male "]
    lines += [
        f"{i + 1:06d}.jpg -1 {-1 if i % 3 else 1:2d} {-1 if i % 2 else 1:2d}" for i in range(n)
    ]
    home.mkdir(parents=True, exist_ok=True)
    (home / "list_attr_celeba.txt").write_text("\n".join(lines) + "\n")
    splits = [0] * 18 + [1] * 6 + [2] * 6
    lines = [f"{i + 1:06d}.jpg {split}\n" for i, split in enumerate(splits)]
    (home / "list_eval_partition.txt").write_text("".join(lines))
    for i in range(n):
        picture(home / "img_align_celeba" / f"{i + 1:06d}.jpg", i, (18, 22))


def test_celeba_in_torchvisions_layout(tmp_path):
    celeba(tmp_path / "celeba")
    info = look_images(str(tmp_path))
    assert (info.default_target, info.default_groups) == ("Blond_Hair", ("Male",))
    assert info.targets == ("Bald", "Blond_Hair", "Male") and info.groups[-1] == "class"
    images = load(tmp_path)
    assert images.classes == ("not blond hair", "blond hair") and images.groups == ("Male",)
    assert sizes(images) == (18, 6, 6)
    first = images.table.set_index("image_id").loc["000001.jpg"]
    assert (first["label"], first["Male"], first["split"]) == (1, "male", "train")
    assert set(images.table["Male"]) == {"male", "non-male"}
    same = load(tmp_path / "celeba", target="Male", groups=("Blond_Hair",))
    assert same.classes == ("non-male", "male")
    assert set(same.table["Blond_Hair"]) == {"blond hair", "not blond hair"}
    assert "Known: Bald, Blond_Hair, Male" in faults_of(tmp_path, target="Smiling")


def test_celeba_that_is_incomplete_or_garbled(tmp_path):
    celeba(tmp_path)
    splits, attributes = tmp_path / "list_eval_partition.txt", tmp_path / "list_attr_celeba.txt"
    splits.write_text("000001.jpg 7\n")
    assert "0, 1 or 2" in faults_of(tmp_path)
    splits.unlink()
    assert "list_eval_partition.txt is absent" in faults_of(tmp_path)
    splits.write_text("000001.jpg 0\n")
    attributes.write_text(attributes.read_text().replace("000002.jpg -1", "000002.jpg 5"))
    assert "1 or -1" in faults_of(tmp_path, target="Bald")
    attributes.write_text("\xff\n")
    assert "not a number of images" in faults_of(tmp_path)


def test_lfw_keeps_people_on_one_side(tmp_path):
    lines = ["# lfw_attributes.txt", "#\tperson\timagenum\tMale\tWavy Hair"]
    for person, number in np.ndindex(20, 2):
        name, folder = f"Ann O'Nym {person}", f"Ann_O'Nym_{person}"
        wavy = 0.1 if (person + number + 1) % 3 else -1
        lines.append(f"{name}\t{number + 1}\t{1.5 if person % 2 else -0.2}\t{wavy}")
        home = tmp_path / "lfw-py" / "lfw_funneled" / folder
        picture(home / f"{folder}_{number + 1:04d}.jpg", 2 * person + number)
    (tmp_path / "lfw_attributes.txt").write_text("\n".join(lines) + "\n")
    info = look_images(str(tmp_path))
    assert (info.default_target, info.default_groups) == ("Wavy Hair", ("Male",))
    images = load(tmp_path)
    assert len(images.table) == 40 and images.classes == ("not wavy hair", "wavy hair")
    person = images.table["image_id"].str.split("/").str[0]
    assert images.table.groupby(person)["split"].nunique().eq(1).all()
    first = images.table.set_index("image_id").loc["Ann_O'Nym_1/Ann_O'Nym_1_0001.jpg"]
    assert (first["label"], first["Male"]) == (1, "male")
    for split, people in {"Train": range(14), "Test": range(14, 19)}.items():
        text = "x\n" + "".join(f"Ann_O'Nym_{number}\t2\n" for number in people)
        (tmp_path / "lfw-py" / f"peopleDev{split}.txt").write_text(text)
    images = load(tmp_path)
    assert sizes(images) == (24, 4, 10)
    assert "2 images of people in neither list" in notes_of(images)


def test_fitzpatrick17k_trains_on_light_skin_only(tmp_path):
    kinds = ("benign", "malignant", "non-neoplastic")
    rows = [(f"h{i:03d}", 1 + i % 6, kinds[i // 6 % 3]) for i in range(144)]
    rows += [("x1", -1, "benign"), ("h000", 1, "benign"), ("h001", 5, "benign"), ("x2", 3, "")]
    table = pd.DataFrame(rows, columns=["md5hash", "fitzpatrick_scale", "three_partition_label"])
    table.assign(url="").to_csv(tmp_path / "fitzpatrick17k.csv", index=False)
    for number, name in enumerate(sorted(set(table["md5hash"]))):
        picture(tmp_path / "images" / f"{name}.jpg", number)
    images = load(tmp_path)
    assert images.classes == kinds and images.groups == ("skin",)
    counts = images.table.groupby(["split", "skin"]).size()
    assert counts["train"].to_dict() == {"light": 47}
    assert set(counts["test"].index) == {"medium", "dark"} and counts["test"].sum() == 72
    assert images.table.groupby(["split", "label"]).size()["validation"].tolist() == [8, 8, 8]
    assert "h001" not in set(images.table["image_id"])
    told = notes_of(images)
    assert "2 rows name no skin tone" in told and "1 rows repeat" in told
    assert "1 hashes have rows that contradict" in told
    by_scale = load(tmp_path / "fitzpatrick17k.csv", groups=("fitzpatrick_scale",))
    assert set(by_scale.table["fitzpatrick_scale"]) == set("123456")


def test_fitzpatrick17k_without_images_or_columns(tmp_path):
    (tmp_path / "f.csv").write_text("md5hash,fitzpatrick,label\na,1,x\nb,3,y\n")
    assert "No image named <md5hash>.jpg" in faults_of(tmp_path)
    (tmp_path / "f.csv").write_text("md5hash,label\na,x\n")
    assert "Columns missing: fitzpatrick_scale. Found: md5hash, label" in faults_of(tmp_path)


def test_pictures_at_and_below_a_class_are_read_and_those_outside_are_told(tmp_path):
    for number in range(40):
        split, name = ("train", "test")[number % 4 == 0], ("cat", "dog")[number // 4 % 2]
        picture(tmp_path / split / name / ("", "in")[number % 2] / f"{number}.png", number)
    (tmp_path / "train" / "cat" / "Thumbs.db").write_text("no picture")
    images = load(tmp_path)
    assert len(images.table) == 40 and images.classes == ("cat", "dog")
    assert sizes(images) == (26, 4, 10) and "not read" not in notes_of(images)
    outside = ("testing/cat", "unlabelled", "train", "test/cat/.ipynb_checkpoints", "__MACOSX")
    for at, name in enumerate(outside):
        picture(tmp_path / name / "more.png", 50 + at)
    told = notes_of(load(tmp_path))
    assert "are not read, for they name no split, or one twice: test, unlabelled." in told
    assert "lie in no class folder and were left out: 1 (train/more.png)." in told
    for file in [*(tmp_path / "testing").rglob("*.png"), *(tmp_path / "test").rglob("*.png")]:
        file.unlink()
    assert "No images in test/<class>/" in faults_of(tmp_path)


def table_of(folder, n=60, **more):
    """n pictures and a CSV about them."""
    paths = [f"pics/{i:02d}.jpg" for i in range(n)]
    own = {"path": paths, "label": ["no", "yes", "yes"] * (n // 3), "site": ["a", "b"] * (n // 2)}
    rows = pd.DataFrame(own | more)
    for number, path in enumerate(paths):
        picture(folder / path, number)
    rows.to_csv(folder / "labels.csv", index=False)
    return rows


def test_any_folder_with_a_csv(tmp_path):
    table_of(tmp_path, age=["old", "", "young"] * 20, number=range(60))
    info = look_images(str(tmp_path))
    assert info.targets == ("label", "site", "age", "number")
    assert info.groups == ("site", "age", "number", "class")
    images = load(tmp_path, groups=("site", "age"))
    assert images.name == tmp_path.name and images.classes == ("no", "yes")
    assert sizes(images) == (42, 6, 12)
    assert (images.table["age"] == "not stated").any()
    assert "20 images have no age" in notes_of(images) and "70 % train" in notes_of(images)
    other = load(tmp_path / "labels.csv", target="site", groups=("class",))
    assert other.classes == ("a", "b")


def test_the_order_of_a_csv_decides_nothing(tmp_path):
    rows = table_of(tmp_path)
    first = load(tmp_path)
    rows[::-1].to_csv(tmp_path / "labels.csv", index=False)
    second = load(tmp_path)
    pd.testing.assert_frame_equal(first.table, second.table)
    assert first.digest == second.digest
    assert (first.read(np.arange(9)) == second.read(np.arange(9))).all()
    picture(tmp_path / "pics" / "07.jpg", 999)
    assert load(tmp_path).digest != first.digest, "another picture under the same name"


def test_splits_of_a_csv_are_taken_and_validation_is_held_out(tmp_path):
    table_of(tmp_path, split=["Train"] * 40 + ["test"] * 20)
    assert sizes(load(tmp_path)) == (36, 4, 20)
    table_of(tmp_path, split=["train"] * 30 + ["val"] * 10 + ["test"] * 20)
    images = load(tmp_path)
    assert sizes(images) == (30, 10, 20) and not images.notes
    table_of(tmp_path, split=["train"] * 30 + ["holdout"] * 30)
    fault = faults_of(tmp_path)
    assert "'holdout'" in fault and "Known: dev, test" in fault


@pytest.mark.parametrize(
    ("csv", "told"),
    [
        ("file,label\na.jpg,x\n", "Columns missing: path. Found: file, label"),
        ("path,kind\na.jpg,x\n", "Columns missing: label."),
        ("path,label,class\na.jpg,x,y\n", "names the audit uses itself: class"),
        ("path,label\n,x\n", "name no path"),
        ("path,label\n/etc/passwd,x\nb.jpg,y\n", "absolute or climb out"),
        ("path,label\n../b.jpg,x\nb.jpg,y\n", "../b.jpg"),
        ("path,label\n.,x\nb.jpg,y\n", "absolute or climb out"),
        ("path,label\nC:\\b.jpg,x\nb.jpg,y\n", "absolute or climb out"),
        ("path,label\nb.jpg,x\nb.jpg,y\n", "contradict each other"),
        ("path,label\nc.jpg,x\nd.jpg,y\n", "None of its images is there"),
        # lines as old Macs end them
        ("path,label\rc.jpg,x\rd.jpg,y\r", "None of its images is there"),
        (f"path,{'x' * 200_000}\nc.jpg,x\n", "Columns missing: label."),
    ],
)
def test_faults_of_a_csv(tmp_path, csv, told):
    picture(tmp_path / "b.jpg")
    (tmp_path / "x.csv").write_text(csv)
    assert told in faults_of(tmp_path / "x.csv")


def test_classes_and_groups_that_are_too_few_are_said(tmp_path):
    table_of(tmp_path, site=["a"] * 59 + ["b"], label=["yes"] * 60)
    assert "fewer than two classes (yes)" in faults_of(tmp_path)
    table_of(tmp_path, site=["a"] * 59 + ["b"])
    assert (load(tmp_path, groups=("site",)).table["site"] == "b").sum() == 1
    assert "Known: class, site" in faults_of(tmp_path, groups=("gender",))
    table_of(tmp_path, split=["train"] * 40 + ["test"] * 20, label=["yes"] * 40 + ["no"] * 20)
    assert "No training image shows 'no'" in faults_of(tmp_path)
    table_of(tmp_path, split=["train"] * 60)
    assert "No test images are left" in faults_of(tmp_path)
    table_of(tmp_path, n=90, name=[f"person {i}" for i in range(90)])
    assert "name" not in look_images(str(tmp_path)).groups


def test_missing_empty_and_truncated_images_are_left_out_and_named(tmp_path):
    table_of(tmp_path)
    pics = tmp_path / "pics"
    (pics / "05.jpg").unlink()
    (pics / "06.jpg").write_bytes(b"")
    (pics / "07.jpg").write_bytes((pics / "07.jpg").read_bytes()[:300])
    (pics / "08.jpg").write_text("this is no picture")
    picture(pics / "09.jpg", kind="EPS")  # of which Pillow would start a program
    images = load(tmp_path)
    told = notes_of(images)
    assert "2 images are missing or empty and were left out: pics/05.jpg, pics/06.jpg." in told
    assert "3 images cannot be decoded and were left out:" in told
    assert all(f"pics/0{number}.jpg" in told for number in (7, 8, 9))
    assert images.read(np.arange(55)).shape == (len(images.table), 16, 16, 3)


def test_large_sets_are_not_decoded_first_but_say_which_file_is_broken(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.data.images.pixels.CHECK_BELOW", 10)
    table_of(tmp_path)
    (tmp_path / "pics" / "08.jpg").write_text("this is no picture")
    images = load(tmp_path)
    assert len(images.table) == 60
    with pytest.raises(RequestError, match="pics/08.jpg.*cannot be decoded"):
        images.read(np.arange(60))
    gone = int(np.flatnonzero(images.table["image_id"] == "pics/09.jpg")[0])
    (tmp_path / "pics" / "09.jpg").unlink()
    with pytest.raises(RequestError, match="pics/09.jpg"):
        images.read(np.array([gone]))


def test_links_out_of_the_folder_count_as_missing(tmp_path):
    table_of(tmp_path / "in")
    outside, link = (
        picture(tmp_path / "out" / "secret.jpg", 77),
        tmp_path / "in" / "pics" / "04.jpg",
    )
    link.unlink()
    link.symlink_to(outside)
    told = "1 image is missing or empty and was left out: pics/04.jpg"
    assert told in notes_of(load(tmp_path / "in"))


def test_a_picture_that_is_tested_does_not_train(tmp_path):
    table_of(tmp_path, split=["train"] * 30 + ["val"] * 10 + ["test"] * 20)
    pics = tmp_path / "pics"
    (pics / "01.jpg").write_bytes((pics / "50.jpg").read_bytes())
    images = load(tmp_path)
    assert "pics/01.jpg" not in set(images.table["image_id"])
    assert "also in validation or test" in notes_of(images)


def test_large_photographs_are_decoded_small():
    steps = np.linspace(0, 255, 512).astype(np.uint8)
    photo = Image.fromarray(np.tile(steps, (512, 1))).convert("RGB")
    small, told = decoded(file_of(photo, "JPEG", quality=95), 32)
    assert not told
    assert np.abs(small[:, :, 0].mean(axis=0) - steps.reshape(32, 16).mean(axis=1)).max() < 3
