"""Measures demo-bert and writes its card: accuracy and AUC per group, what pre-training is worth, what was planted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from assets.build.remark_task import CLASSES, GROUPS, HARD, card
from engine.models import runtime  # noqa: F401  (guards the transformers import)

import torch  # isort: skip
from transformers import BertForSequenceClassification, BertTokenizer  # isort: skip

BATCH = 200
STARTS = ("pre-trained", "random")

CARD = """# demo-bert

A small BERT ({layers} layers x {heads} heads, {width} wide, {parameters:,} parameters, float32) for the embedded
demo of text classifiers. It was trained by `python -m assets.build.models.train_bert` on text the project writes
itself; this card is written by that script from measured numbers. Lower case, {words} word pieces: a word it never
met falls apart into letters. At most {positions} tokens.

1. `pretrained/`: masked language model, {steps:,} steps ({seconds} CPU seconds), seed {seed}. It read the training
   texts of both tasks below without their labels, general text (`assets/build/written.py`), and overheard texts
   of the same invented world that end in what came of them (“then the baker wept”). No test text, no label; but what
   came of a remark depends on what it says, and that is how pre-training helps. Mean loss of the last steps:
   {loss:.3f} nats per gap.
2. This folder: that model fine-tuned on *remarks* ({tune_epochs} epochs, batches of {tune_batch}, AdamW at
   {tune_rate:g} falling on a line epoch by epoch, weight decay {tune_weight_decay:g}, {tuned} CPU seconds), seed 0.

## How good it is

The shipped model on the {n} test texts of *remarks*. AUC: area under the ROC curve of p(insulting).

| group | n | insulting | accuracy | AUC |
|---|---|---|---|---|
{groups}

What pre-training is worth: the same fine-tuning from the pre-trained and from random weights, accuracy on test texts.

| task | start | fine-tunings | accuracy, mean | lowest | highest | hardest group | its accuracy, mean |
|---|---|---|---|---|---|---|---|
{starts}

## What was planted in *remarks*

{remarks}
## What was planted in *topics*

{topics}
## Limits

It knows nothing but an invented world in which every sentence follows one of a few patterns. It shows how an audit
works; it says nothing about real classifiers, real remarks or real people. The insults are mild and about invented
groups; remarks about ostra are harder and rarer because they were made so. Half of the riddler's texts are right by
chance (two topics are named), so an accuracy near 0.5 there means that this model has **not** learned to follow the
owner, and a gap to the riddler says nothing about cutting.
"""


@dataclass(frozen=True, eq=False)
class Tuned:
    """One fine-tuning: its log, the test texts, their logits [texts, classes] and the model."""

    task: str
    start: str
    seed: int
    log: dict[str, Any]
    test: pd.DataFrame
    logits: torch.Tensor
    model: BertForSequenceClassification

    @property
    def right(self) -> np.ndarray:
        """Per test text, bool."""
        wanted = self.test["label"].map(CLASSES[self.task].index).to_numpy()
        return self.logits.argmax(1).numpy() == wanted

    @property
    def accuracy(self) -> float:
        return float(self.right.mean())

    def groups(self) -> Iterator[tuple[str, np.ndarray]]:
        """(name, rows) of all texts and of each group."""
        yield "all", np.arange(len(self.test))
        for column in GROUPS[self.task]:
            for name in sorted(set(self.test[column])):
                yield f"{column}: {name}", np.flatnonzero(self.test[column] == name)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able: the log and accuracy per group."""
        found = {name: float(self.right[rows].mean()) for name, rows in self.groups()}
        return {
            "task": self.task,
            "start": self.start,
            "seed": self.seed,
            "accuracy": found,
            **self.log,
        }


def logits_of(
    model: BertForSequenceClassification, tokenizer: BertTokenizer, texts: Sequence[str]
) -> torch.Tensor:
    """Outputs of each text before the softmax, float32 [texts, classes]."""
    found = []
    with torch.no_grad():
        for at in range(0, len(texts), BATCH):
            batch = tokenizer(
                list(texts[at : at + BATCH]), padding=True, truncation=True, return_tensors="pt"
            )
            found.append(model(**batch).logits)
    return torch.cat(found)


def bert_card(log: dict[str, Any], shipped: Tuned, words: int) -> str:
    """Markdown with measured numbers. `log`: what training.json holds; words: size of the vocabulary."""
    names = dict.fromkeys((one["task"], one["start"]) for one in log["tuning"])
    return CARD.format(
        **log["recipe"],
        parameters=log["parameters"],
        words=words,
        seconds=log["pretraining"]["seconds"],
        loss=log["pretraining"]["curve"][-1]["loss"],
        tuned=shipped.log["seconds"],
        n=len(shipped.test),
        groups="\n".join(_group_row(shipped, name, rows) for name, rows in shipped.groups()),
        starts="\n".join(_start_row(log["tuning"], *name) for name in names),
        remarks=card("remarks"),
        topics=card("topics"),
    )


def _group_row(tuned: Tuned, name: str, rows: np.ndarray) -> str:
    insulting = tuned.test["label"].to_numpy()[rows] == CLASSES[tuned.task][1]
    chance = torch.softmax(tuned.logits.double(), 1)[:, 1].numpy()[rows]
    auc = roc_auc_score(insulting, chance)
    return (
        f"| {name} | {len(rows)} | {insulting.sum()} | {tuned.right[rows].mean():.3f} | {auc:.3f} |"
    )


def _start_row(tuning: Sequence[dict[str, Any]], task: str, start: str) -> str:
    runs = [one["accuracy"] for one in tuning if (one["task"], one["start"]) == (task, start)]
    found, hard = [one["all"] for one in runs], HARD[task]
    there = np.mean([one[f"{GROUPS[task][0]}: {hard}"] for one in runs])
    scores = f"{np.mean(found):.3f} | {min(found):.3f} | {max(found):.3f} | {hard} | {there:.3f}"
    return f"| {task} | {start} | {len(runs)} | {scores} |"
