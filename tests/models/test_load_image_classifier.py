"""What loads as an image classifier, and every way in which one can be wrong."""

import argparse
import io
import json
import os
import pickle
import urllib.error

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from assets.build.tensor_names import written
from engine.core.errors import PruneAuditError, RequestError
from engine.core.types import FilterMask
from engine.models import catalog
from engine.models.load_image_classifier import (
    fresh_classifier,
    inspect_classifier,
    load_classifier,
    save_classifier,
)
from engine.models.state_dicts import (
    _read_torch,
    fitting_architectures,
    names_digest,
    skeleton,
    state_hash,
    stored_names,
)
from engine.models.vision import architecture_for, architectures
from tests.builders import faults_of, refused
from tests.models.folders import edit
from tests.places import SHARED

CARD = "model.json"
CIFAR = SHARED / "cifar10"
real = pytest.mark.skipif(
    not CIFAR.is_dir(), reason=f"needs the published CIFAR-10 files in {CIFAR}"
)


def small(seed=0, classes=("cat", "dog"), **more):
    return fresh_classifier("resnet10-w16", classes, seed=seed, device="cpu", **more)


def plain(classifier):
    """Its tensors as an old training script would have saved them."""
    return {
        name: tensor.clone(memory_format=torch.contiguous_format)
        for name, tensor in classifier.model.state_dict().items()
    }


def refusal(name, **more):
    found = refused(inspect_classifier, name, **more)
    assert refused(load_classifier, name, device="cpu", **more) == found
    return found


@pytest.fixture
def folder(tmp_path):
    return save_classifier(small(), tmp_path / "mine")


@pytest.fixture
def weights(tmp_path):
    """Of `small`, by themselves."""
    save_file(plain(small()), tmp_path / "w.safetensors")
    return tmp_path / "w.safetensors"


class Evil:
    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return os.mkdir, (self.mark,)


def test_a_saved_classifier_is_the_same_when_loaded(folder):
    before, after = small(), load_classifier(folder, device="cpu")
    pixels = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
    with torch.no_grad():
        assert torch.equal(
            before.model(before.prepared(pixels)), after.model(after.prepared(pixels))
        )
    told = after.name, after.arch, after.classes, after.size
    assert told == ("mine", "resnet10-w16", ("cat", "dog"), 32)
    stored = state_hash(load_file(folder / "model.safetensors"))
    assert after.weight_hash == before.weight_hash == stored
    assert not after.model.training and not any(
        one.requires_grad for one in after.model.parameters()
    )
    assert after.cut is None and after.notes == () and before.notes != ()


def test_saving_leaves_other_files_and_says_how_it_was_made(folder):
    (folder / "CARD.md").write_text("mine")
    save_classifier(small(seed=1), folder, about={"steps": 3})
    assert (folder / "CARD.md").read_text() == "mine"
    assert json.loads((folder / "model.json").read_text())["about"] == {"steps": 3}
    assert load_classifier(folder, device="cpu").weight_hash == small(seed=1).weight_hash


def test_a_cut_classifier_is_not_saved(tmp_path):
    from dataclasses import replace

    with pytest.raises(PruneAuditError, match="is cut"):
        save_classifier(
            replace(small(), cut=FilterMask((("conv1", 16),), (("conv1", (0,)),))), tmp_path / "cut"
        )
    assert not (tmp_path / "cut").exists()


def test_seeds_make_weights_and_leave_the_callers_random_numbers_alone():
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    assert small(seed=1).weight_hash == small(seed=1).weight_hash != small(seed=2).weight_hash
    assert torch.equal(state, torch.random.get_rng_state())
    assert "random (seed 1)" in small(seed=1).notes[0]


def test_pixels_are_normalised_and_keep_channels_last():
    model = small()
    pixels = np.zeros((2, 4, 6, 3), np.uint8)
    pixels[1, 2, 3] = (255, 0, 51)
    pixels.flags.writeable = False
    out = model.prepared(pixels)
    assert out.shape == (2, 3, 4, 6) and out.dtype == torch.float32
    assert out.is_contiguous(memory_format=torch.channels_last)
    expected = [(1 - 0.485) / 0.229, (0 - 0.456) / 0.224, (0.2 - 0.406) / 0.225]
    assert out[1, :, 2, 3].tolist() == pytest.approx(expected, rel=1e-6)
    with pytest.raises(ValueError, match="uint8"):
        model.prepared(pixels.astype(np.float32))


def test_the_hash_is_of_names_shapes_and_bytes():
    one = {"a": torch.zeros(2, 3), "b": torch.ones(1)}
    same = {
        "b": torch.ones(1),
        "x.num_batches_tracked": torch.tensor(7),
        "a": torch.zeros(3, 2).t(),
    }
    assert state_hash(one) == state_hash(same)
    others = {"a": torch.zeros(3, 2)}, {"b": torch.zeros(1)}, {"a": torch.zeros(2, 3).double()}
    assert all(state_hash(one | other) != state_hash(one) for other in others)


@pytest.mark.parametrize("suffix", [".safetensors", ".pt", ".th"])
def test_bring_your_own_state_dict(tmp_path, suffix):
    model, path = small(), tmp_path / f"weights{suffix}"
    state = plain(model)
    if suffix == ".safetensors":
        save_file(state, path)
    else:
        old = {f"module.{name}": tensor for name, tensor in state.items() if "tracked" not in name}
        torch.save({"epoch": 3, "state_dict": old} if suffix == ".th" else state, path)
    info = inspect_classifier("resnet10-w16", weights=path, classes=["cat", "dog"])
    assert (info.weight_hash, info.place, info.classes) == (model.weight_hash, path, ("cat", "dog"))
    loaded = load_classifier("resnet10-w16", weights=path, classes=2, device="cpu", size=48)
    assert (loaded.classes, loaded.size) == (("0", "1"), 48)


@pytest.mark.parametrize(
    "keys", [("state_dict",), ("checkpoint", "model"), ("ema", "module"), ("net", "x", "y")]
)
def test_tensors_are_found_wherever_a_training_script_put_them(tmp_path, keys):
    """And what else it left is named, numpy's numbers too, which are opened without any code."""
    model, path = small(), tmp_path / "w.pt"
    found = plain(model)
    for key in reversed(keys):
        found = {key: found}
    found |= {
        "best_acc": np.float64(0.9),
        "seen": np.arange(3),
        "args": argparse.Namespace(rate=0.1),
    }
    moments = {0: {"exp_avg": torch.ones(2, 2)}}
    torch.save(found | {"optimizer": {"state": moments, "param_groups": []}}, path)
    info = inspect_classifier("resnet10-w16", weights=path)
    assert info.weight_hash == model.weight_hash
    assert "w.pt also holds best_acc, seen, args, …: not used." in info.notes


def test_which_of_several_models_in_a_file_is_meant_is_never_guessed(tmp_path):
    one, other, path = plain(small()), plain(small(seed=1)), tmp_path / "w.pt"
    torch.save({"model": one, "ema": {"module": other}, "epoch": 3}, path)
    (fault,) = refusal("resnet10-w16", weights=path)
    assert (
        "holds 2 models that differ: model, ema.module." in fault
        and "torch.load(FILE)['ema']['module']" in fault
    )
    torch.save(
        {"model": one, "copy": {f"module.{name}": one[name] for name in one}, "epoch": 3}, path
    )
    info = inspect_classifier("resnet10-w16", weights=path)
    assert (
        info.weight_hash == small().weight_hash
        and "w.pt also holds copy, epoch: not used." in info.notes
    )


def test_a_stand_in_of_numpy_runs_nothing(tmp_path):
    """What a pickle asks numpy for is not numpy's: a call by that name with anything in it does
    nothing."""
    path, mark = tmp_path / "w.pt", tmp_path / "ran"
    torch.save({"state_dict": plain(small()), "best": (np.float64(0.5), Evil(mark))}, path)
    assert (
        "os" in refusal("resnet10-w16", weights=path)[0]
        or "posix" in refusal("resnet10-w16", weights=path)[0]
    )
    assert not mark.exists()
    loaded = _read_torch(save_with(np.float64(0.5), path))
    assert type(loaded["best"]).__module__ == "engine.models.state_dicts"


def save_with(thing, path):
    torch.save({"best": thing}, path)
    return path


def test_numbers_stand_in_for_class_names_and_it_says_so(weights):
    info = inspect_classifier(weights)
    assert (info.name, info.arch, info.classes) == ("w", "resnet10-w16", ("0", "1"))
    assert "those of resnet10-w16" in info.notes[0] and "numbers" in info.notes[1]


def test_half_precision_is_read_as_float32(tmp_path):
    state = {
        name: tensor.half() if tensor.is_floating_point() else tensor
        for name, tensor in plain(small()).items()
    }
    torch.save(state, tmp_path / "half.pt")
    loaded = load_classifier("resnet10-w16", weights=tmp_path / "half.pt", device="cpu")
    assert {one.dtype for one in loaded.model.parameters()} == {torch.float32}
    assert loaded.weight_hash == state_hash(loaded.model.state_dict())


@pytest.mark.parametrize(
    "how", ["torch", "torch inside", "old torch", "pickle 2", "pickle 4", "module"]
)
def test_a_pickle_with_code_is_refused_and_never_run(tmp_path, how):
    path, mark = tmp_path / "weights.pt", tmp_path / "ran"
    evil = Evil(mark)
    if how.startswith("pickle"):
        path.write_bytes(pickle.dumps(evil, protocol=int(how[-1])))
    elif how == "module":
        torch.save(small().model, path)
    else:
        saved = {**plain(small()), "best": evil} if how == "torch inside" else evil
        torch.save(saved, path, _use_new_zipfile_serialization=how != "old torch")
    (fault,) = refusal("resnet10-w16", weights=path)
    assert "code" in fault and "It was not opened." in fault and "state_dict" in fault
    assert not mark.exists()


def test_files_that_are_no_weights(tmp_path, weights):
    damaged = "damaged or no weight file"
    for name, content, what in (
        ("empty.pt", b"", damaged),
        ("text.pth", b"hello\n", damaged),
        ("noise.bin", bytes(range(7, 200)) * 9, damaged),
        ("llm.gguf", b"GGUF\x03\0\0\0", "a GGUF file, which is read as a language model only"),
        ("none.pt", {"epoch": 3, "best": 0.9}, "no tensors by name"),
        ("list.pt", [torch.ones(2)], "no tensors by name"),
        ("w.safetensors", weights.read_bytes()[:5000], "truncated"),
        ("nowhere.pt", None, "is not there"),
        ("", None, "is a folder"),
        ("x" * 5000, None, "cannot be read"),
    ):
        if isinstance(content, bytes):
            (tmp_path / name).write_bytes(content)
        elif content is not None:
            torch.save(content, tmp_path / name)
        (fault,) = refusal("resnet20", weights=tmp_path / name)
        assert what in fault


def test_weights_of_another_architecture_say_what_they_fit(weights):
    faults = refusal("resnet10", weights=weights)
    assert len(faults) == 1 and "of other shapes than resnet10" in faults[0]
    assert (
        "conv1.weight (16x3x3x3, resnet10 has 64x3x7x7)" in faults[0] and faults[0].count("(") == 3
    )
    assert "The file fits resnet10-w16: give that architecture." in faults[0]
    lacks, differs = refusal("resnet18", weights=weights)
    assert "lacks 40 tensors that resnet18 asks for: layer1.1.conv1.weight (64x64x3x3)" in lacks
    assert "of other shapes than resnet18" in differs


def test_tensors_missing_added_and_renamed_are_all_said(tmp_path):
    state = plain(small())
    state["head.weight"] = state.pop("fc.weight")
    state["layer1.0.bn1.bias"] = torch.ones(3)
    state["layer2.0.bn1.bias"][4] = float("nan")
    state["layer3.0.bn1.bias"] = state["layer3.0.bn1.bias"].long()
    torch.save(state, tmp_path / "w.pt")
    text = "\n".join(refusal("resnet10-w16", weights=tmp_path / "w.pt", classes=["one"], size=2))
    assert "lacks 2 tensors that resnet10-w16 asks for" in text and "fc.weight (2x128)" in text
    assert "has 1 tensor that resnet10-w16 does not know: head.weight (2x128)" in text
    assert "layer1.0.bn1.bias (3, resnet10-w16 has 16)" in text
    assert "1 tensor with NaN or infinite weights: layer2.0.bn1.bias" in text
    assert "whole numbers or without values: layer3.0.bn1.bias" in text
    assert "classes: 'one'" in text and "images of 2 pixels do not fit" in text


def test_an_unknown_architecture_names_the_known_and_the_fitting(weights, tmp_path):
    (fault,) = refusal("resnet-10", weights=weights)
    assert "Known: resnet10, " in fault and "fits resnet10-w16" in fault
    faults = refusal("resnet-10", weights=tmp_path / "nowhere.pt")
    assert len(faults) == 2
    save_file({"a": torch.ones(2)}, tmp_path / "odd.safetensors")
    assert "fits none of the known" in refusal(tmp_path / "odd.safetensors")[0]


def test_classes_must_be_the_heads(weights, folder):
    (fault,) = refusal("resnet10-w16", weights=weights, classes=["a", "b", "c"])
    assert "there are 3 classes, but the head of" in fault
    assert "each named once" in refusal(weights, classes=["a", "a"])[0]
    assert ": cat, dog" in refusal(folder, classes=["dog", "cat"])[0]
    assert inspect_classifier(folder, classes=["Katze", "Hund"]).classes == ("Katze", "Hund")
    assert inspect_classifier(folder, classes=2).classes == ("cat", "dog")
    edit(folder, CARD, classes=["cat", "dog", "cow"])
    assert "there are 3 classes, but the head of" in refusal(folder)[0]


def test_folders_that_are_no_model_folders(tmp_path, folder):
    (tmp_path / "empty").mkdir()
    assert "has no model.json" in refusal(tmp_path / "empty")[0]
    weights = folder / "model.safetensors"
    weights.rename(tmp_path / "gone")
    assert "model.safetensors: is not there." in refusal(folder)[0]
    (tmp_path / "gone").rename(weights)
    edit(folder, CARD, mean=[0.5, 0.5], std=[1, 0, 1], size="32", weight_hash="0" * 64)
    faults = refusal(folder)
    assert len(faults) == 4 and "does not have the hash that model.json names" in faults[-1]
    edit(folder, CARD, architecture="resnet99", mean=[0, 0, 0], std=[1, 1, 1], size=32)
    assert "resnet99" in refusal(folder)[0]
    edit(folder, CARD, schema=2)
    assert "schema: 2 is not known. Known: 1." in refusal(folder)[0]
    for text in ("[1", "[" * 100_000):
        (folder / "model.json").write_text(text)
        assert "no JSON object" in refusal(folder)[0]
    (folder / "model.json").unlink()
    assert "has no model.json" in refusal(folder)[0]
    weights.rename(folder / "cut.safetensors")
    (folder / "mask.json").write_text("{}")
    assert "a result, not a base model" in refusal(folder)[0]


def test_names_lead_to_assets_and_no_further(tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "ASSETS", tmp_path / "assets")
    save_classifier(small(), tmp_path / "assets" / "demo-resnet")
    save_classifier(small(), tmp_path / "outside")
    monkeypatch.chdir(tmp_path / "assets")
    assert load_classifier("demo-resnet", device="cpu").name == "demo-resnet"
    monkeypatch.chdir(tmp_path / "outside")
    assert inspect_classifier("demo-resnet").place == tmp_path / "assets" / "demo-resnet"
    for name in ("demo-resnet/../../outside", "nothing", "", "x\0y"):
        (fault,) = refusal(name)
        assert "is not known. Known: " in fault and "Or give a model folder" in fault
    assert "There is no such file or folder." in refusal("/nothing/here")[0]
    (fault,) = refusal("resnet18")
    assert "is an architecture, and no weights are given" in fault


def test_a_fresh_classifier_says_all_that_is_wrong():
    found = faults_of(fresh_classifier, "resnet11", ["a"], weights="mine")
    assert [fault.where for fault in found] == ["weights", "architecture", "classes"]
    with pytest.raises(RequestError, match="4 pixels do not fit"):
        fresh_classifier("resnet20", 2, size=4)


class TestImageNet:
    """torchvision's hub folder is a temporary one, and its network a function of ours."""

    @pytest.fixture
    def hub(self, tmp_path, monkeypatch):
        monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
        return tmp_path / "hub" / "checkpoints"

    @pytest.fixture
    def state(self):
        """Tensors as published, counters and all; zeros but for the head."""
        with torch.device("meta"):
            model = architecture_for("resnet18").build("resnet18", 1000)
        state = {
            name: torch.zeros(one.shape, dtype=one.dtype)
            for name, one in model.state_dict().items()
        }
        return state | {"fc.weight": torch.ones(1000, 512)}

    def test_no_network_says_what_to_do(self, hub, monkeypatch):
        def unreachable(request, timeout):
            assert request.get_method() == "HEAD" and timeout <= 10
            raise urllib.error.URLError("Name or service not known")

        monkeypatch.setattr("urllib.request.urlopen", unreachable)
        for ask in (
            lambda: inspect_classifier("resnet18", "imagenet"),
            lambda: fresh_classifier("resnet18", 2, weights="imagenet"),
        ):
            with pytest.raises(
                RequestError, match="could not be downloaded.*resnet18-f37072fd.pth.*give the path"
            ):
                ask()

    def test_a_new_head_is_seeded_and_said(self, hub, state, monkeypatch):
        monkeypatch.setattr("urllib.request.urlopen", lambda request, timeout: io.BytesIO())
        weights = type(architecture_for("resnet18").published("resnet18"))
        monkeypatch.setattr(weights, "get_state_dict", lambda self, **how: dict(state))
        one, same, other = (
            fresh_classifier("resnet18", ["x", "y"], seed=seed, weights="imagenet", device="cpu")
            for seed in (0, 0, 1)
        )
        assert one.weight_hash == same.weight_hash != other.weight_hash
        assert one.model.fc.weight.shape == (2, 512) and float(
            one.model.fc.weight.std()
        ) == pytest.approx(0.01, rel=0.1)
        assert "must be trained" in one.notes[0] and one.name == "resnet18 (ImageNet)"
        info = inspect_classifier("resnet18", "imagenet")
        assert (
            info.classes[:2] == ("tench", "goldfish")
            and len(set(info.classes)) == 1000
            and info.notes == ()
        )

    def test_a_file_in_the_hub_folder_must_have_the_hash_in_its_name(self, hub, state):
        hub.mkdir(parents=True)
        torch.save(state, hub / "resnet18-f37072fd.pth")
        (fault,) = refusal("resnet18", weights="imagenet")
        assert "does not have the hash in its name" in fault

    def test_the_file_is_read_by_torchvision_without_running_code(
        self, hub, state, tmp_path, monkeypatch
    ):
        monkeypatch.setattr("engine.models.image_classifier_sources._is_pinned", lambda file: True)
        hub.mkdir(parents=True)
        torch.save(state, hub / "resnet18-f37072fd.pth")
        assert inspect_classifier("resnet18", "imagenet").weight_hash == state_hash(state)
        torch.save(Evil(tmp_path / "ran"), hub / "resnet18-f37072fd.pth")
        assert "UnpicklingError" in refusal("resnet18", weights="imagenet")[0]
        assert not (tmp_path / "ran").exists()

    def test_where_none_are_published(self):
        (fault,) = refusal("resnet56", weights="imagenet")
        assert "no ImageNet weights of resnet56" in fault and "vgg16" in fault


def test_a_file_is_recognised_without_building_most_architectures(monkeypatch):
    assert set(stored_names()) == set(architectures()), "run python -m assets.build.tensor_names"
    for name in ("resnet18", "mobilenet_v2", "resnet56"):
        shapes = skeleton(name, 5).shapes
        assert stored_names()[name] == names_digest(shapes), (
            "run python -m assets.build.tensor_names"
        )
        skeleton.cache_clear()
        state = {key: torch.empty(shape, device="meta") for key, shape in shapes.items()}
        assert fitting_architectures(state) == [name] and skeleton.cache_info().misses < 5
    monkeypatch.setattr(
        "engine.models.state_dicts.stored_names", dict
    )  # of another torchvision: all are built
    monkeypatch.setattr(
        "engine.models.state_dicts.architectures", lambda: {"resnet56": architectures()["resnet56"]}
    )
    assert fitting_architectures(state) == ["resnet56"]


@pytest.mark.slow
def test_every_architecture_fits_itself_alone():
    assert dict(stored_names()) == written()["names"]
    kinds = {one.names[:2] for one in architectures().values()}
    for name in sorted({name for names in kinds for name in names}):
        state = {
            key: torch.empty(shape, device="meta")
            for key, shape in skeleton(name, 5).shapes.items()
        }
        assert fitting_architectures(state) == [name]


@real
def test_the_published_resnet56_loads_and_reaches_its_accuracy():
    path = CIFAR / "resnet56-4bfd9763.th"
    info = inspect_classifier(path)
    assert info.arch == "resnet56" and info.n_parameters == 853_018 and info.size == 32
    with np.load(CIFAR / "cifar10_test_5000.npz") as data:
        pixels, labels, names = (
            data["images"][:500],
            data["labels"][:500],
            data["class_names"].tolist(),
        )
    model = load_classifier("resnet56", weights=path, classes=names, device="cpu")
    assert model.weight_hash == info.weight_hash
    with torch.no_grad():
        found = torch.cat(
            [model.model(model.prepared(part)).argmax(1) for part in np.split(pixels, 5)]
        )
    assert 0.75 <= float((found.numpy() == labels).mean()) <= 0.90


def test_a_mean_beyond_pixels_from_0_to_1_is_asked_about(folder):
    """Before, a mean of pixels up to 255 was obeyed without a word."""
    assert inspect_classifier(folder).notes == ()
    edit(folder, CARD, mean=[127.5, 127.5, 127.5])
    said = (
        "Pixels from 0 to 1 are normalised by a mean of 127.5, 127.5, 127.5: was it one of pixels"
        " from 0 to 255?"
    )
    assert inspect_classifier(folder).notes == (said,)
