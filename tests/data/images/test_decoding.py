"""What becomes of a picture's range: every mode of every format that is read gives the right
pixels, or is refused."""

from __future__ import annotations

import io
import shutil
import struct

import numpy as np
import pytest
from PIL import Image

from engine.core.errors import RequestError
from engine.data.images.load import ImageAsk, load_images, look
from engine.data.images.pixels import Damaged, decoded

GREY = np.arange(256, dtype=np.uint8).reshape(16, 16)
COLOUR = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
DEEP, CLEAR = "deep", "clear"


def file_of(image, kind, **more):
    memory = io.BytesIO()
    image.save(memory, kind, **more)
    return memory.getvalue()


def tiff(bits, numbers, photometric=1, sample_format=1):
    """A grey TIFF of one strip; numbers: its bytes, of 16 x 16 pixels."""
    tags = [
        (256, 16),
        (257, 16),
        (258, bits),
        (259, 1),
        (262, photometric),
        (273, 8),
        (277, 1),
        (278, 16),
        (279, len(numbers)),
        (339, sample_format),
    ]
    entries = b"".join(
        struct.pack("<HHII", tag, 4 if tag in (273, 279) else 3, 1, value) for tag, value in tags
    )
    return (
        b"II*\0"
        + struct.pack("<I", 8 + len(numbers))
        + numbers
        + struct.pack("<H", len(tags))
        + entries
        + b"\0" * 4
    )


def twelve_bits(numbers):
    """16-bit numbers below 4096, two in three bytes."""
    first, second = numbers.ravel()[::2].astype(int), numbers.ravel()[1::2].astype(int)
    return (
        np.stack([first >> 4, (first & 15) << 4 | second >> 8, second & 255], 1)
        .astype(np.uint8)
        .tobytes()
    )


def pgm(most, numbers):
    return f"P5\n16 16\n{most}\n".encode() + numbers.astype(">u2").tobytes()


GREY16 = GREY.astype(np.uint16) * 257
FINE = np.linspace(0, 65535, 256).astype(np.uint16).reshape(16, 16) - (
    np.arange(256).reshape(16, 16) > 9
)
OPAQUE = file_of(Image.fromarray(GREY).convert("LA"), "TIFF")
ALPHA_KIND = struct.pack(
    "<HHI", 338, 3, 1
)  # of a TIFF: 2 for separate transparency, 1 for one multiplied into grey
RGBA = np.dstack([COLOUR, np.where(GREY > 9, 255, 0).astype(np.uint8)])
SAME_GREY = {
    "PNG, L": file_of(Image.fromarray(GREY), "PNG"),
    "PNG, 16 bits": file_of(Image.fromarray(GREY16), "PNG"),
    "TIFF, 16 bits": file_of(Image.fromarray(GREY16), "TIFF"),
    "TIFF, 16 bits, big-endian": file_of(
        Image.frombytes("I;16B", (16, 16), GREY16.astype(">u2").tobytes()), "TIFF"
    ),
    "TIFF, 16 bits, white is zero": tiff(16, (65535 - GREY16).tobytes(), photometric=0),
    "TIFF, 8 bits, white is zero": tiff(8, (255 - GREY).tobytes(), photometric=0),
    "TIFF, 12 bits": tiff(12, twelve_bits(np.rint(GREY * (4095 / 255)))),
    "PGM, 65535": pgm(65535, GREY16),
    "PGM, 1023": pgm(1023, np.rint(GREY * (1023 / 255))),
    "PGM, 255": file_of(Image.fromarray(GREY), "PPM"),
    "BMP": file_of(Image.fromarray(GREY), "BMP"),
    "GIF": file_of(Image.fromarray(GREY), "GIF"),
    "TIFF, L": file_of(Image.fromarray(GREY), "TIFF"),
    "PNG, LA": file_of(Image.fromarray(GREY).convert("LA"), "PNG"),
    "TIFF, LA": OPAQUE,
    "TIFF, La": OPAQUE.replace(ALPHA_KIND + b"\2", ALPHA_KIND + b"\1"),
    "PNG, palette": file_of(Image.fromarray(GREY).convert("P"), "PNG"),
}


@pytest.mark.parametrize("name", SAME_GREY)
def test_grey_keeps_its_range(name):
    pixels, told = decoded(SAME_GREY[name], 16)
    np.testing.assert_array_equal(pixels, np.repeat(GREY[..., None], 3, axis=2))
    assert told == (
        (DEEP,) if any(word in name for word in ("16 bits", "12 bits", "65535", "1023")) else ()
    )


def test_sixteen_bits_are_rounded_not_cut_off():
    pixels, _ = decoded(file_of(Image.fromarray(FINE), "PNG"), 16)
    np.testing.assert_array_equal(pixels[..., 0], np.rint(FINE / 257))


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "WEBP"])
def test_colour_keeps_its_range(kind):
    more = {"lossless": True} if kind == "WEBP" else {}
    pixels, told = decoded(file_of(Image.fromarray(COLOUR), kind, **more), 16)
    np.testing.assert_array_equal(pixels, COLOUR)
    assert told == ()


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr", "L"])
def test_jpegs_of_other_colours_are_near_their_own(mode):
    smooth = np.repeat(GREY[..., None], 3, axis=2)
    content = file_of(Image.fromarray(smooth).convert(mode), "JPEG", quality=100)
    assert np.abs(decoded(content, 16)[0].astype(int) - smooth).max() < 8


def test_ones_and_zeros_are_black_and_white():
    for kind in ("PNG", "TIFF", "BMP", "PPM"):
        pixels, _ = decoded(file_of(Image.fromarray(GREY > 99), kind), 16)
        np.testing.assert_array_equal(pixels[..., 0], np.where(GREY > 99, 255, 0))


def test_sixteen_bits_of_colour_keep_their_range():
    """Pillow writes none: a TIFF of 16 x 16 x 3 numbers by hand."""
    numbers = (COLOUR.astype(np.uint16) * 257).tobytes()
    tags = [
        (256, 3, 1, 16),
        (257, 3, 1, 16),
        (258, 3, 3, 8 + len(numbers)),
        (259, 3, 1, 1),
        (262, 3, 1, 2),
        (273, 4, 1, 8),
        (277, 3, 1, 3),
        (278, 3, 1, 16),
        (279, 4, 1, len(numbers)),
    ]
    head = (
        b"II*\0"
        + struct.pack("<I", 8 + len(numbers) + 6)
        + numbers
        + struct.pack("<HHH", 16, 16, 16)
    )
    content = (
        head
        + struct.pack("<H", len(tags))
        + b"".join(struct.pack("<HHII", *tag) for tag in tags)
        + b"\0" * 4
    )
    pixels, told = decoded(content, 16)
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
    first, second = Image.fromarray(GREY), Image.fromarray(255 - GREY)
    told = {
        "clear": (decoded(file_of(Image.fromarray(RGBA), "PNG"), 16), COLOUR),
        "frames": (
            decoded(file_of(first, "GIF", save_all=True, append_images=[second]), 16),
            GREY[..., None],
        ),
        "turned": (decoded(file_of(Image.fromarray(COLOUR), "PNG", exif=exif), 16), COLOUR),
    }
    for name, ((pixels, found), own) in told.items():
        assert found == (name,)
        np.testing.assert_array_equal(pixels, np.broadcast_to(own, (16, 16, 3)))
    opaque = np.dstack([COLOUR, np.full((16, 16), 255, np.uint8)])
    assert decoded(file_of(Image.fromarray(opaque), "PNG"), 16)[1] == ()


def folder(home, content_of, suffix="png", n=40):
    """Class folders of n pictures; content_of: the bytes of picture number i."""
    for at in range(n):
        place = (
            home
            / ("test" if at % 4 == 0 else "train")
            / ("cat", "dog")[at // 4 % 2]
            / f"{at}.{suffix}"
        )
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content_of(at))
    return home


def grey(at):
    return np.random.default_rng(at).integers(0, 256, (16, 16), dtype=np.uint8)


def read_all(home):
    images = load_images(str(home), ImageAsk(size=16))
    return images, images.read(np.arange(len(images.table)))


def test_a_set_of_sixteen_bits_is_that_of_eight(tmp_path):
    eight, pixels = read_all(
        folder(tmp_path / "8", lambda at: file_of(Image.fromarray(grey(at)), "PNG"))
    )
    deep = folder(
        tmp_path / "16",
        lambda at: file_of(Image.fromarray(grey(at).astype(np.uint16) * 257), "PNG"),
    )
    sixteen, same = read_all(deep)
    np.testing.assert_array_equal(pixels, same)
    assert "More than 8 bits per colour were brought to 8 in 40 of 40 images." in sixteen.notes
    assert not any("of 40 images" in note for note in eight.notes)


def test_what_was_read_differently_has_another_digest(tmp_path, monkeypatch):
    """Else an audit of the clipped pictures would answer for those that keep their range."""
    home = folder(
        tmp_path, lambda at: file_of(Image.fromarray(grey(at).astype(np.uint16) * 257), "PNG")
    )
    for limit in (20_000, 10):  # decoded at once, and only named
        monkeypatch.setattr("engine.data.images.pixels.CHECK_BELOW", limit)
        now = load_images(str(home), ImageAsk(size=16)).digest
        with monkeypatch.context() as then:
            then.setattr("engine.data.images.pixels.is_deep", lambda file: False)
            assert load_images(str(home), ImageAsk(size=16)).digest != now


def test_suspicious_sets_are_told(tmp_path):
    dark = folder(
        tmp_path / "dark", lambda at: file_of(Image.fromarray(grey(at).astype(np.uint16)), "PNG")
    )
    said = " ".join(load_images(str(dark), ImageAsk(size=16)).notes)
    assert (
        "Less than a sixteenth of the 16 bits is used, so that the picture is nearly black, in 40"
        " of 40" in said
    )
    assert "Nearly every pixel is black in 40 of 40 images; was another range meant?" in said
    pale = np.full((16, 16), 255, np.uint8)
    pale[0, :3] = 0
    mixed = folder(
        tmp_path / "mixed",
        lambda at: file_of(Image.fromarray(np.roll(pale, at) if at % 3 else grey(at)), "PNG"),
    )
    said = " ".join(load_images(str(mixed), ImageAsk(size=16)).notes)
    assert "Nearly every pixel is white in" in said and "black" not in said


def test_arrays_of_another_range_are_refused_or_told(tmp_path):
    draw, labels = np.random.default_rng(0), np.arange(40) % 2
    for split in ("train", "test"):
        zeros_and_ones = draw.integers(0, 2, (40, 16, 16, 3), dtype=np.uint8)
        np.savez(
            tmp_path / f"{split}.npz",
            images=zeros_and_ones,
            labels=labels,
            class_names=["cat", "dog"],
        )
    assert any(
        "Nearly every pixel is black" in note
        for note in load_images(str(tmp_path), ImageAsk(size=16)).notes
    )
    for kind, fix in (
        (np.float32, "np.rint(images * 255).astype(np.uint8)"),
        (np.uint16, "np.rint(images / 257).astype(np.uint8)"),
    ):
        images = draw.random((40, 16, 16, 3)).astype(kind)
        np.savez(tmp_path / "train.npz", images=images, labels=labels, class_names=["cat", "dog"])
        for act in (
            lambda: look(str(tmp_path)),
            lambda: load_images(str(tmp_path), ImageAsk(size=16)),
        ):
            with pytest.raises(RequestError) as caught:
                act()
            assert fix in str(caught.value)


def test_refused_pictures_are_named_with_their_reason(tmp_path, monkeypatch):
    home = folder(tmp_path, lambda at: file_of(Image.fromarray(grey(at)), "PNG"))
    (home / "train" / "cat" / "1.png").write_bytes(
        file_of(Image.fromarray(GREY.astype(np.float32)), "TIFF")
    )
    (home / "train" / "cat" / "2.png").write_bytes(b"no picture")
    said = " ".join(load_images(str(home), ImageAsk(size=16)).notes)
    assert "2 images cannot be decoded and were left out" in said
    for why in (
        "1.png (its floating-point numbers have no known range",
        "2.png (it is no whole file of JPEG, PNG",
    ):
        assert why in said
    monkeypatch.setattr("engine.data.images.pixels.CHECK_BELOW", 10)
    with pytest.raises(RequestError, match="1.png.*floating-point numbers have no known range"):
        read_all(home)


def test_a_set_of_refused_pictures_says_why_none_is_left(tmp_path):
    home = folder(
        tmp_path, lambda at: file_of(Image.fromarray(grey(at).astype(np.float32)), "TIFF"), "tif"
    )
    with pytest.raises(
        RequestError, match="No train images are left. 40 images cannot be decoded.*floating-point"
    ):
        load_images(str(home), ImageAsk(size=16))


def test_hidden_files_are_no_pictures(tmp_path):
    """macOS leaves ._x.png beside x.png on other disks; Windows leaves Thumbs.db."""
    home = folder(tmp_path / "folders", lambda at: file_of(Image.fromarray(grey(at)), "PNG"))
    plain = load_images(str(home), ImageAsk(size=16))
    shutil.copy(home / "train" / "cat" / "1.png", home / "train" / "cat" / "._1.png")
    (home / "test" / "cat" / "._0.png").write_bytes(b"\0\5\x16\7")
    (home / "test" / "cat" / "Thumbs.db").write_bytes(b"x")
    images = load_images(str(home), ImageAsk(size=16))
    assert look(str(home)).n == len(images.table) == 40 and images.digest == plain.digest
    assert not any("left out" in note for note in images.notes)


def test_files_that_are_no_pictures_by_their_names_are_counted(tmp_path):
    home = folder(tmp_path, lambda at: file_of(Image.fromarray(grey(at)), "PNG"))
    for name in ("a.heic", "b.HEIC", "c.avif"):
        (home / "train" / "cat" / name).write_bytes(b"x")
    (home / "train" / "cat" / "Thumbs.db").write_bytes(b"x")
    said = load_images(str(home), ImageAsk(size=16)).notes
    assert (
        "3 files do not end as pictures that are read here and were left out: .avif, .heic." in said
    )


@pytest.mark.parametrize("name", ["._labels.csv", ".labels.csv"])
def test_hidden_tables_are_no_tables(tmp_path, name):
    for at in range(40):
        (tmp_path / f"{at}.png").write_bytes(file_of(Image.fromarray(grey(at)), "PNG"))
    rows = "".join(
        f"{at}.png,{'cat' if at % 2 else 'dog'},{'test' if at % 4 < 2 else 'train'}\n"
        for at in range(40)
    )
    (tmp_path / "labels.csv").write_text("path,label,split\n" + rows)
    (tmp_path / name).write_bytes(b"\0\5\x16\7md5hash")
    assert len(load_images(str(tmp_path), ImageAsk(size=16)).table) == 40


def test_hidden_arrays_are_no_arrays(tmp_path):
    for split in ("train", "test"):
        images = np.random.default_rng(0).integers(0, 256, (40, 16, 16, 3), dtype=np.uint8)
        np.savez(
            tmp_path / f"{split}.npz",
            images=images + (split == "test"),
            labels=np.arange(40) % 2,
            class_names=["cat", "dog"],
        )
        (tmp_path / f"._{split}.npz").write_bytes(b"\0\5\x16\7")
    assert load_images(str(tmp_path), ImageAsk(size=16)).classes == ("cat", "dog")
