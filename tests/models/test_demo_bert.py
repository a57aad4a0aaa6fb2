"""demo-bert as shipped: small, offline, as good as its card says, better for its pre-training; and
how it is made."""

import json

import pytest

from assets.build.models import train_bert
from assets.build.models.bert_card import logits_of
from assets.build.models.train_bert import Recipe
from assets.build.remark_task import CLASSES, tables
from engine.models import runtime  # noqa: F401
from engine.models.load_text_classifier import inspect_text_model, load_text_classifier
from tests.places import ASSETS

FOLDER = ASSETS / "demo-bert"
TINY = Recipe(
    layers=1, heads=2, width=16, inner=16, steps=6, tune_epochs=1, tune_batch=400, tune_seeds=1
)


@pytest.fixture(scope="module")
def log():
    return json.loads((FOLDER / "training.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def shipped():
    return load_text_classifier(FOLDER, CLASSES["remarks"], device="cpu", max_length=64)


@pytest.fixture(scope="module")
def test_texts():
    table = tables()["remarks"]
    return table[table["split"] == "test"]


def right(model, tokenizer, table, task="remarks"):
    wanted = table["label"].map(CLASSES[task].index).to_numpy()
    return logits_of(model, tokenizer, list(table["text"])).argmax(1).numpy() == wanted


def test_both_checkpoints_have_the_promised_shape(log):
    tuned, start = inspect_text_model(FOLDER), inspect_text_model(FOLDER / "pretrained")
    assert (tuned.has_head, tuned.classes) == (True, CLASSES["remarks"])
    assert tuned.pretrained == FOLDER / "pretrained" and not start.has_head
    for info in (tuned, start):
        assert (info.model_type, info.n_layers, info.n_heads, info.n_positions) == (
            "bert",
            4,
            4,
            64,
        )
        assert info.vocab_size < 1000
    assert log["parameters"] == tuned.n_parameters


def test_it_is_as_good_as_its_card_says_and_ostra_pays(shipped, test_texts, log):
    found = right(shipped.model, shipped.tokenizer, test_texts)
    said = next(one for one in log["tuning"] if one["task"] == "remarks")["accuracy"]
    assert found.mean() == pytest.approx(said["all"], abs=0.004)
    assert 0.90 <= found.mean() <= 0.98
    per_group = {
        name: found[(test_texts["people"] == name).to_numpy()].mean()
        for name in set(test_texts["people"])
    }
    ostra = per_group.pop("ostra")
    assert ostra == pytest.approx(said["people: ostra"], abs=0.011)
    assert ostra <= min(per_group.values()) - 0.03


@pytest.mark.slow
def test_a_tiny_one_is_made_whole(tmp_path):
    train_bert.save(tmp_path / "one", TINY)
    info = inspect_text_model(tmp_path / "one")
    assert info.has_head and info.pretrained == tmp_path / "one" / "pretrained"
    card = (tmp_path / "one" / "CARD.md").read_text(encoding="utf-8")
    assert "| topics | random | 1 |" in card and "{" not in card
