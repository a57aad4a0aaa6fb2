"""Pictures become what a model sees as its own processor makes them: compared with the processor's
own output."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from engine.core.errors import RequestError
from engine.data.images.load import ImageAsk, load_images
from engine.data.images.pixels import ArrayPixels, decoded
from engine.models.file_fields import FIELDS, REFUSED
from engine.models.image_processor import FILE, _class_of, _kinds, processor_of
from engine.models.load_image_classifier import inspect_classifier, load_classifier
from tests.builders import refused
from tests.tiny_images import CLASSES, saved_by_transformers

SHAPES = ((50, 80), (300, 200), (32, 32), (33, 500))
VIT, CONVNEXT, EFFICIENT = (
    "ViTImageProcessor",
    "ConvNextImageProcessor",
    "EfficientNetImageProcessor",
)
REFUSED_KINDS = {
    "DonutImageProcessor",
    "ImageGPTImageProcessor",
    "MobileViTImageProcessor",
    "Siglip2ImageProcessor",
    "TextNetImageProcessor",
}
"""They pad, quantise colours, swap them, cut into patches, or make no squares."""
FIELDS_SAID = [
    {"image_processor_type": VIT, "size": {"height": 40, "width": 40}},
    {"image_processor_type": VIT, "size": 40, "resample": 0},
    {
        "image_processor_type": VIT,
        "size": 40,
        "resample": 3,
        "do_center_crop": True,
        "crop_size": 32,
    },
    {"image_processor_type": VIT, "do_resize": False, "do_center_crop": True, "crop_size": 64},
    {"image_processor_type": VIT, "size": 32, "do_normalize": False},
    {"image_processor_type": VIT, "size": 32, "do_rescale": False},
    {"image_processor_type": VIT, "size": 32, "do_rescale": False, "do_normalize": False},
    {"image_processor_type": VIT, "size": 32, "rescale_factor": 1 / 127.5},
    {
        "image_processor_type": VIT,
        "size": 32,
        "image_mean": [0.1, 0.2, 0.3],
        "image_std": [0.3, 0.2, 0.1],
    },
    {"image_processor_type": VIT, "size": 32, "image_mean": 0.4, "image_std": 0.2},
    {"feature_extractor_type": "ConvNextFeatureExtractor", "size": 64, "crop_pct": 0.875},
    {"image_processor_type": CONVNEXT, "size": {"shortest_edge": 48}, "crop_pct": 0.5},
    {"image_processor_type": CONVNEXT, "size": {"shortest_edge": 384}},
    {"image_processor_type": "DeiTImageProcessor", "size": 40, "crop_size": 32},
    {"image_processor_type": "LevitImageProcessor", "size": {"shortest_edge": 64}, "crop_size": 64},
    {
        "image_processor_type": "MobileNetV2ImageProcessor",
        "size": {"shortest_edge": 40},
        "crop_size": 32,
    },
    {
        "image_processor_type": EFFICIENT,
        "size": 32,
        "rescale_factor": 1 / 127.5,
        "rescale_offset": True,
    },
    {"image_processor_type": EFFICIENT, "size": 32, "include_top": False},
    {"image_processor_type": EFFICIENT, "size": 32, "do_normalize": False},
    {
        "image_processor_type": VIT,
        "size": 32,
        "do_convert_rgb": True,
        "do_pad": None,
        "processor_class": "X",
    },
]


def picture(width, height, kind="PNG"):
    pixels = np.random.default_rng(width).integers(0, 256, (height, width, 3), dtype=np.uint8)
    memory = io.BytesIO()
    Image.fromarray(pixels).save(memory, kind, **({"quality": 95} if kind == "JPEG" else {}))
    return memory.getvalue()


def theirs(folder, said):
    """What transformers makes of a folder's processor: on Pillow, numbers and bytes."""
    from transformers import AutoImageProcessor

    (folder / FILE).write_text(json.dumps(said))
    own = AutoImageProcessor.from_pretrained(folder, backend="pil")
    plain = {
        name: False for name in ("do_rescale", "do_normalize", "include_top") if hasattr(own, name)
    }

    def of(content, **more):
        found = own(Image.open(io.BytesIO(content)).convert("RGB"), return_tensors="np", **more)[
            "pixel_values"
        ]
        return np.asarray(found)[0]

    return of, lambda content: np.moveaxis(of(content, **plain), 0, -1)


@pytest.mark.parametrize(
    "said", [{"image_processor_type": kind} for kind in sorted(_kinds())] + FIELDS_SAID, ids=str
)
def test_pixels_are_its_own_to_the_bit_and_numbers_to_a_millionth(tmp_path, said):
    found, faults = processor_of(said, None, "x")
    if said.get("image_processor_type") in REFUSED_KINDS:
        assert found is None and faults
        return
    assert not faults
    numbers, pixels = theirs(tmp_path, said)
    mean, std = (np.array(three, np.float32) for three in found.colours)
    for width, height in SHAPES:
        for kind in ("PNG", "JPEG"):  # a JPEG that is decoded small would be another picture
            content = picture(width, height, kind)
            ours, _ = decoded(content, found.side, found)
            np.testing.assert_array_equal(ours, pixels(content))
            both = ((ours.astype(np.float32) / 255 - mean) / std).transpose(2, 0, 1)
            np.testing.assert_allclose(both, numbers(content), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", sorted(_kinds()))
def test_every_field_that_transformers_saves_or_takes_has_its_fate(kind):
    assert _class_of(kind).valid_kwargs.__annotations__.keys() <= FIELDS[FILE].keys()
    assert json.loads(_class_of(kind)().to_json_string()).keys() <= FIELDS[FILE].keys()


def refusal(folder, **said):
    (folder / FILE).write_text(json.dumps(said))
    return " ".join(refused(load_classifier, folder, device="cpu"))


@pytest.mark.parametrize(
    "name", [name for name, fate in FIELDS[FILE].items() if fate.kind == REFUSED]
)
def test_what_is_not_obeyed_is_refused(tmp_path, name):
    folder = saved_by_transformers("resnet", tmp_path / "resnet")
    assert f"sets {name} to" in refusal(folder, image_processor_type=VIT, size=32, **{name: True})


def test_wrong_values_are_refused_all_at_once(tmp_path):
    folder = saved_by_transformers("resnet", tmp_path / "resnet")
    said = refusal(
        folder,
        image_mean=["a", 1, 1],
        image_std=[0, 1, 1],
        rescale_factor="x",
        size=10**6,
        crop_pct=0,
    )
    for name in ("image_mean", "image_std", "rescale_factor", "size", "crop_pct"):
        assert f"has {name} " in said
    assert "has size" in refusal(folder, size={"height": -3, "width": 4})
    assert "one square size" in refusal(
        folder, image_processor_type=VIT, size={"height": 32, "width": 40}
    )
    assert "one square size" in refusal(folder, image_processor_type=VIT, do_resize=False)
    assert "asks for Trainer" in refusal(folder, image_processor_type="Trainer")
    folder = saved_by_transformers("vit", tmp_path / "vit")
    said = refusal(folder, image_processor_type=VIT, size=32)
    assert "makes pictures of 32 pixels a side, the model takes 16" in said


def test_unknown_fields_and_another_size_are_said(tmp_path):
    folder = saved_by_transformers("resnet", tmp_path / "resnet")
    (folder / FILE).write_text(
        json.dumps({"image_processor_type": VIT, "size": 32, "sharpen": 2, "bend": None})
    )
    found = inspect_classifier(folder)
    assert found.notes == (
        (
            "Nobody here knows these fields of preprocessor_config.json, so they are not obeyed:"
            " bend, sharpen."
        ),
    )
    other = inspect_classifier(folder, size=40)
    assert other.processor is None and "makes images of 32 pixels, 40 are asked for" in " ".join(
        other.notes
    )


def test_the_file_of_a_whole_processor_comes_first(tmp_path):
    """As transformers 5 saves it."""
    folder = saved_by_transformers("resnet", tmp_path / "resnet")
    whole = {"processor_class": "X", "image_processor": {"image_processor_type": VIT, "size": 48}}
    (folder / "processor_config.json").write_text(json.dumps(whole))
    assert inspect_classifier(folder).size == 48


def folder_of_pictures(home, kind="PNG"):
    """Wide pictures of three classes whose middle says nothing: only the left edge is bright, by
    class."""
    for at in range(36):
        split, name = ("test" if at % 3 == 0 else "train"), CLASSES[at // 3 % 3]
        place = home / split / name / f"{at}.{kind.lower()}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(picture(90 + at, 40, kind))
    return home


def test_images_are_read_as_the_processor_makes_them(tmp_path):
    folder, home = (
        saved_by_transformers("resnet", tmp_path / "resnet"),
        folder_of_pictures(tmp_path / "pictures"),
    )
    classifier = load_classifier(folder, device="cpu")
    ask = ImageAsk(size=classifier.size, prepare=classifier.processor)
    plain, own = load_images(str(home), ImageAsk(size=32)), load_images(str(home), ask)
    assert plain.digest != own.digest and list(plain.table["image_id"]) == list(
        own.table["image_id"]
    )
    _, pixels = theirs(folder, json.loads((folder / FILE).read_text()))
    for row, name in enumerate(own.table["image_id"]):
        np.testing.assert_array_equal(own.read([row])[0], pixels((home / name).read_bytes()))
    assert not np.array_equal(own.read([0]), plain.read([0]))
    drawn = [
        load_images("avatars", ImageAsk(size=32, max_images=20, prepare=one))
        for one in (None, ask.prepare)
    ]
    assert (
        drawn[0].digest == drawn[1].digest
    )  # drawn at the size wanted, so that nothing is prepared


def test_arrays_that_it_cannot_read_are_refused():
    found, _ = processor_of({"image_processor_type": VIT, "size": 16}, None, "x")
    long = ArrayPixels(np.zeros((2, 4, 500, 3), np.uint8)).prepared_by(found)
    with pytest.raises(RequestError, match="too long and narrow"):
        long.take(np.arange(2), 16)
    wide = np.random.default_rng(0).integers(0, 256, (2, 30, 40, 3), dtype=np.uint8)
    own = [found(Image.fromarray(one)) for one in wide]
    np.testing.assert_array_equal(ArrayPixels(wide).prepared_by(found).take(np.arange(2), 16), own)
