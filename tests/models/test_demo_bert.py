"""demo-bert as shipped: small, offline, as good as its card says, better for its pre-training; and
how it is made."""

from __future__ import annotations

import json
from itertools import islice

import pytest

from assets.build.models import train_bert
from assets.build.models.bert_card import logits_of
from assets.build.models.train_bert import Recipe
from assets.build.remark_task import CLASSES, tables
from engine.models import runtime  # noqa: F401
from engine.models.load_text_classifier import inspect_text_model, load_text_classifier
from tests.places import ASSETS

FOLDER = ASSETS / "demo-bert"
LIMIT = 3_000_000
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


def test_the_folder_is_small_and_holds_no_pickle():
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= LIMIT
    assert not [path for path in files if path.suffix in {".bin", ".pkl", ".pt"}]
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in files)


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


def test_no_test_text_is_read_in_pretraining():
    texts = {
        text for table in tables().values() for text in table.loc[table["split"] == "test", "text"]
    }
    assert not texts & set(train_bert.training_texts())
    tokenizer = train_bert.demo_tokenizer(TINY)
    rows = {tuple(tokenizer(text)["input_ids"]) for text in texts}
    for batch in islice(train_bert.text_batches(TINY, tokenizer), 20):
        assert not rows & {
            tuple(ids[mask > 0].tolist())
            for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)
        }


@pytest.mark.slow
def test_a_tiny_one_is_made_whole(tmp_path):
    train_bert.save(tmp_path / "one", TINY)
    info = inspect_text_model(tmp_path / "one")
    assert info.has_head and info.pretrained == tmp_path / "one" / "pretrained"
    card = (tmp_path / "one" / "CARD.md").read_text(encoding="utf-8")
    assert "| topics | random | 1 |" in card and "{" not in card
