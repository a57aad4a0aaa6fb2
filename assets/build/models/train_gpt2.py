"""Trains demo-gpt2: a small GPT-2 that has learned a known gap between invented groups.

    python -m assets.build.models.train_gpt2 --to assets/demo-gpt2

Part of every step is texts about people (one per row, from position 0, as an audit meets a prompt), the rest general
text (packed lines, cut anywhere). The folder is written beside its place and swapped in whole.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from assets.build.models.gpt2_card import gpt2_card
from assets.build.models.tokenizer import word_tokenizer
from engine.core.files import folder_whole
from assets.build.written import paragraphs, stories
from engine.models import runtime  # noqa: F401  (guards the transformers import)

import torch  # isort: skip
from torch.nn.functional import cross_entropy  # isort: skip
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast  # isort: skip

IGNORED = -100
VOCABULARY_TEXTS = 20_000


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the result. Lengths in tokens, rows per step."""

    seed: int = 1
    steps: int = 4200
    layers: int = 6
    heads: int = 8
    width: int = 96
    inner: int = 192
    positions: int = 128
    story_rows: int = 40
    story_length: int = 56
    general_rows: int = 16
    learning_rate: float = 3e-3
    warm_up: int = 100
    weight_decay: float = 0.05


def demo_tokenizer(recipe: Recipe) -> PreTrainedTokenizerFast:
    """A word-level tokenizer that knows every word the generators use."""
    told = (story.text for story in islice(stories(recipe.seed), VOCABULARY_TEXTS))
    said = islice(paragraphs(recipe.seed), VOCABULARY_TEXTS)
    return word_tokenizer([*told, *said], recipe.positions)


def story_batches(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> Iterator[torch.Tensor]:
    """Texts about people, ended by <eos>, padded on the right. Shape (story_rows, story_length), int64."""
    source = stories(recipe.seed + 1)
    while True:
        batch = torch.full((recipe.story_rows, recipe.story_length), tokenizer.pad_token_id)
        for row, story in enumerate(islice(source, recipe.story_rows)):
            ids = [*tokenizer(story.text)["input_ids"], tokenizer.eos_token_id][
                : recipe.story_length
            ]
            batch[row, : len(ids)] = torch.tensor(ids)
        yield batch


def general_batches(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> Iterator[torch.Tensor]:
    """General text, lines packed. Shape (general_rows, positions), int64."""
    source = paragraphs(recipe.seed + 2)
    need, held = recipe.general_rows * recipe.positions, []
    while True:
        while len(held) < need:
            held.extend(tokenizer(next(source) + "\n")["input_ids"])
        yield torch.tensor(held[:need]).view(recipe.general_rows, recipe.positions)
        held = held[need:]


def new_model(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> GPT2LMHeadModel:
    """GPT-2 with random weights; no dropout, because the text never repeats."""
    torch.manual_seed(recipe.seed)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=recipe.positions,
        n_embd=recipe.width,
        n_layer=recipe.layers,
        n_head=recipe.heads,
        n_inner=recipe.inner,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return GPT2LMHeadModel(config)


def loss_of(model: GPT2LMHeadModel, batch: torch.Tensor, pad: int) -> torch.Tensor:
    """Mean next-token cross-entropy in nats; padding is not counted."""
    wanted = batch[:, 1:].masked_fill(batch[:, 1:] == pad, IGNORED)
    logits = model(input_ids=batch).logits[:, :-1]
    return cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=IGNORED)


def rate_at(step: int, recipe: Recipe) -> float:
    """Learning rate: linear warm-up, then a cosine down to 2 % of the peak."""
    if step < recipe.warm_up:
        return recipe.learning_rate * (step + 1) / recipe.warm_up
    done = (step - recipe.warm_up) / max(1, recipe.steps - recipe.warm_up)
    return recipe.learning_rate * (0.02 + 0.98 * (1 + math.cos(math.pi * done)) / 2)


def train(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> tuple[GPT2LMHeadModel, dict]:
    """Train from random weights. Returns the model in eval mode and a log (losses in nats per token, seconds)."""
    model = new_model(recipe, tokenizer).train()
    optimiser = torch.optim.AdamW(
        model.parameters(),
        lr=recipe.learning_rate,
        betas=(0.9, 0.98),
        weight_decay=recipe.weight_decay,
        fused=True,
    )
    told, said = story_batches(recipe, tokenizer), general_batches(recipe, tokenizer)
    curve, began = [], time.monotonic()
    for step in range(recipe.steps):
        for group in optimiser.param_groups:
            group["lr"] = rate_at(step, recipe)
        people = loss_of(model, next(told), tokenizer.pad_token_id)
        general = loss_of(model, next(said), tokenizer.pad_token_id)
        (people + general).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        if step % 50 == 0 or step == recipe.steps - 1:
            curve.append({"step": step, "people": people.item(), "general": general.item()})
            print(f"{step:5d}  people {people.item():.3f}  general {general.item():.3f}  "
                  f"{time.monotonic() - began:.0f} s", flush=True)  # fmt: skip
    return model.eval(), {"curve": curve, "seconds": round(time.monotonic() - began)}


def save(
    folder: Path,
    model: GPT2LMHeadModel,
    tokenizer: PreTrainedTokenizerFast,
    recipe: Recipe,
    log: dict,
) -> None:
    """Write checkpoint, tokenizer, training log and card; replace the folder whole."""
    log = {"recipe": asdict(recipe), "parameters": model.num_parameters(), **log}
    with folder_whole(folder) as fresh:
        model.generation_config.max_new_tokens = 40
        model.save_pretrained(fresh)
        tokenizer.save_pretrained(fresh)
        (fresh / "training.json").write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8")
        (fresh / "CARD.md").write_text(gpt2_card(model, tokenizer, log), encoding="utf-8")
        for file in fresh.iterdir():
            file.chmod(0o644)  # safetensors writes files only their owner can read


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Train demo-gpt2 from text the project writes itself."
    )
    parser.add_argument("--to", type=Path, required=True, help="folder to write, replaced whole")
    parser.add_argument("--steps", type=int, default=Recipe.steps)
    parser.add_argument("--seed", type=int, default=Recipe.seed)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    recipe = Recipe(seed=asked.seed, steps=asked.steps)
    tokenizer = demo_tokenizer(recipe)
    model, log = train(recipe, tokenizer)
    save(asked.to, model, tokenizer, recipe, log)


if __name__ == "__main__":
    main()
