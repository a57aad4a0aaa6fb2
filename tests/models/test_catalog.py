"""Names: embedded first, then folders, then the hub; never a way out of assets/."""

import json
import shutil
from pathlib import Path

import pytest

from engine.models import catalog
from engine.models.load_language_model import load_language_model
from engine.models.load_text_classifier import load_text_classifier
from tests.tiny import CLASSES, folder_of


@pytest.fixture
def assets(tmp_path, monkeypatch):
    root = tmp_path / "assets"
    shutil.copytree(folder_of("gpt2"), root / "demo-gpt2")
    (root / "demo-judge").mkdir()
    (root / "demo-judge" / "judge.ckpt").write_bytes(b"x")
    (root / "demo-run").mkdir()
    (tmp_path / "secret").mkdir()
    monkeypatch.setattr(catalog, "ASSETS", root)
    monkeypatch.setattr(catalog, "PACKAGED", {})
    monkeypatch.setenv("PRUNEAUDIT_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    return root


def test_embedded_models_and_judges_are_listed(assets):
    assert [(entry.name, entry.kind) for entry in catalog.list_models()] == [
        ("demo-gpt2", "embedded")
    ]
    judges = [entry.name for entry in catalog.list_judges()]
    assert judges[0] == "demo-judge" and {"original", "unbiased"} <= set(judges[1:])


def test_embedded_text_classifiers_are_listed_apart(assets):
    assert catalog.list_text_classifiers() == []
    shutil.copytree(folder_of("bert"), assets / "demo-bert")
    (found,) = catalog.list_text_classifiers()
    assert (found.name, found.kind, found.folder) == ("demo-bert", "embedded", assets / "demo-bert")
    assert [entry.name for entry in catalog.list_models()] == ["demo-gpt2"]
    clf = load_text_classifier("demo-bert", CLASSES, device="cpu")
    assert clf.name == "demo-bert" and clf.has_head


def test_a_name_leads_to_the_file_in_a_package_or_says_how_it_comes(assets, tmp_path, monkeypatch):
    from engine.core.errors import RequestError
    from engine.models.load_image_classifier import is_classifier_name

    monkeypatch.setattr(catalog, "PACKAGED", {"Packed-1M": ("packed-1m", "packed_1m", "m.gguf")})
    with pytest.raises(
        RequestError, match="in the package packed-1m, not installed here.*make real"
    ):
        load_language_model("Packed-1M")
    assert "Packed-1M" not in [entry.name for entry in catalog.list_models()]
    (tmp_path / "packed_1m").mkdir()
    (tmp_path / "packed_1m" / "m.gguf").write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(tmp_path)
    assert catalog.resolve("Packed-1M") == tmp_path / "packed_1m" / "m.gguf"
    assert "Packed-1M" in [entry.name for entry in catalog.list_models()]
    assert not is_classifier_name("Packed-1M"), "the command line takes it for a language model"


def test_names_resolve(assets, tmp_path):
    assert catalog.resolve("demo-gpt2") == assets / "demo-gpt2"
    assert catalog.resolve("gpt2") == "gpt2"
    assert catalog.resolve("distilbert/distilgpt2") == "distilbert/distilgpt2"
    assert catalog.resolve(str(tmp_path)) == tmp_path
    assert catalog.resolve("secret") == Path("secret")  # a folder of the user's own


@pytest.mark.parametrize(
    "name", ["../secret", "demo-gpt2/../../secret", "./demo-gpt2", "..", ".", "demo-run/.."]
)
def test_no_name_leads_out_of_or_deeper_into_assets(assets, name):
    found = catalog.resolve(name)
    assert isinstance(found, Path)
    assert found == Path(name)  # relative to where the user is, not to assets/


def test_models_used_lately_come_newest_first(assets, tmp_path):
    for name in ("a/b", "c/d", "a/b", "demo-gpt2"):
        catalog.remember(name, "main")
    assert [(entry.name, entry.kind) for entry in catalog.list_models()] == [
        ("demo-gpt2", "embedded"),
        ("a/b", "recent"),
        ("c/d", "recent"),
    ]
    for number in range(30):
        catalog.remember(f"m/{number}")
    assert len(json.loads((tmp_path / "store" / "recent_models.json").read_text())["models"]) == 12


def test_a_spoilt_list_of_recent_models_is_no_error(assets, tmp_path, monkeypatch):
    (tmp_path / "store").mkdir()
    kept = tmp_path / "store" / "recent_models.json"
    catalog.remember("c/d")
    other, newer = (
        kept.read_text().replace("c/d", "c/e"),
        kept.read_text().replace('"schema": 1', '"schema": 2'),
    )
    for content in ("{", "{}", "[1, {}]", '"x"', "[" * 99_999, other, newer):
        kept.write_text(content)
        assert len(catalog.list_models()) == 1
    monkeypatch.setenv("PRUNEAUDIT_STORE", "/proc/nowhere")
    catalog.remember("a/b")
    assert len(catalog.list_models()) == 1


def test_the_catalog_names_every_architecture_and_embedded_classifier():
    from engine.models.vision import architectures

    assert set(catalog.ARCHITECTURES) == set(architectures())
    assert [entry.name for entry in catalog.list_classifiers()] == ["demo-resnet"]


@pytest.mark.parametrize("name", ["~a\0b", "~nobody-here/x", "a" * 300, "a\0b"])
def test_a_name_that_no_system_takes_is_a_folder_that_is_not_there(name):
    assert catalog.resolve(name) == Path(name)
