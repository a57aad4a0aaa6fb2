"""What becomes of a picture's range: every mode of every format that is read gives the right
pixels, or is refused."""

import shutil
import struct

import numpy as np
import pytest
from PIL import Image

from engine.data.images.load import look_images
from engine.data.images.pixels import Damaged, decoded
from tests.builders import refused
from tests.data import notes_of
from tests.data.images import faults_of, file_of, load, noise, npz

GREY = np.arange(256, dtype=np.uint8).reshape(16, 16)
GREY_PICTURE, IN_THREE = Image.fromarray(GREY), np.repeat(GREY[..., None], 3, axis=2)
COLOUR = noise(0, 16, 16, 3)
DEEP = "deep"


def packed(fields, *numbers):
    return struct.pack(f"<{fields}", *numbers)


def tiff(bits, numbers, photometric=1, sample_format=1, channels=1):
    """A TIFF of one strip, 16 x 16 pixels; numbers: its bytes. Of several channels Pillow writes
    none of 16 bits."""
    beside = packed("H" * channels, *[bits] * channels) if channels > 1 else b""
    of_bits = (3, 3, 8 + len(numbers)) if beside else (3, 1, bits)
    tags = [(tag, 3, 1, value) for tag, value in ((256, 16), (257, 16), (259, 1), (278, 16))]
    tags += [(258, *of_bits), (262, 3, 1, photometric), (277, 3, 1, channels)]
    tags += [(273, 4, 1, 8), (279, 4, 1, len(numbers))]
    tags += [] if beside else [(339, 3, 1, sample_format)]
    entries = b"".join(packed("HHII", *tag) for tag in sorted(tags))
    start = b"II*\0" + packed("I", 8 + len(numbers) + len(beside)) + numbers + beside
    return start + packed("H", len(tags)) + entries + b"\0" * 4


def twelve_bits(numbers):
    """16-bit numbers below 4096, two in three bytes."""
    first, second = numbers.ravel()[::2].astype(int), numbers.ravel()[1::2].astype(int)
    three = [first >> 4, (first & 15) << 4 | second >> 8, second & 255]
    return np.stack(three, 1).astype(np.uint8).tobytes()


def pgm(most, numbers):
    return f"P5\n16 16\n{most}\n".encode() + numbers.astype(">u2").tobytes()


GREY16 = GREY.astype(np.uint16) * 257
BIG_ENDIAN = Image.frombytes("I;16B", (16, 16), GREY16.astype(">u2").tobytes())
OPAQUE = file_of(GREY_PICTURE.convert("LA"), "TIFF")
ALPHA_KIND = packed("HHI", 338, 3, 1)
"""Of a TIFF: 2 for separate transparency, 1 for one multiplied into grey."""
SAME_GREY = {
    "PNG, L": file_of(GREY_PICTURE),
    "PGM, 255": file_of(GREY_PICTURE, "PPM"),
    "BMP": file_of(GREY_PICTURE, "BMP"),
    "GIF": file_of(GREY_PICTURE, "GIF"),
    "TIFF, L": file_of(GREY_PICTURE, "TIFF"),
    "PNG, LA": file_of(GREY_PICTURE.convert("LA")),
    "TIFF, LA": OPAQUE,
    "TIFF, La": OPAQUE.replace(ALPHA_KIND + b"\2", ALPHA_KIND + b"\1"),
    "PNG, palette": file_of(GREY_PICTURE.convert("P")),
    "TIFF, 8 bits, white is zero": tiff(8, (255 - GREY).tobytes(), photometric=0),
}
DEEP_GREY = {
    "PNG, 16 bits": file_of(Image.fromarray(GREY16)),
    "TIFF, 16 bits": file_of(Image.fromarray(GREY16), "TIFF"),
    "TIFF, 16 bits, big-endian": file_of(BIG_ENDIAN, "TIFF"),
    "TIFF, 16 bits, white is zero": tiff(16, (65535 - GREY16).tobytes(), photometric=0),
    "TIFF, 12 bits": tiff(12, twelve_bits(np.rint(GREY * (4095 / 255)))),
    "PGM, 65535": pgm(65535, GREY16),
    "PGM, 1023": pgm(1023, np.rint(GREY * (1023 / 255))),
}


@pytest.mark.parametrize("name", [*SAME_GREY, *DEEP_GREY])
def test_grey_keeps_its_range(name):
    pixels, told = decoded((SAME_GREY | DEEP_GREY)[name], 16)
    np.testing.assert_array_equal(pixels, IN_THREE)
    assert told == ((DEEP,) if name in DEEP_GREY else ())


def test_sixteen_bits_are_rounded_not_cut_off():
    fine = np.linspace(0, 65535, 256).astype(np.uint16).reshape(16, 16) - (GREY > 9)
    pixels, _ = decoded(file_of(Image.fromarray(fine.astype(np.uint16))), 16)
    np.testing.assert_array_equal(pixels[..., 0], np.rint(fine / 257))


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "WEBP"])
def test_colour_keeps_its_range(kind):
    more = {"lossless": True} if kind == "WEBP" else {}
    pixels, told = decoded(file_of(Image.fromarray(COLOUR), kind, **more), 16)
    np.testing.assert_array_equal(pixels, COLOUR)
    assert told == ()


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr", "L"])
def test_jpegs_of_other_colours_are_near_their_own(mode):
    content = file_of(Image.fromarray(IN_THREE).convert(mode), "JPEG", quality=100)
    assert np.abs(decoded(content, 16)[0].astype(int) - IN_THREE).max() < 8


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "BMP", "PPM"])
def test_ones_and_zeros_are_black_and_white(kind):
    pixels, _ = decoded(file_of(Image.fromarray(GREY > 99), kind), 16)
    np.testing.assert_array_equal(pixels[..., 0], np.where(GREY > 99, 255, 0))


def test_sixteen_bits_of_colour_keep_their_range():
    numbers = (COLOUR.astype(np.uint16) * 257).tobytes()
    pixels, told = decoded(tiff(16, numbers, photometric=2, channels=3), 16)
    np.testing.assert_array_equal(pixels, COLOUR)
    assert told == (DEEP,)


@pytest.mark.parametrize(
    "content",
    [
        file_of(Image.fromarray(GREY.astype(np.float32)), "TIFF"),
        file_of(Image.fromarray(GREY.astype(np.int32)), "TIFF"),
        tiff(16, GREY.astype(np.int16).tobytes(), sample_format=2),
        tiff(8, GREY.tobytes(), sample_format=2),
        file_of(Image.fromarray(COLOUR).convert("LAB"), "TIFF"),
        b"Pf\n16 16\n-1.0\n" + GREY.astype(np.float32).tobytes(),
    ],
    ids=["floats", "32 bits", "signed 16", "signed 8", "LAB", "PFM"],
)
def test_numbers_without_a_known_range_are_refused(content):
    with pytest.raises(Damaged, match="have no known range: save it with 8 or 16 bits per colour"):
        decoded(content, 16)


def test_transparency_frames_and_turns_are_told():
    exif = Image.Exif()
    exif[274] = 6
    see_through, opaque = (
        np.dstack([COLOUR, alpha])
        for alpha in (np.where(GREY > 9, 255, 0).astype(np.uint8), GREY | 255)
    )
    frames = {"save_all": True, "append_images": [Image.fromarray(255 - GREY)]}
    for name, content, own in (
        ("clear", file_of(Image.fromarray(see_through)), COLOUR),
        ("frames", file_of(GREY_PICTURE, "GIF", **frames), IN_THREE),
        ("turned", file_of(Image.fromarray(COLOUR), exif=exif), COLOUR),
    ):
        pixels, told = decoded(content, 16)
        assert told == (name,)
        np.testing.assert_array_equal(pixels, own)
    assert decoded(file_of(Image.fromarray(opaque)), 16)[1] == ()


def folder(home, content_of, suffix="png"):
    """Class folders of 40 pictures; content_of: the bytes of picture number i."""
    for at in range(40):
        split, name = ("train", "test")[at % 4 == 0], ("cat", "dog")[at // 4 % 2]
        place = home / split / name / f"{at}.{suffix}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content_of(at))
    return home


def grey(at):
    return file_of(Image.fromarray(noise(at, 16, 16)))


def grey16(at, factor=257):
    return file_of(Image.fromarray(noise(at, 16, 16).astype(np.uint16) * factor))


def test_a_set_of_sixteen_bits_is_that_of_eight(tmp_path):
    eight, sixteen = load(folder(tmp_path / "8", grey)), load(folder(tmp_path / "16", grey16))
    rows = np.arange(40)
    np.testing.assert_array_equal(eight.read(rows), sixteen.read(rows))
    assert "More than 8 bits per colour were brought to 8 in 40 of 40 images." in sixteen.notes
    assert "of 40 images" not in notes_of(eight)


def test_suspicious_sets_are_told(tmp_path):
    told = notes_of(load(folder(tmp_path / "dark", lambda at: grey16(at, 1))))
    assert "Less than a sixteenth of the 16 bits is used" in told
    assert "the picture is nearly black, in 40 of 40" in told
    assert "Nearly every pixel is black in 40 of 40 images; was another range meant?" in told
    pale = np.full((16, 16), 255, np.uint8)
    pale[0, :3] = 0
    mixed = lambda at: file_of(Image.fromarray(np.roll(pale, at))) if at % 3 else grey(at)  # noqa: E731
    told = notes_of(load(folder(tmp_path / "mixed", mixed)))
    assert "Nearly every pixel is white in" in told and "black" not in told


def test_arrays_of_another_range_are_refused_or_told(tmp_path):
    labels = np.arange(40) % 2
    for split in ("train", "test"):
        npz(tmp_path, split, noise(len(split), 40, 16, 16, 3) % 2, labels)
    assert "Nearly every pixel is black" in notes_of(load(tmp_path))
    for kind, fix in (
        (np.float32, "np.rint(images * 255).astype(np.uint8)"),
        (np.uint16, "np.rint(images / 257).astype(np.uint8)"),
    ):
        npz(tmp_path, "train", noise(0, 40, 16, 16, 3).astype(kind), labels)
        assert fix in faults_of(tmp_path) and fix in str(refused(look_images, str(tmp_path)))


def test_a_set_of_refused_pictures_says_why_none_is_left(tmp_path):
    floats = lambda at: file_of(Image.fromarray(GREY.astype(np.float32)), "TIFF")  # noqa: E731
    fault = faults_of(folder(tmp_path, floats, "tif"))
    assert "No train images are left. 40 images cannot be decoded" in fault
    assert "floating-point" in fault


def test_hidden_files_are_no_pictures_and_others_that_are_none_are_counted(tmp_path):
    """macOS leaves ._x.png beside x.png on other disks; Windows leaves Thumbs.db."""
    home = folder(tmp_path, grey)
    plain = load(home)
    shutil.copy(home / "train" / "cat" / "1.png", home / "train" / "cat" / "._1.png")
    (home / "test" / "cat" / "._0.png").write_bytes(b"\0\5\x16\7")
    (home / "test" / "cat" / "Thumbs.db").write_bytes(b"x")
    images = load(home)
    assert len(images.table) == 40 and images.digest == plain.digest
    assert "left out" not in notes_of(images)
    for name in ("a.heic", "b.HEIC", "c.avif"):
        (home / "train" / "cat" / name).write_bytes(b"x")
    left = "3 files do not end as pictures that are read here and were left out: .avif, .heic."
    assert left in notes_of(load(home))


def test_hidden_tables_are_no_tables(tmp_path):
    rows = ["path,label,split"]
    for at in range(40):
        (tmp_path / f"{at}.png").write_bytes(grey(at))
        rows.append(f"{at}.png,{'cat' if at % 2 else 'dog'},{'test' if at % 4 < 2 else 'train'}")
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    (tmp_path / "._labels.csv").write_bytes(b"\0\5\x16\7md5hash")
    assert len(load(tmp_path).table) == 40
