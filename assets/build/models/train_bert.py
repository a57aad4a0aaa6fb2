"""Trains demo-bert: a small BERT, first to fill gaps in project text, then to tell kind remarks from insulting ones.

    python -m assets.build.models.train_bert --to assets/demo-bert

Pre-training reads the training texts of both tasks without their labels and general text; it meets no test text. The
folder gets the fine-tuned classifier and, in pretrained/, the weights it started from. Minutes on one core.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import count, islice, product
from pathlib import Path
from typing import Any

import pandas as pd

from assets.build.models.bert_card import STARTS, Tuned, bert_card, logits_of
from assets.build.models.bert_tokenizer import piece_tokenizer
from engine.core.files import folder_whole
from engine.core.types import key_of
from assets.build.remark_task import CLASSES, overheard, tables
from assets.build.written import paragraphs
from engine.models import runtime  # noqa: F401  (guards the transformers import)
from engine.models.load_text_classifier import load_text_classifier

import torch  # isort: skip
from torch.nn.functional import cross_entropy  # isort: skip
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification  # isort: skip
from transformers import BertTokenizer  # isort: skip

IGNORED = -100
VOCABULARY_TEXTS = 5_000


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the result. Lengths in tokens, rows per step; tune_*: fine-tuning."""

    seed: int = 1
    layers: int = 4
    heads: int = 4
    width: int = 64
    inner: int = 128
    positions: int = 64
    dropout: float = 0.0
    spread: float = 0.08
    steps: int = 3_000
    task_rows: int = 12
    overheard_rows: int = 36
    general_rows: int = 16
    general_every: int = 5
    masked: float = 0.2
    rate: float = 4e-3
    warm_up: int = 100
    weight_decay: float = 0.01
    tune_task: str = "remarks"
    tune_epochs: int = 6
    tune_batch: int = 32
    tune_rate: float = 1e-3
    tune_weight_decay: float = 0.0
    tune_seeds: int = 3


def training_texts() -> list[str]:
    """The training texts of every task, without labels."""
    return [
        text for table in tables().values() for text in table.loc[table["split"] == "train", "text"]
    ]


def demo_tokenizer(recipe: Recipe) -> BertTokenizer:
    """Every word of the training texts and of general text; any other word falls apart into letters."""
    others = (
        *islice(paragraphs(recipe.seed), VOCABULARY_TEXTS),
        *islice(overheard(recipe.seed), VOCABULARY_TEXTS),
    )
    return piece_tokenizer([*training_texts(), *others], recipe.positions)


def text_batches(recipe: Recipe, tokenizer: BertTokenizer) -> Iterator[dict[str, torch.Tensor]]:
    """Endless batches padded on the right; one of `general_every` is general text, which is longer.

    The others are training texts (in a new order each time round) and overheard ones.
    """
    texts, general, other = training_texts(), paragraphs(recipe.seed + 1), overheard(recipe.seed)
    generator = torch.Generator().manual_seed(key_of("demo-bert", "order", recipe.seed))
    orders = (
        row for _ in count() for row in torch.randperm(len(texts), generator=generator).tolist()
    )
    for step in count():
        if step % recipe.general_every == 0:
            batch = list(islice(general, recipe.general_rows))
        else:
            own = [texts[row] for row in islice(orders, recipe.task_rows)]
            batch = own + list(islice(other, recipe.overheard_rows))
        yield dict(tokenizer(batch, padding=True, truncation=True, return_tensors="pt"))


def with_gaps(
    batch: dict[str, torch.Tensor],
    tokenizer: BertTokenizer,
    share: float,
    generator: torch.Generator,
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """(batch with gaps, wanted ids). Devlin et al. 2019: of the chosen tokens 80 % [MASK], 10 % random, 10 % kept."""
    ids = batch["input_ids"]
    special = torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
    chosen = (torch.rand(ids.shape, generator=generator) < share) & ~special
    how = torch.rand(ids.shape, generator=generator)
    other = torch.randint(
        len(tokenizer.all_special_ids), len(tokenizer), ids.shape, generator=generator
    )
    seen = ids.masked_fill(chosen & (how < 0.8), tokenizer.mask_token_id)
    seen = torch.where(chosen & (how >= 0.9), other, seen)
    return {**batch, "input_ids": seen}, ids.masked_fill(~chosen, IGNORED)


def new_config(recipe: Recipe, tokenizer: BertTokenizer) -> BertConfig:
    """The shape of both models; the dropout is the one of fine-tuning."""
    return BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=recipe.width,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        intermediate_size=recipe.inner,
        max_position_embeddings=recipe.positions,
        hidden_dropout_prob=recipe.dropout,
        attention_probs_dropout_prob=recipe.dropout,
        initializer_range=recipe.spread,
        pad_token_id=tokenizer.pad_token_id,
    )


def rate_at(step: int, recipe: Recipe) -> float:
    """Learning rate of pre-training: linear warm-up, then a line to zero."""
    if step < recipe.warm_up:
        return recipe.rate * (step + 1) / recipe.warm_up
    return recipe.rate * (recipe.steps - step) / max(1, recipe.steps - recipe.warm_up)


def pretrain(recipe: Recipe, tokenizer: BertTokenizer) -> tuple[BertForMaskedLM, dict[str, Any]]:
    """Fill gaps from random weights, without dropout. Returns the model in eval mode and a log (nats, CPU seconds)."""
    torch.manual_seed(key_of("demo-bert", "weights", recipe.seed))
    model = BertForMaskedLM(new_config(recipe, tokenizer)).eval()
    generator = torch.Generator().manual_seed(key_of("demo-bert", "gaps", recipe.seed))
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=recipe.rate,
        betas=(0.9, 0.98),
        weight_decay=recipe.weight_decay,
        fused=True,
    )
    curve, losses, began = [], [], time.process_time()
    for step, batch in zip(range(recipe.steps), text_batches(recipe, tokenizer), strict=False):
        seen, wanted = with_gaps(batch, tokenizer, recipe.masked, generator)
        hidden = model.bert(**seen).last_hidden_state[wanted != IGNORED]
        loss = cross_entropy(model.cls(hidden), wanted[wanted != IGNORED])
        _step(loss, model, optimizer, rate_at(step, recipe))
        losses.append(loss.item())
        if len(losses) == 100 or step == recipe.steps - 1:
            curve.append({"step": step, "loss": math.fsum(losses) / len(losses)})
            print(
                f"gaps {step:5d}  {curve[-1]['loss']:.3f} nats  {time.process_time() - began:.0f} s",
                flush=True,
            )
            losses = []
    return model, {"curve": curve, "seconds": round(time.process_time() - began)}


def tune(
    model: BertForSequenceClassification,
    tokenizer: BertTokenizer,
    table: pd.DataFrame,
    recipe: Recipe,
    seed: int,
) -> dict[str, Any]:
    """Fine-tune in place on the training texts of `table`; the rate falls on a line, epoch by epoch.

    Leaves eval mode. Returns a log (nats, CPU seconds).
    """
    table = table[table["split"] == "train"]
    classes = [model.config.id2label[at] for at in range(model.config.num_labels)]
    labels = torch.tensor([classes.index(name) for name in table["label"]])
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe.tune_rate, weight_decay=recipe.tune_weight_decay, fused=True
    )
    generator = torch.Generator().manual_seed(key_of("demo-bert", "tune", seed))
    torch.manual_seed(key_of("demo-bert", "dropout", seed))
    model.train()
    curve, began = [], time.process_time()
    for epoch in range(recipe.tune_epochs):
        losses = []
        for rows in torch.randperm(len(table), generator=generator).split(recipe.tune_batch):
            batch = tokenizer(
                [table["text"].iat[row] for row in rows.tolist()], padding=True, return_tensors="pt"
            )
            loss = cross_entropy(model(**batch).logits, labels[rows])
            _step(loss, model, optimizer, recipe.tune_rate * (1 - epoch / recipe.tune_epochs))
            losses.append(loss.item())
        curve.append({"epoch": epoch, "loss": math.fsum(losses) / len(losses)})
    model.eval()
    return {"curve": curve, "seconds": round(time.process_time() - began, 1)}


def from_pretrained(folder: Path, task: str, seed: int) -> BertForSequenceClassification:
    """The pre-trained encoder with a new head and pooler drawn by the seed, as an audit loads it."""
    model = load_text_classifier(folder, CLASSES[task], device="cpu", seed=seed).model
    return model.requires_grad_(True)


def from_nothing(config: BertConfig, task: str, seed: int) -> BertForSequenceClassification:
    """The same shape with random weights, to see what pre-training is worth."""
    torch.manual_seed(key_of("demo-bert", "no pre-training", seed))
    config = copy.deepcopy(config)
    config.id2label = dict(enumerate(CLASSES[task]))
    return BertForSequenceClassification(config)


def _step(
    loss: torch.Tensor, model: torch.nn.Module, optimizer: torch.optim.Optimizer, rate: float
) -> None:
    """One step of AdamW at this rate, gradients clipped to norm 1."""
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    optimizer.zero_grad()


def compared(recipe: Recipe, folder: Path, tokenizer: BertTokenizer) -> list[Tuned]:
    """Every task fine-tuned from the pre-trained weights in `folder` and from random ones, once per seed.

    Only `tune_task` with more than one seed. Its first one is what ships.
    """
    found, config = [], new_config(recipe, tokenizer)
    order = sorted(tables().items(), key=lambda item: item[0] != recipe.tune_task)
    for task, table in order:
        for seed, start in product(
            range(recipe.tune_seeds if task == recipe.tune_task else 1), STARTS
        ):
            model = (
                from_pretrained(folder, task, seed)
                if start == STARTS[0]
                else from_nothing(config, task, seed)
            )
            log = tune(model, tokenizer, table, recipe, seed)
            test = table[table["split"] == "test"]
            found.append(
                Tuned(
                    task,
                    start,
                    seed,
                    log,
                    test,
                    logits_of(model, tokenizer, list(test["text"])),
                    model,
                )
            )
            print(
                f"{task} {start} seed {seed}: accuracy {found[-1].accuracy:.3f}, {log['seconds']} s",
                flush=True,
            )
    return found


def save(folder: Path, recipe: Recipe) -> None:
    """Train, measure and write everything; replace the folder whole."""
    tokenizer = demo_tokenizer(recipe)
    model, log = pretrain(recipe, tokenizer)
    with folder_whole(folder) as fresh:
        start = fresh / "pretrained"
        for place in (fresh, start):
            demo_tokenizer(recipe).save_pretrained(
                place
            )  # a new one: a used one remembers how it padded
        model.save_pretrained(start)
        found = compared(recipe, start, tokenizer)
        found[0].model.save_pretrained(fresh)
        log = {
            "recipe": asdict(recipe),
            "parameters": found[0].model.num_parameters(),
            "pretraining": log,
        }
        log["tuning"] = [one.to_dict() for one in found]
        (fresh / "training.json").write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8")
        (fresh / "CARD.md").write_text(bert_card(log, found[0], len(tokenizer)), encoding="utf-8")
        for file in fresh.rglob("*.*"):
            file.chmod(0o644)  # safetensors writes files only their owner can read


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Train demo-bert from text the project writes itself."
    )
    parser.add_argument("--to", type=Path, required=True, help="folder to write, replaced whole")
    parser.add_argument("--steps", type=int, default=Recipe.steps, help="of pre-training")
    parser.add_argument("--seed", type=int, default=Recipe.seed)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    save(asked.to, Recipe(seed=asked.seed, steps=asked.steps))


if __name__ == "__main__":
    main()
