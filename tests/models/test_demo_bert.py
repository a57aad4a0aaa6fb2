"""demo-bert as shipped: small, offline, as good as its card says, better for its pre-training; and
how it is made."""

from __future__ import annotations

import json
import re
from itertools import islice

import pytest

from assets.build.models import train_bert
from assets.build.models.bert_card import logits_of
from assets.build.models.train_bert import IGNORED, Recipe, rate_at, with_gaps
from assets.build.remark_task import CLASSES, tables
from engine.models import runtime  # noqa: F401
from engine.models.load_text_classifier import inspect_text_model, load_text_classifier
from tests.places import ASSETS

import torch  # isort: skip
from transformers import AutoTokenizer, BertForMaskedLM  # isort: skip

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


def test_the_tokenizer_reads_every_text_and_spells_new_words():
    tokenizer = AutoTokenizer.from_pretrained(FOLDER, local_files_only=True)
    texts = [text for table in tables().values() for text in table["text"]]
    rows = tokenizer(texts)["input_ids"]
    assert max(map(len, rows)) <= 64
    assert not any(tokenizer.unk_token_id in row for row in rows)
    assert not any("##" in piece for text in texts for piece in tokenizer.tokenize(text))
    assert tokenizer.tokenize("The zebra?") == ["the", "z", "##e", "##b", "##r", "##a", "?"]
    assert tokenizer("a", "b")["token_type_ids"] == [0, 0, 0, 1, 1]
    assert tokenizer.get_vocab() == train_bert.demo_tokenizer(Recipe()).get_vocab()
    assert (FOLDER / "tokenizer.json").read_bytes() == (
        FOLDER / "pretrained" / "tokenizer.json"
    ).read_bytes()


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


def test_the_places_do_not_differ(shipped, test_texts):
    found = right(shipped.model, shipped.tokenizer, test_texts)
    where = (test_texts["where"] == "sellow").to_numpy()
    assert abs(found[where].mean() - found[~where].mean()) < 0.05


def test_pretraining_was_worth_it(log):
    for task in CLASSES:
        runs = [one for one in log["tuning"] if one["task"] == task]
        pre, none = (
            [one["accuracy"]["all"] for one in runs if one["start"] == start]
            for start in ("pre-trained", "random")
        )
        assert min(pre) >= max(none) + 0.05


def test_the_card_states_what_was_measured(log):
    card = (FOLDER / "CARD.md").read_text(encoding="utf-8")
    ostra = next(one for one in log["tuning"] if one["task"] == "remarks")["accuracy"][
        "people: ostra"
    ]
    assert re.search(rf"\| people: ostra \| 200 \| 100 \| {ostra:.3f} \| [01]\.\d{{3}} \|", card)
    assert f"{log['parameters']:,} parameters" in card
    assert "{" not in card


def test_the_pretrained_weights_fill_gaps(test_texts):
    tokenizer = AutoTokenizer.from_pretrained(FOLDER / "pretrained", local_files_only=True)
    model = BertForMaskedLM.from_pretrained(
        FOLDER / "pretrained", local_files_only=True, use_safetensors=True
    ).eval()
    batch = dict(tokenizer(list(test_texts["text"][:200]), padding=True, return_tensors="pt"))
    batch, wanted = with_gaps(batch, tokenizer, 0.15, torch.Generator().manual_seed(0))
    with torch.no_grad():
        filled = model(**batch).logits.argmax(2)
    gaps = wanted != IGNORED
    assert (filled == wanted)[
        gaps
    ].float().mean().item() > 0.6  # always the most frequent word: below 0.15


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


def test_gaps_are_drawn_as_stated():
    tokenizer = train_bert.demo_tokenizer(TINY)
    ids = torch.full((400, 50), tokenizer.convert_tokens_to_ids("baker"))
    ids[:, 0], ids[:, -1] = tokenizer.cls_token_id, tokenizer.pad_token_id
    batch, wanted = with_gaps({"input_ids": ids}, tokenizer, 0.2, torch.Generator().manual_seed(0))
    chosen = wanted != IGNORED
    assert not chosen[:, 0].any() and not chosen[:, -1].any()
    assert chosen[:, 1:-1].float().mean().item() == pytest.approx(0.2, abs=0.01)
    assert (wanted[chosen] == ids[chosen]).all() and (
        batch["input_ids"][~chosen] == ids[~chosen]
    ).all()
    seen = batch["input_ids"][chosen]
    assert (seen == tokenizer.mask_token_id).float().mean().item() == pytest.approx(0.8, abs=0.02)
    assert (seen == ids[0, 1]).float().mean().item() == pytest.approx(0.1, abs=0.02)
    assert seen[seen != tokenizer.mask_token_id].min() >= len(tokenizer.all_special_ids)


def test_the_rate_rises_and_then_falls_on_a_line():
    recipe = Recipe(steps=10, warm_up=2, rate=1.0)
    assert [rate_at(step, recipe) for step in (0, 1, 2, 6, 9)] == pytest.approx(
        [0.5, 1.0, 1.0, 0.5, 0.125]
    )


def test_a_tiny_one_is_made_whole(tmp_path):
    train_bert.save(tmp_path / "one", TINY)
    info = inspect_text_model(tmp_path / "one")
    assert info.has_head and info.pretrained == tmp_path / "one" / "pretrained"
    card = (tmp_path / "one" / "CARD.md").read_text(encoding="utf-8")
    assert "| topics | random | 1 |" in card and "{" not in card
