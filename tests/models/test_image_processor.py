"""Pictures become what a model sees as its own processor makes them: compared with the processor's
own output."""

import io
import json

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.flop_counter import FlopCounterMode

from engine.core.errors import RequestError
from engine.data.images.load import ImageAsk, load_images
from engine.data.images.pixels import ArrayPixels, decoded
from engine.models.file_fields import FIELDS, REFUSED
from engine.models.image_processor import FILE, _class_of, _kinds, processor_of
from engine.models.load_image_classifier import inspect_classifier, load_classifier, save_classifier
from engine.surgery.filters.graph import (
    agree_filters,
    cut_filters,
    filter_graph,
    prove_filter_mask_works,
    replayed,
    widths_after,
)
from engine.surgery.filters.replay import load_cut_classifier, same_weights, save_cut_classifier
from engine.surgery.record import FilterRecord, groups_of
from tests.builders import refused
from tests.classifiers.worlds import some_cut, some_pixels
from tests.models.folders import edit
from tests.tiny_images import CLASSES, FAMILIES, saved_by_transformers

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


@pytest.fixture
def resnet(tmp_path):
    return saved_by_transformers("resnet", tmp_path / "resnet")


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


def refusal(folder):
    return " ".join(refused(load_classifier, folder, device="cpu"))


def refused_with(folder, **said):
    (folder / FILE).write_text(json.dumps(said))
    return refusal(folder)


@pytest.mark.parametrize(
    "name", [name for name, fate in FIELDS[FILE].items() if fate.kind == REFUSED]
)
def test_what_is_not_obeyed_is_refused(resnet, name):
    assert f"sets {name} to" in refused_with(
        resnet, image_processor_type=VIT, size=32, **{name: True}
    )


def test_wrong_values_are_refused_all_at_once(resnet, tmp_path):
    said = refused_with(
        resnet,
        image_mean=["a", 1, 1],
        image_std=[0, 1, 1],
        rescale_factor="x",
        size=10**6,
        crop_pct=0,
    )
    for name in ("image_mean", "image_std", "rescale_factor", "size", "crop_pct"):
        assert f"has {name} " in said
    assert "has size" in refused_with(resnet, size={"height": -3, "width": 4})
    assert "one square size" in refused_with(
        resnet, image_processor_type=VIT, size={"height": 32, "width": 40}
    )
    assert "one square size" in refused_with(resnet, image_processor_type=VIT, do_resize=False)
    assert "asks for Trainer" in refused_with(resnet, image_processor_type="Trainer")
    folder = saved_by_transformers("vit", tmp_path / "vit")
    said = refused_with(folder, image_processor_type=VIT, size=32)
    assert "makes pictures of 32 pixels a side, the model takes 16" in said


def test_unknown_fields_and_another_size_are_said(resnet):
    (resnet / FILE).write_text(
        json.dumps({"image_processor_type": VIT, "size": 32, "sharpen": 2, "bend": None})
    )
    found = inspect_classifier(resnet)
    assert found.notes == (
        (
            "Nobody here knows these fields of preprocessor_config.json, so they are not obeyed:"
            " bend, sharpen."
        ),
    )
    other = inspect_classifier(resnet, size=40)
    assert other.processor is None and "makes images of 32 pixels, 40 are asked for" in " ".join(
        other.notes
    )


def test_the_file_of_a_whole_processor_comes_first(resnet):
    """As transformers 5 saves it."""
    whole = {"processor_class": "X", "image_processor": {"image_processor_type": VIT, "size": 48}}
    (resnet / "processor_config.json").write_text(json.dumps(whole))
    assert inspect_classifier(resnet).size == 48


def folder_of_pictures(home, kind="PNG"):
    """Wide pictures of three classes whose middle says nothing: only the left edge is bright, by
    class."""
    for at in range(36):
        split, name = ("test" if at % 3 == 0 else "train"), CLASSES[at // 3 % 3]
        place = home / split / name / f"{at}.{kind.lower()}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(picture(90 + at, 40, kind))
    return home


def test_images_are_read_as_the_processor_makes_them(resnet, tmp_path):
    home = folder_of_pictures(tmp_path / "pictures")
    classifier = load_classifier(resnet, device="cpu")
    ask = ImageAsk(size=classifier.size, prepare=classifier.processor)
    plain, own = load_images(str(home), ImageAsk(size=32)), load_images(str(home), ask)
    assert plain.digest != own.digest and list(plain.table["image_id"]) == list(
        own.table["image_id"]
    )
    _, pixels = theirs(resnet, json.loads((resnet / FILE).read_text()))
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


# Image classifiers as transformers saves them: read, cut, saved and loaded again, and what is
# refused.


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(one, marks=pytest.mark.slow) if one == "mobilenet_v2" else one
        for one in FAMILIES
    ],
)
def test_masked_is_cut_is_replayed_is_saved(tmp_path, family):
    whole = load_classifier(saved_by_transformers(family, tmp_path / family), device="cpu")
    assert (
        whole.classes == ("cat", "dog", "owl")
        and whole.mean == (0.5, 0.4, 0.3)
        and whole.name == family
    )
    _, graph, mask, small, history = some_cut(whole)
    prove_filter_mask_works(whole, graph)
    assert same_weights(replayed(whole, history, mask), small)
    pixels = some_pixels(4, whole.size)
    found = agree_filters(whole, graph, mask, small, pixels)
    assert found.holds and found.max_logit_difference < 1e-4 and mask.cut
    with torch.no_grad():
        images = whole.prepared(pixels)
        assert not torch.allclose(whole.model(images), small.model(images), rtol=1e-3)
    for one, flops in ((whole, graph.flops()), (small, graph.flops(mask.keep()))):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            one.model(torch.zeros(1, 3, whole.size, whole.size))
        assert counter.get_total_flops() == flops
    record = FilterRecord(
        family,
        whole.arch,
        whole.weight_hash,
        whole.classes,
        whole.size,
        groups_of(mask),
        json.loads(json.dumps(history)),
    )
    again = load_cut_classifier(save_cut_classifier(small, record, tmp_path / "cut"), device="cpu")
    kept = load_classifier(save_classifier(whole, tmp_path / "ours"), device="cpu")
    assert same_weights(again, small) and same_weights(kept, whole) and whole.processor is not None
    for one in (again, kept):
        assert (one.processor, one.size, one.mean, one.std) == (
            whole.processor,
            whole.size,
            whole.mean,
            whole.std,
        )


def test_a_vision_transformers_units_are_heads(tmp_path):
    whole = load_classifier(saved_by_transformers("vit", tmp_path / "vit"), device="cpu")
    graph = filter_graph(whole)
    assert [width for _, width in graph.widths] == [4, 4] and whole.architecture.has_heads
    mask = graph.mask(np.array([1, 0, 1, 1, 0, 0, 1, 1]))
    small, _ = cut_filters(whole, mask)
    assert [kept for _, _, kept in widths_after(mask)] == [3, 2]
    assert [
        getattr(small.model.get_submodule(name), "num_attention_heads", 0)
        for name, _ in graph.widths
    ] == [3, 2]
    with pytest.raises(RequestError, match="It takes 16 pixels only"):
        load_classifier(tmp_path / "vit", device="cpu", size=32)
    with pytest.raises(RequestError, match="pruning history"):
        replayed(whole, [["nowhere", True, [0]]], mask)


def test_classes_of_one_name_are_told_apart(tmp_path, capfd):
    """As in ImageNet, whose two cranes every classifier of it on the hub has."""
    folder = saved_by_transformers("vit", tmp_path / "vit")
    twice = {"0": "crane", "1": "owl", "2": "crane"}
    edit(folder, id2label=twice, label2id={"owl": 1, "crane": 2}, image_size=[16, 16])
    found = load_classifier(folder, device="cpu")
    assert (found.classes, found.size) == (("crane", "owl", "crane (2)"), 16)
    edit(folder, num_attention_heads=-1)
    assert "-32 numbers wide" in refusal(folder)
    edit(folder, num_attention_heads=4, num_hidden_layers=3)
    capfd.readouterr()
    assert "lacks 16 tensors" in refusal(folder)
    assert "MISSING" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"problem_type": "regression"}, "no classes that exclude each other"),
        ({"label2id": {"cat": 1, "dog": 0, "owl": 2}}, "label2id that contradicts its id2label"),
        ({"num_labels": 4}, "has num_labels 4, its id2label names 3 outputs"),
        (
            {"id2label": None, "label2id": None, "num_labels": 1},
            "has one output: an audit needs",
        ),
        (
            {"id2label": {"0": "cat", "1": "dog"}, "label2id": None},
            "names 2 outputs, the last layer of its weights",
        ),
        (
            {"id2label": None, "label2id": None, "num_labels": 5},
            "names 5 outputs, the last layer of its weights",
        ),
        ({"pruned_heads": {"0": [1]}}, "sets pruned_heads to"),
        (
            {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}},
            "is of quantised weights",
        ),
        (
            {"architecture": "resnet18", "pretrained_cfg": {}},
            "give timm/resnet18 as the model and the folder's",
        ),
        ({"auto_map": {"AutoConfig": "x.Y"}}, "code of its own (auto_map)"),
        ({"model_type": "nobody"}, "family 'nobody'"),
        ({"hidden_sizes": [8, 8]}, "tensors"),
        ({"hidden_sizes": [10**6, 10**6]}, "of weights, there is room for"),
        ({"depths": [50_000, 50_000]}, "100000 layers"),
        ({"num_channels": 1}, "1 channels"),
        *(
            (more, "not an image classifier that transformers knows")
            for more in (
                {"architectures": ["ResNetBackbone"]},
                {"architectures": {"a": 1}},
                {"architectures": 5},
                {"model_type": ["resnet"]},
            )
        ),
        *(
            ({"id2label": labels}, "does not name the outputs 0, 1, 2")
            for labels in ({"a": "x", "b": "y", "c": "z"}, {"0": ["x"], "1": "y", "2": "z"}, [1, 2])
        ),
    ],
)
def test_a_config_of_which_no_classifier_can_be_made_is_refused(resnet, more, said):
    edit(resnet, problem_type="single_label_classification")
    assert load_classifier(resnet, device="cpu").classes == ("cat", "dog", "owl")
    edit(resnet, **more)
    assert said in refusal(resnet)


def test_names_that_transformers_gave_are_no_names(resnet):
    """LABEL_0 says nothing: such outputs are numbered, and which is which class must be said."""
    plain = {
        "id2label": {str(at): f"LABEL_{at}" for at in range(3)},
        "label2id": {f"LABEL_{at}": at for at in range(3)},
    }
    edit(resnet, **plain)
    found = load_classifier(resnet, device="cpu")
    assert found.classes == ("0", "1", "2") and any(
        "nobody gave their names" in note for note in found.notes
    )
    assert load_classifier(resnet, classes=["cat", "dog", "owl"], device="cpu").classes == (
        "cat",
        "dog",
        "owl",
    )
    edit(
        resnet, id2label={"0": "cat", "1": "dog", "2": "owl"}
    )  # as written by who names id2label only
    assert load_classifier(resnet, device="cpu").classes == ("cat", "dog", "owl")
    edit(resnet, id2label=None, label2id={"owl": 2, "cat": 0, "dog": 1})
    assert load_classifier(resnet, device="cpu").classes == ("cat", "dog", "owl")


def test_files_of_weights_that_are_not_read_are_named(resnet):
    assert load_classifier(resnet, device="cpu").notes == ()
    (resnet / "pytorch_model.bin").write_bytes(b"x")
    (resnet / "ema.safetensors").write_bytes(b"x")
    found = load_classifier(resnet, device="cpu").notes
    assert found == (
        (
            "ema.safetensors and pytorch_model.bin are not read; model.safetensors is. Are they the"
            " same weights?"
        ),
    )


def test_a_damaged_config_in_a_model_card_is_said(resnet, tmp_path):
    folder = save_classifier(load_classifier(resnet, device="cpu"), tmp_path / "ours")
    edit(folder, "model.json", config={"depths": [1]})
    assert "cannot be built" in refusal(folder)


def test_without_its_files_it_is_refused_or_said(resnet):
    (resnet / FILE).unlink()
    plain = load_classifier(resnet, device="cpu")
    assert plain.mean == (0.485, 0.456, 0.406) and plain.processor is None
    assert any("the usual mean (0.485, 0.456, 0.406) is assumed" in note for note in plain.notes)
    (resnet / "model.safetensors").rename(resnet / "pytorch_model.bin")
    assert "can run code when opened" in refusal(resnet)
    (resnet / "config.json").write_text('{"model_type": "resnet", "model_type": "vit"}')
    assert "twice" in refusal(resnet)


def test_models_of_timm_ask_for_timm(monkeypatch):
    monkeypatch.setattr("engine.models.vision.hub_folders.find_spec", lambda name: None)
    assert "package timm, which is not installed" in refusal("timm/resnet18")
