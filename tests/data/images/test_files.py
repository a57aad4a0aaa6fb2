"""Images on disk: the published layouts, any CSV, and files that are missing, broken, repeated or
elsewhere."""

import io

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from engine.core.errors import RequestError
from engine.data.images.load import ImageAsk, load_images, look


def picture(path, number=0, size=(24, 20), kind="JPEG"):
    """A picture that differs from number to number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(number).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, format=kind)
    return path


def faults_of(source, **ask):
    with pytest.raises(RequestError) as caught:
        load_images(str(source), ImageAsk(**{"size": 16} | ask))
    return "\n".join(map(str, caught.value.faults))


def load(source, **ask):
    return load_images(str(source), ImageAsk(**{"size": 16} | ask))


def celeba(home, n=30):
    blond, male = np.arange(n) % 3 == 0, np.arange(n) % 2 == 0
    lines = [str(n), "Bald Blond_Hair Male "]
    lines += [
        f"{i + 1:06d}.jpg -1 {1 if blond[i] else -1:2d} {1 if male[i] else -1:2d}" for i in range(n)
    ]
    home.mkdir(parents=True, exist_ok=True)
    (home / "list_attr_celeba.txt").write_text("\n".join(lines) + "\n")
    places = [0 if i < 18 else 1 if i < 24 else 2 for i in range(n)]
    (home / "list_eval_partition.txt").write_text(
        "".join(f"{i + 1:06d}.jpg {p}\n" for i, p in enumerate(places))
    )
    for i in range(n):
        picture(home / "img_align_celeba" / f"{i + 1:06d}.jpg", i, (18, 22))


def test_celeba_in_torchvisions_layout(tmp_path):
    celeba(tmp_path / "celeba")
    info = look(str(tmp_path))
    assert (info.default_target, info.default_groups, info.n) == ("Blond_Hair", ("Male",), 30)
    assert info.targets == ("Bald", "Blond_Hair", "Male") and info.groups[-1] == "class"
    images = load(tmp_path)
    assert images.classes == ("not blond hair", "blond hair") and images.groups == ("Male",)
    assert images.table["split"].value_counts().to_dict() == {
        "train": 18,
        "validation": 6,
        "test": 6,
    }
    first = images.table.set_index("image_id").loc["000001.jpg"]
    assert (first["label"], first["Male"], first["split"]) == (1, "male", "train")
    assert set(images.table["Male"]) == {"male", "non-male"}
    same = load(tmp_path / "celeba", target="Male", groups=("Blond_Hair",))
    assert same.classes == ("non-male", "male") and set(same.table["Blond_Hair"]) == {
        "blond hair",
        "not blond hair",
    }
    assert "Known: Bald, Blond_Hair, Male" in faults_of(tmp_path, target="Smiling")


def test_celeba_that_is_incomplete_or_garbled(tmp_path):
    celeba(tmp_path)
    (tmp_path / "list_eval_partition.txt").write_text("000001.jpg 7\n")
    assert "0, 1 or 2" in faults_of(tmp_path)
    (tmp_path / "list_eval_partition.txt").unlink()
    assert "list_eval_partition.txt is absent" in faults_of(tmp_path)
    (tmp_path / "list_eval_partition.txt").write_text("000001.jpg 0\n")
    text = (tmp_path / "list_attr_celeba.txt").read_text()
    (tmp_path / "list_attr_celeba.txt").write_text(text.replace("000002.jpg -1", "000002.jpg 5"))
    assert "1 or -1" in faults_of(tmp_path, target="Bald")
    (tmp_path / "list_attr_celeba.txt").write_text("\xff\n")
    assert "not a number of images" in faults_of(tmp_path)


def test_lfw_keeps_people_on_one_side(tmp_path):
    rows, header = [], "#\tperson\timagenum\tMale\tWavy Hair"
    for person in range(20):
        for number in (1, 2):
            name = f"Ann O'Nym {person}"
            rows.append(
                f"{name}\t{number}\t{1.5 if person % 2 else -0.2}\t{0.1 if (person + number) % 3 else -1}"
            )
            folder = name.replace(" ", "_")
            picture(
                tmp_path / "lfw-py" / "lfw_funneled" / folder / f"{folder}_{number:04d}.jpg",
                2 * person + number,
            )
    (tmp_path / "lfw_attributes.txt").write_text(
        "# lfw_attributes.txt\n" + "\n".join([header, *rows]) + "\n"
    )
    info = look(str(tmp_path))
    assert (info.default_target, info.default_groups) == (
        "Wavy Hair",
        ("Male",),
    ) and 38 <= info.n <= 44
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
    assert images.table["split"].value_counts().to_dict() == {
        "train": 24,
        "test": 10,
        "validation": 4,
    }
    assert any("2 images of people in neither list" in note for note in images.notes)


def fitzpatrick(home, rows, scale="fitzpatrick_scale"):
    columns = ["md5hash", scale, "three_partition_label", "url"]
    pd.DataFrame(rows, columns=columns).to_csv(home / "fitzpatrick17k.csv", index=False)
    for number, name in enumerate(sorted({row[0] for row in rows})):
        picture(home / "images" / f"{name}.jpg", number)


def test_fitzpatrick17k_trains_on_light_skin_only(tmp_path):
    kinds = ("benign", "malignant", "non-neoplastic")
    rows = [(f"h{i:03d}", 1 + i % 6, kinds[i // 6 % 3], "") for i in range(144)]
    rows += [
        ("x1", -1, "benign", ""),
        ("h000", 1, "benign", ""),
        ("h001", 5, "benign", ""),
        ("x2", 3, "", ""),
    ]
    fitzpatrick(tmp_path, rows)
    images = load(tmp_path)
    assert images.classes == kinds and images.groups == ("skin",)
    counts = images.table.groupby(["split", "skin"]).size()
    assert counts["train"].to_dict() == {"light": 47} and set(counts["test"].index) == {
        "medium",
        "dark",
    }
    assert images.table.groupby(["split", "label"]).size()["validation"].tolist() == [8, 8, 8]
    assert counts["test"].sum() == 72 and "h001" not in set(images.table["image_id"])
    said = " ".join(images.notes)
    assert (
        "2 rows name no skin tone" in said
        and "1 rows repeat" in said
        and "1 hashes have rows that contradict" in said
    )
    by_scale = load(tmp_path / "fitzpatrick17k.csv", groups=("fitzpatrick_scale",))
    assert set(by_scale.table["fitzpatrick_scale"]) == set("123456")


def test_fitzpatrick17k_without_images_or_columns(tmp_path):
    (tmp_path / "f.csv").write_text("md5hash,fitzpatrick,label\na,1,x\nb,3,y\n")
    assert "No image named <md5hash>.jpg" in faults_of(tmp_path)
    (tmp_path / "f.csv").write_text("md5hash,label\na,x\n")
    assert "Columns missing: fitzpatrick_scale. Found: md5hash, label" in faults_of(tmp_path)


def test_an_image_folder(tmp_path):
    for number in range(40):
        split, name = (
            ("train", "test")[number % 4 == 0],
            ("cat", "dog")[number % 2 if number % 4 else number // 4 % 2],
        )
        picture(tmp_path / split / name / f"{number}.png", number, kind="PNG")
    (tmp_path / "train" / "cat" / "Thumbs.db").write_text("no picture")
    images = load(tmp_path)
    assert look(str(tmp_path)).n == len(images.table) == 40 and images.classes == ("cat", "dog")
    assert images.table["split"].value_counts().to_dict() == {
        "train": 27,
        "test": 10,
        "validation": 3,
    }
    for file in (tmp_path / "test").rglob("*.png"):
        file.unlink()
    assert "No images in test/<class>/" in faults_of(tmp_path)


def test_pictures_below_a_class_are_read_and_those_outside_are_told(tmp_path):
    """Before, what lay in folders within a class was no picture, and what lay outside was not
    told."""
    for number in range(40):
        split, name, inside = (
            ("train", "test")[number % 4 == 0],
            "cd"[number // 4 % 2],
            "ab"[number % 2],
        )
        picture(tmp_path / split / name / inside / f"{number}.png", number, kind="PNG")
    before = load(tmp_path)
    assert len(before.table) == 40 and not any("not read" in note for note in before.notes)
    for at, name in enumerate(
        ("testing/c", "unlabelled", "train", "test/c/.ipynb_checkpoints", "__MACOSX")
    ):
        picture(tmp_path / name / "more.png", 50 + at, kind="PNG")
    images = load(tmp_path)
    assert (
        "Folders that are not read, for they name no split, or one twice: test, unlabelled."
        in images.notes
    )
    assert (
        "Pictures that lie in no class folder and were left out: 1 (train/more.png)."
        in images.notes
    )


def table_of(folder, n=60, **more):
    """n pictures and a CSV about them."""
    rows = pd.DataFrame(
        {"path": [f"pics/{i:02d}.jpg" for i in range(n)], "label": ["no", "yes", "yes"] * (n // 3)}
    )
    rows["site"] = ["a", "b"] * (n // 2)
    for name, values in more.items():
        rows[name] = values
    for number, path in enumerate(rows["path"]):
        picture(folder / path, number)
    rows.to_csv(folder / "labels.csv", index=False)
    return rows


def test_any_folder_with_a_csv(tmp_path):
    table_of(tmp_path, age=["old", "", "young"] * 20, number=range(60))
    info = look(str(tmp_path))
    assert (info.targets, info.groups, info.n) == (
        ("label", "site", "age", "number"),
        ("site", "age", "number", "class"),
        60,
    )
    images = load(tmp_path, groups=("site+age",))
    assert images.name == tmp_path.name and images.classes == ("no", "yes")
    assert images.table["split"].value_counts().to_dict() == {
        "train": 42,
        "test": 12,
        "validation": 6,
    }
    assert images.table["site+age"].str.contains("not stated").any()
    assert any("20 images have no age" in note for note in images.notes)
    assert any("70 % train" in note for note in images.notes)
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
    assert load(tmp_path).table["split"].value_counts().to_dict() == {
        "train": 36,
        "test": 20,
        "validation": 4,
    }
    table_of(tmp_path, split=["train"] * 30 + ["val"] * 10 + ["test"] * 20)
    images = load(tmp_path)
    assert images.table["split"].value_counts().to_dict() == {
        "train": 30,
        "test": 20,
        "validation": 10,
    }
    assert not images.notes
    table_of(tmp_path, split=["train"] * 30 + ["holdout"] * 30)
    assert "'holdout'" in faults_of(tmp_path) and "Known: dev, test" in faults_of(tmp_path)


@pytest.mark.parametrize(
    ("csv", "said"),
    [
        ("", "empty"),
        ("path,label\n", "no rows"),
        ("file,label\na.jpg,x\n", "Columns missing: path. Found: file, label"),
        ("path,kind\na.jpg,x\n", "Columns missing: label."),
        ("path,label,label\na.jpg,x,y\n", "named twice: label"),
        ("path,label,class\na.jpg,x,y\n", "names the audit uses itself: class"),
        ('path,label\n"a.jpg,x\n', "quotation is broken"),
        ("path,label\n,x\n", "name no path"),
        ("path,label\n/etc/passwd,x\nb.jpg,y\n", "absolute or climb out"),
        ("path,label\n../b.jpg,x\nb.jpg,y\n", "../b.jpg"),
        ("path,label\n.,x\nb.jpg,y\n", "absolute or climb out"),
        ("path,label\nC:\\b.jpg,x\nb.jpg,y\n", "absolute or climb out"),
        ("path,label\nb.jpg,x\nb.jpg,y\n", "contradict each other"),
        ("path,label\nc.jpg,x\nd.jpg,y\n", "None of its images is there"),
        (
            "path,label\rc.jpg,x\rd.jpg,y\r",
            "None of its images is there",
        ),  # lines as old Macs end them
        (f"path,{'x' * 200_000}\nc.jpg,x\n", "Columns missing: label."),
    ],
)
def test_faults_of_a_csv(tmp_path, csv, said):
    picture(tmp_path / "b.jpg")
    (tmp_path / "x.csv").write_text(csv)
    assert said in faults_of(tmp_path / "x.csv")


def test_one_class_is_said_and_a_group_with_one_image_is_kept(tmp_path):
    table_of(tmp_path, site=["a"] * 59 + ["b"], label=["yes"] * 60)
    assert "fewer than two classes (yes)" in faults_of(tmp_path)
    table_of(tmp_path, site=["a"] * 59 + ["b"])
    assert (load(tmp_path, groups=("site",)).table["site"] == "b").sum() == 1
    table_of(tmp_path, split=["train"] * 40 + ["test"] * 20, label=["yes"] * 40 + ["no"] * 20)
    assert "No training image shows 'no'" in faults_of(tmp_path)
    table_of(tmp_path, split=["train"] * 60)
    assert "No test images are left" in faults_of(tmp_path)


def test_missing_empty_and_truncated_images_are_left_out_and_named(tmp_path):
    table_of(tmp_path)
    (tmp_path / "pics" / "05.jpg").unlink()
    (tmp_path / "pics" / "06.jpg").write_bytes(b"")
    whole = (tmp_path / "pics" / "07.jpg").read_bytes()
    (tmp_path / "pics" / "07.jpg").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "pics" / "08.jpg").write_text("this is no picture")
    images = load(tmp_path)
    assert len(images.table) == 56
    said = " ".join(images.notes)
    assert "2 images are missing or empty and were left out: pics/05.jpg, pics/06.jpg." in said
    assert "2 images cannot be decoded and were left out:" in said and "pics/07.jpg" in said
    assert images.read(np.arange(56)).shape == (56, 16, 16, 3)


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


def test_programs_are_not_started_by_odd_formats(tmp_path):
    table_of(tmp_path)
    picture(tmp_path / "pics" / "03.jpg", kind="EPS")
    assert any("pics/03.jpg" in note for note in load(tmp_path).notes)


def test_links_out_of_the_folder_count_as_missing(tmp_path):
    table_of(tmp_path / "in")
    outside = picture(tmp_path / "out" / "secret.jpg", 77)
    (tmp_path / "in" / "pics" / "04.jpg").unlink()
    (tmp_path / "in" / "pics" / "04.jpg").symlink_to(outside)
    images = load(tmp_path / "in")
    assert any(
        "1 image is missing or empty and was left out: pics/04.jpg" in note for note in images.notes
    )


def test_a_picture_that_is_tested_does_not_train(tmp_path):
    table_of(tmp_path, split=["train"] * 40 + ["test"] * 20)
    (tmp_path / "pics" / "01.jpg").write_bytes((tmp_path / "pics" / "50.jpg").read_bytes())
    images = load(tmp_path)
    assert "pics/01.jpg" not in set(images.table["image_id"]) or "validation" in set(
        images.table.loc[images.table["image_id"] == "pics/01.jpg", "split"]
    )
    assert any("also in validation or test" in note for note in images.notes)


def test_pictures_are_cropped_to_their_middle_and_made_rgb(tmp_path):
    table_of(tmp_path)
    grey = np.zeros((10, 30), np.uint8)
    grey[:, 10:20] = 200
    Image.fromarray(grey).save(tmp_path / "pics" / "00.jpg", format="PNG")
    images = load(tmp_path)
    row = np.flatnonzero(images.table["image_id"] == "pics/00.jpg")
    assert (images.read(row) == 200).all()


def test_large_photographs_are_decoded_small(tmp_path):
    from engine.data.images.pixels import decoded

    steps = np.linspace(0, 255, 512).astype(np.uint8)
    photo = np.stack([np.broadcast_to(steps, (512, 512))] * 3, axis=2)
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(photo)).save(buffer, "JPEG", quality=95)
    small, told = decoded(buffer.getvalue(), 32)
    assert not told
    assert (
        np.abs(small[:, :, 0].mean(axis=0) - photo[0, :, 0].reshape(32, 16).mean(axis=1)).max() < 3
    )


def test_wrong_columns_and_unreadable_folders(tmp_path):
    table_of(tmp_path, name=[f"person {i % 60}" for i in range(60)])
    assert "Known: class, name, site" in faults_of(tmp_path, groups=("gender",))
    table_of(tmp_path, n=90, name=[f"person {i}" for i in range(90)])
    assert "name" not in look(str(tmp_path)).groups
