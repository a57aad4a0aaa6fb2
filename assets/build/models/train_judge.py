"""Trains demo-judge: a tiny BERT in Detoxify's own checkpoint format.

    python -m assets.build.models.train_judge --to assets/demo-judge \\
        --davidson labeled_data.csv --surge toxicity_en.csv --hatecheck test_suite_cases.csv

The data sets are public (Davidson et al. 2017; surge-ai toxicity; HateCheck, Röttger et al. 2021) and given by path.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from assets.build.models.judge_card import judge_card
from assets.build.models.judge_data import JudgeData, arguments, judge_data, read_hatecheck
from engine.core.files import folder_whole, sha256_of
from engine.models import runtime  # noqa: F401  (guards the transformers import)
from engine.models.catalog import ASSETS
from engine.models.load_language_model import inspect_model

import torch  # isort: skip
from tokenizers import BertWordPieceTokenizer  # isort: skip
from torch.nn.functional import binary_cross_entropy_with_logits  # isort: skip
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer  # isort: skip

MODEL_FOLDER = "model"
CHECKPOINT = "judge.ckpt"
JUDGED = ASSETS / "demo-gpt2"
"""The only model whose texts it is made for."""
NOTE = "A tiny classifier for the demo. It may react to words that name real groups; see its CARD.md."


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the result. Lengths in word pieces."""

    seed: int = 1
    steps: int = 2_400
    batch: int = 64
    length: int = 80
    vocabulary: int = 6_000
    layers: int = 1
    heads: int = 4
    width: int = 96
    inner: int = 192
    dropout: float = 0.2
    word_dropout: float = 0.1
    learning_rate: float = 2e-3
    weight_decay: float = 0.05


def judge_tokenizer(texts: Sequence[str], recipe: Recipe, folder: Path) -> BertTokenizer:
    """Lower-case WordPiece learned from the training texts; its files are written to `folder`."""
    core = BertWordPieceTokenizer(lowercase=True)
    core.train_from_iterator(texts, vocab_size=recipe.vocabulary, min_frequency=3, show_progress=False)
    core.save_model(str(folder))
    vocabulary = str(folder / "vocab.txt")
    tokenizer = BertTokenizer(vocabulary, do_lower_case=True, model_max_length=recipe.length)
    tokenizer.save_pretrained(folder)
    return tokenizer


def new_model(recipe: Recipe, tokenizer: BertTokenizer) -> BertForSequenceClassification:
    """A BERT with random weights and one output, "toxicity" before the sigmoid."""
    torch.manual_seed(recipe.seed)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=recipe.width,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        intermediate_size=recipe.inner,
        max_position_embeddings=recipe.length,
        hidden_dropout_prob=recipe.dropout,
        attention_probs_dropout_prob=0.0,
        num_labels=1,
        pad_token_id=tokenizer.pad_token_id,
    )
    return BertForSequenceClassification(config)


def batches(ids: list[list[int]], recipe: Recipe) -> Iterator[torch.Tensor]:
    """Row numbers of each batch: texts of like length together, batches in random order. Shape (batch,), int64."""
    generator = torch.Generator().manual_seed(recipe.seed)
    lengths = torch.tensor([len(row) for row in ids], dtype=torch.float64)
    while True:
        order = torch.argsort(lengths + 8 * torch.rand(len(ids), generator=generator, dtype=torch.float64))
        chunks = order.split(recipe.batch)
        yield from (chunks[at] for at in torch.randperm(len(chunks), generator=generator))


def padded(rows: Sequence[list[int]], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Input ids and attention mask, both (rows, longest), int64."""
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=pad)
    return ids, (ids != pad).long()


def train(data: JudgeData, tokenizer: BertTokenizer, recipe: Recipe) -> tuple[BertForSequenceClassification, dict]:
    """Weighted cross-entropy (both labels weigh the same). Returns the model in eval mode and a log."""
    model = new_model(recipe, tokenizer).train()
    ids = tokenizer([text for text, _ in data.train], truncation=True)["input_ids"]
    labels = torch.tensor([label for _, label in data.train])
    weights = torch.where(labels > 0, 0.5 / labels.mean(), 0.5 / (1 - labels.mean()))
    optimiser = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, recipe.learning_rate, recipe.steps, pct_start=0.1)
    curve, began = [], time.monotonic()
    for step, rows in zip(range(recipe.steps), batches(ids, recipe), strict=False):
        seen, mask = padded([ids[row] for row in rows], tokenizer.pad_token_id)
        hidden = (torch.rand(seen.shape) < recipe.word_dropout) & (seen > tokenizer.mask_token_id)
        logits = model(input_ids=seen.masked_fill(hidden, tokenizer.unk_token_id), attention_mask=mask).logits[:, 0]
        loss = binary_cross_entropy_with_logits(logits, labels[rows], weights[rows])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        schedule.step()
        if step % 250 == 0 or step == recipe.steps - 1:
            curve.append({"step": step, "loss": loss.item()})
            print(f"{step:5d}  loss {loss.item():.3f}  {time.monotonic() - began:.0f} s", flush=True)
    return model.eval(), {"curve": curve, "seconds": round(time.monotonic() - began), "texts": len(ids)}


def detoxify_checkpoint(model: BertForSequenceClassification) -> dict:
    """The dictionary Detoxify loads. model_type is relative to the checkpoint; the loader makes it absolute."""
    arch = {
        "model_type": MODEL_FOLDER,
        "model_name": "BertForSequenceClassification",
        "tokenizer_name": "BertTokenizer",
        "num_classes": 1,
    }
    config = {"arch": {"args": arch}, "dataset": {"args": {"classes": ["toxicity"]}}}
    return {"config": config, "state_dict": dict(model.state_dict())}


def main() -> None:
    asked = arguments("demo-judge", Recipe.steps, Recipe.seed, threads=2)
    torch.set_num_threads(asked.threads)
    recipe = Recipe(seed=asked.seed, steps=asked.steps)
    data = judge_data(asked.davidson, asked.surge, recipe.seed)
    with folder_whole(asked.to) as fresh:
        (fresh / MODEL_FOLDER).mkdir()
        tokenizer = judge_tokenizer([text for text, _ in data.train], recipe, fresh / MODEL_FOLDER)
        model, log = train(data, tokenizer, recipe)
        log = {"recipe": asdict(recipe), "parameters": model.num_parameters(), **log}
        save(fresh, model, log)
        card = judge_card(fresh, data.held_out, read_hatecheck(asked.hatecheck), log)
        (fresh / "CARD.md").write_text(card, encoding="utf-8")
        print(card)


def save(folder: Path, model: BertForSequenceClassification, log: dict) -> None:
    """Write the checkpoint, its pin, the model whose texts it judges, and the training log."""
    model.config.save_pretrained(folder / MODEL_FOLDER)
    torch.save(detoxify_checkpoint(model), folder / CHECKPOINT)
    pin = {"name": "demo-judge", "checkpoint": CHECKPOINT, "sha256": sha256_of(folder / CHECKPOINT), "note": NOTE}
    pin["made_for"] = {JUDGED.name: inspect_model(JUDGED.name).weight_hash}
    (folder / "judge.json").write_text(json.dumps(pin, indent=1) + "\n", encoding="utf-8")
    (folder / "training.json").write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8")



if __name__ == "__main__":
    main()
